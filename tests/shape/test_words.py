"""What the project's files say stays true on any machine, and leads only where a reader may follow."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

READ = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml", "constraints.txt", "dev")
FOLDERS = (".ci", "src", "tests", "docs", "examples", "benchmarks", "recipes", "tasks")
TEXT = {
    "",
    ".cfg",
    ".css",
    ".cu",
    ".cuh",
    ".html",
    ".j2",
    ".js",
    ".json",
    ".jsonl",
    ".md",
    ".py",
    ".sh",
    ".svg",
    ".toml",
    ".txt",
}
HOSTS = {  # where a link may lead; a place to install from is each user's own choice
    "arxiv.org",
    "doi.org",
    "en.wikipedia.org",
    "git-lfs.github.com",  # the first line of a pointer file
    "github.com",
    "huggingface.co",
    "in-toto.io",  # names of types, in attestations and crates
    "keepachangelog.com",
    "schema.org",
    "semver.org",
    "slsa.dev",
    "w3id.org",
    "www.apache.org",
    "www.w3.org",  # names of XML name spaces
    "localhost",
    "127.0.0.1",
}
RESERVED = (
    ".example",
    ".invalid",
    ".test",
    "example.com",
    "example.org",
    "192.0.2.1",
)  # what leads nowhere, by RFC 2606 and RFC 5737

# written in pieces, so that this file passes its own test
MACHINE_PATH = re.compile(r"(?<![\w.\\])/(?:" + "|".join(["work", "root", "farm", r"home/\w+", r"Users/\w+"]) + r")/")
REGISTRY = re.compile(
    r"\b(?:" + "|".join(["py" + "pi", "python" + "hosted", "npm" + "js", "debian"]) + r")\.(?:org|com)\b"
)
LINK = re.compile(r"https?://([\w.-]+)")


def faults(text: str) -> Iterator[str]:
    """What in a text holds on one machine only, or leads where this project doesn't send anyone."""
    for found in (*MACHINE_PATH.finditer(text), *REGISTRY.finditer(text)):
        yield found.group()
    for found in LINK.finditer(text):
        host = found.group(1)
        if host not in HOSTS and not host.endswith(RESERVED):
            yield found.group()


def texts(root: Path) -> Iterator[Path]:
    yield from (root / name for name in READ if (root / name).is_file())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts:
                yield path


def test_no_file_names_a_place_on_one_machine_or_a_host_to_install_from(root):
    read = {path: path.read_text(encoding="utf-8") for path in texts(root)}
    assert root / "dev" in read
    found = [f"{path.relative_to(root)}: {fault}" for path, text in read.items() for fault in faults(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("see /wor" + "k/main", ["/wor" + "k/"]),
        ("'/ro" + "ot/x'", ["/ro" + "ot/"]),
        ("/ho" + "me/ann/x", ["/ho" + "me/ann/"]),
        ("pip install -i py" + "pi.org/simple", ["py" + "pi.org"]),
        ("http" + "://mirror.internal/simple", ["http" + "://mirror.internal"]),
        ("https://github.com/a/b and https://hub.example/x", []),
        ("src/wor" + "k/x, \\ro" + "ot/, network/ro" + "ot", []),
    ],
)
def test_planted_words_are_found_and_harmless_ones_are_not(planted, found):
    assert list(faults(planted)) == found
