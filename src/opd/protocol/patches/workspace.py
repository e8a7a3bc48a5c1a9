"""What an explorer finds to work on: the sources of `opd train`, or what a task brings, and a repository of its own.

workspace/
    src/opd/{cli,grading,models,records,train,view}/    what `opd train` runs on; no grader's questions, no scores
    recipes/*.toml
    run.sh                                              what the formal replay calls
    .git/                                               one commit, without a parent: there is no history to read
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from opd.protocol.patches.collection import collect
from opd.protocol.patches.objects import git, import_stream
from opd.protocol.patches.source import SourceFile, Tree, write
from opd.records.errors import AskedWrongly
from opd.records.places import PACKAGE, shipped_recipes

RUN_SCRIPT = PurePosixPath("run.sh")
ROOMS = ("cli", "grading", "models", "records", "train", "view")  # the rest judges, or holds the questions
SOURCES = {".py", ".typed", ".css", ".j2"}

_BRANCH = "main"
# no reflog, and a name, so that `git commit` works there
_CONFIGURATION = "\tlogAllRefUpdates = false\n[user]\n\tname = explorer\n\temail = explorer@localhost\n"


def base_files(*, run_script: str | None, workspace: Path | None = None) -> Tree:
    """The tree that a submission is a patch to: the install's own sources, or all of the folder `workspace`.

    `run_script` is put in as `run.sh`. Raises `AskedWrongly` for a folder with links, special files, hard links,
    empty folders or a repository in it, and for a tree without a run.sh.
    """
    tree = dict(_folder(workspace) if workspace else _package())
    if run_script is not None:
        tree[RUN_SCRIPT] = SourceFile(content=run_script.encode(), executable=True)
    if RUN_SCRIPT not in tree:
        raise AskedWrongly(f"{workspace or 'the task'} has no {RUN_SCRIPT}, which the formal replay calls; add one")
    return tree


def lay_out(tree: Tree, folder: Path) -> str:
    """The id of the only commit of the new workspace; the same tree has the same, at any time and place.

    Its repository has one branch, one commit without a parent, and no remotes, reflogs, hooks or alternates.
    """
    write(tree, folder)
    folder = folder.absolute()
    repository = folder / ".git"
    git("init", "--quiet", "--template=", f"--initial-branch={_BRANCH}", str(folder))
    with (repository / "config").open("a", encoding="utf-8") as configuration:
        configuration.write(_CONFIGURATION)
    stream = import_stream(tree, reference=f"refs/heads/{_BRANCH}", message="Base\n")
    git("fast-import", "--quiet", "--done", stdin=stream, repository=repository)
    git("read-tree", "HEAD", repository=repository)
    git("-C", str(folder), "update-index", "-q", "--refresh", repository=repository)
    return git("rev-parse", "HEAD", repository=repository).decode().strip()


def _package() -> Iterator[tuple[PurePosixPath, SourceFile]]:
    inside = PurePosixPath("src/opd")
    single = [PACKAGE / name for name in ("__init__.py", "__main__.py", "py.typed")]
    rooms = [path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*")) if path.suffix in SOURCES]
    for path in single + rooms:
        yield inside / path.relative_to(PACKAGE).as_posix(), SourceFile(content=path.read_bytes())
    for path in shipped_recipes().values():
        yield PurePosixPath("recipes") / path.name, SourceFile(content=path.read_bytes())


def _folder(workspace: Path) -> Tree:
    collected = collect(workspace, base={})
    if collected.refusals:
        raise AskedWrongly(f"{workspace}: {'; '.join(one.sentence for one in collected.refusals[:5])}")
    return collected.files
