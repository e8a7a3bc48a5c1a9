"""Which install of `opd` this is: what two processes that work together compare. Without tensors."""

import hashlib
import importlib
import platform
from importlib import metadata
from pathlib import Path

LIBRARIES = ("torch", "transformers", "tokenizers")  # those that a result depends on, by its rounding or its ids


def install() -> dict[str, str]:
    """The `opd` that would be imported here, by version and by digest of its sources, and what it stands on."""
    try:
        package = importlib.import_module("opd")
    except ModuleNotFoundError:
        return {"opd": "none"}
    folder = Path(str(package.__file__)).parent
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        whole.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    versions = {name: _version(name) for name in LIBRARIES}
    return {
        "opd": f"{package.__version__} ({whole.hexdigest()[:12]})",
        "python": platform.python_version(),
        **versions,
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
