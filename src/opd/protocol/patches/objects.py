"""A private store of git objects: trees go in, patches between them come out, and a patch is applied in it.

Nothing here has a work tree. Contents are handed to git as bytes, and a patch changes an index, never a file: so no
attribute, filter, hook, configuration or link of a workspace can have a say, and what a patch would do is known
before anything is written. Every call has its own environment, and reads no configuration but the store's.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opd.protocol.patches.source import Tree
from opd.records.errors import AnswerIsNo, AskedWrongly

NO_MODE = "000000"  # of a path that isn't there
_AUTHOR = "opd <opd@localhost> 0 +0000"  # of every commit, so that the same tree is the same commit

_DIFF = (
    *("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--binary", "--full-index"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--diff-algorithm=myers"),
)
_CONFIGURATION = {
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "true",
    "fastimport.unpackLimit": "1",  # a pack, whatever the number of objects
    "pack.compression": "0",  # the store lives for a second
}
_LONGEST_SECONDS = 120  # a patch that takes git longer is none that a person would read
_LARGEST_ALLOCATION = "256m"  # a few bytes of compressed patch can ask for any amount of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of a path between two trees: modes as git writes them, contents by their full ids."""

    path: bytes
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str


class GitFailed(OSError):
    """git ended with an error, whose own first line is the message; unless asked about a patch, it never should."""


class DoesNotApply(AnswerIsNo):
    """A patch does not fit a tree, in git's own words."""


class Objects:
    """The store; see `store`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._put = 0
        git("init", "--quiet", "--bare", "--template=", str(folder))

    def put(self, tree: Tree) -> str:
        """The name, in this store, of the git tree that holds exactly these files."""
        self._put += 1
        reference = f"refs/heads/tree-{self._put}"
        self._git("fast-import", "--quiet", "--done", "--depth=0", stdin=import_stream(tree, reference=reference))
        return reference

    def diff(self, old: str, new: str) -> bytes:
        """The patch between two trees; from the same trees, the same bytes."""
        return self._git("diff-tree", "-r", "--patch", *_DIFF, old, new)

    def apply(self, patch: bytes, tree: str) -> tuple[Change, ...]:
        """Each path at which this patch changes a tree, in git's order; raises `DoesNotApply`."""
        self._git("read-tree", tree)
        try:
            self._git("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
        except GitFailed as error:
            self._git("hash-object", "-w", "--stdin", stdin=patch)  # where this fails too, it is the machine
            raise DoesNotApply(str(error)) from error
        words = self._git("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", tree).split(b"\0")
        return tuple(_change(said.decode(), path) for said, path in zip(words[:-1:2], words[1::2], strict=True))

    def read(self, blobs: Collection[str]) -> dict[str, bytes]:
        """The contents of these ids."""
        answer = self._git("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
        contents, at = {}, 0
        for blob in blobs:
            begins = answer.index(b"\n", at) + 1  # behind `<id> blob <bytes>`
            at = begins + int(answer[at:begins].split()[2])
            contents[blob] = answer[begins:at]
            at += 1
        return contents

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return git(*arguments, stdin=stdin, repository=self._folder)


@contextmanager
def store() -> Iterator[Objects]:
    """A new store, which is gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="opd-objects-") as folder:
        yield Objects(Path(folder))


def git(*arguments: str, stdin: bytes = b"", repository: Path | None = None) -> bytes:
    """What git prints; raises `GitFailed` when it ends with an error, `AskedWrongly` where there is no git.

    Nothing of this process's environment but PATH reaches it, and no configuration of the machine or of a person.
    """
    program = shutil.which("git")
    if program is None:
        raise AskedWrongly("there is no git on the PATH, and patches are made and applied by it; install git")
    settings = [word for key, value in _CONFIGURATION.items() for word in ("-c", f"{key}={value}")]
    try:
        ended = subprocess.run(
            [program, *settings, *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            cwd=repository or "/",  # never where somebody else's repository might be found
            env=_environment(repository),
            timeout=_LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(f"git {arguments[0]} took more than {_LONGEST_SECONDS} s") from None
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "backslashreplace").strip().splitlines() or ["no reason given"]
        raise GitFailed(f"git {arguments[0]}: {said[0].removeprefix('error: ').removeprefix('fatal: ')}")
    return ended.stdout


def import_stream(tree: Tree, *, reference: str, message: str = "") -> bytes:
    """What `git fast-import` makes one commit without a parent from: exactly these files."""
    said = message.encode()
    lines = [b"commit %s\ncommitter %s\ndata %d\n%s\n" % (reference.encode(), _AUTHOR.encode(), len(said), said)]
    for path, file in tree.items():
        mode = b"100755" if file.executable else b"100644"
        lines.append(b"M %s inline %s\ndata %d\n" % (mode, _quoted(path), len(file.content)))
        lines += (file.content, b"\n")
    return b"".join([*lines, b"done\n"])


def _quoted(path: PurePosixPath) -> bytes:
    return b'"' + os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _environment(repository: Path | None) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOC_LIMIT": _LARGEST_ALLOCATION,
        "LC_ALL": "C",
        "TZ": "UTC",
    } | ({"GIT_DIR": str(repository)} if repository else {})


def _change(said: str, path: bytes) -> Change:
    old_mode, new_mode, old_id, new_id, _ = said.removeprefix(":").split(" ")
    return Change(path=path, old_mode=old_mode, new_mode=new_mode, old_id=old_id, new_id=new_id)
