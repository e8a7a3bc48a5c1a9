"""What the pages take from npm is what a list says, byte for byte, with the licence of each package."""

import hashlib
from pathlib import Path

import opd

VENDOR = Path(opd.__file__).parent / "view/server/assets/vendor"
LISTED = [line.split() for line in (VENDOR / "SOURCES").read_text().splitlines() if not line.startswith("#")]


def test_every_file_is_the_one_that_is_listed_and_there_is_no_other() -> None:
    held = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    del held["SOURCES"]
    assert held == {name: digest for _, _, _, name, digest in LISTED}


def test_every_package_brings_its_licence() -> None:
    licensed = {package for package, _, inside, _, _ in LISTED if "LICENSE" in inside}
    assert licensed >= {package for package, *_ in LISTED}
