"""Is what another machine wrote to be seen here? A network's file system may show it late."""

from pathlib import Path

from opd.records.files import sha256


def unlike(path: Path, digest: str) -> str | None:
    """None when the file holds here, at this look, what has this SHA-256; else what is there instead, in a line."""
    try:
        names = {one.name for one in path.parent.iterdir()}  # has the names read anew
        if path.name not in names:
            return f"{path} is not there"
        found = sha256(path)
    except OSError as error:
        return f"{path} can't be read here ({error.strerror})"
    return None if found == digest else f"{path} has another content here"
