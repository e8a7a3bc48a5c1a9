"""Where one of Harbor's environments lives: a folder of the host that stands for its whole disk, and programs in it.

    <ground>/workspace  logs  tests  solution  tmp …     the environment's own folders, as long as it lives
    /inputs/student …                                    the task's fixed inputs, read-only

Each command runs in a sandbox of its own, without network, and ends with everything that it started: what a command
leaves in the background is not there for the next. There is one user, who is not root. Files are carried in and out
while nothing of the environment runs, and no link in it is followed.
"""

import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.inputs import find
from opd.protocol.packages.catalogue import FILE, read_task, read_toml
from opd.protocol.phases import WORKSPACE, input_places
from opd.protocol.sandbox.interpreter import Interpreter, this_interpreter
from opd.protocol.sandbox.ladder import Rung, new_mark
from opd.protocol.sandbox.view import Limits, Mount, View, own_code, python_mounts
from opd.protocol.supervision.supervise import supervise
from opd.records.errors import AskedWrongly
from opd.records.tasks import Task

FOLDERS = ("app", "home", "installed-agent", "logs", "root", "runtime", "solution", "tests", "tmp", "workspace")
HARBORS = ("logs/agent", "logs/verifier", "logs/artifacts")  # it writes and reads there without making them
TIMED_OUT = 124  # as `timeout` says it

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_LOOK_SECONDS = 0.2
_NOT_STARTED = 126


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command came to."""

    stdout: str
    stderr: str
    exit_code: int  # 128 and the signal's number where one ended it; 124 where its time was up
    timed_out: bool


class Ground:
    """One environment's disk; who judges sees the install in it, and who is judged doesn't."""

    def __init__(
        self, root: Path, *, rung: Rung, mounts: Iterable[Mount] = (), sees_install: bool, gpu: bool = False,
        memory_bytes: int | None = None, processes: int | None = None, python: Interpreter | None = None,
    ) -> None:  # fmt: skip
        self.root = root
        self._python = python or this_interpreter()
        self._rung = rung
        self._mounts = tuple(mounts)
        self._sees_install = sees_install
        self._gpu = gpu
        self._limits = Limits(memory_bytes=memory_bytes, processes=processes)

    def make(self) -> None:
        """The empty folders are there."""
        for name in (*FOLDERS, *HARBORS):
            (self.root / name).mkdir(parents=True)
            (self.root / name).chmod(0o777)

    def remove(self) -> None:
        """Nothing of it is there."""
        shutil.rmtree(self.root, ignore_errors=True)

    def place(self, path: str) -> Path:
        """Where a path of the environment lies on the host; raises `AskedWrongly` for one that leads out of it."""
        inside = PurePosixPath(path)
        if (
            not inside.is_absolute()
            or ".." in inside.parts
            or len(inside.parts) < 2
            or inside.parts[1] not in FOLDERS
        ):
            raise AskedWrongly(f"{path!r} lies outside: write it absolute, below one of /{', /'.join(FOLDERS)}")
        here = self.root
        for part in inside.parts[1:]:
            here /= part
            if here.is_symlink():
                raise AskedWrongly(
                    f"{path!r} leads through a link, {here.relative_to(self.root)}; links aren't followed"
                )
        return here

    def put(self, source: Path, target: str) -> None:
        """A file of the host, or all that is in a folder of it, lies at the target."""
        _copy(source, self.place(target))

    def take(self, source: str, target: Path) -> tuple[str, ...]:
        """A file, or all that is in a folder, lies on the host; gives what was left out, since it is no file."""
        place = self.place(source)
        if not place.exists():
            raise AskedWrongly(f"{source!r} is not in the environment")
        return tuple(path.relative_to(place).as_posix() for path in _copy(place, target))

    def run(
        self, command: str, *, folder: str, environment: Mapping[str, str], seconds: float | None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Said:  # fmt: skip
        """What a line of bash came to; everything that it started is over. `stop` is asked a few times a second."""
        with tempfile.TemporaryDirectory(prefix="opd-said-") as away:
            out, err = Path(away) / "out", Path(away) / "err"
            ended = supervise(
                self._rung.command(self._view(folder, environment), ["bash", "-c", command], mark=new_mark()),
                deadline=None if seconds is None else Deadline(Stopwatch(), seconds=seconds),
                grace_seconds=0.0,
                out=out,
                err=err,
                stop=lambda: "cancelled" if stop() else None,
                tick_seconds=_LOOK_SECONDS,
            )
            stdout, stderr = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
        if ended.reason in {"not_started", "lost", "limit"}:
            stderr += f"{ended.stopped_because}\n"
        return Said(
            stdout=stdout,
            stderr=stderr,
            exit_code=_exit_code(ended.exit_code, ended.signal, timed_out=ended.reason == "deadline"),
            timed_out=ended.reason == "deadline",
        )

    def _view(self, folder: str, environment: Mapping[str, str]) -> View:
        (package,) = own_code(self._python)
        interpreter = (
            *python_mounts(),
            *python_mounts(self._python),
        )  # the sandbox's first program is run by this one
        shown = any(mount.source and package.is_relative_to(mount.source.resolve()) for mount in interpreter)
        code = (Mount(source=package, target=PurePosixPath(package)),) if self._sees_install and not shown else ()
        own = (Mount(source=self.root / name, target=PurePosixPath("/", name), writable=True) for name in FOLDERS)
        return View(
            mounts=(*interpreter, *code, *own, *self._mounts),
            folder=PurePosixPath(folder),
            environment={
                "PATH": f"{self._python.program.parent}:{_SYSTEM_PATH}",
                "HOME": "/home",
                "LANG": "C.UTF-8",
                "HF_HUB_OFFLINE": "1",
                **environment,
            },
            hidden=() if self._sees_install else tuple(dict.fromkeys((package, *own_code()))),
            gpu=self._gpu,
            limits=self._limits,
        )


def task_of(*folders: Path) -> Task | None:
    """The task whose task.toml lies in the first of these folders that has one; None for a task that isn't opd's."""
    for folder in folders:
        if (folder / FILE).is_file():
            return read_task(folder) if "opd" in read_toml(folder).get("metadata", {}) else None
    return None


def input_mounts(task: Task, given: Mapping[str, Path], made: Path) -> tuple[Mount, ...]:
    """The fixed inputs of a task at their places; a file of chosen rows is made in the folder `made`.

    Raises what `inputs.find` raises: for one that isn't at hand, and for one that isn't what the task pins.
    """
    found = find(task.contract, given, made_in=made).under(made)
    return tuple(Mount(source=found.path(role), target=place) for role, place in input_places(task.contract).items())


def start_tree(environment: Path) -> tuple[Path, str]:
    """What an agent's environment starts from, and where that lies in it.

    Raises `AskedWrongly` where there is no such tree: an image can't be built here.
    """
    workspace = environment / "workspace"
    if not workspace.is_dir():
        raise AskedWrongly(
            f"{workspace} is not there: this environment shows the host's own programs and lays out "
            "environment/workspace/; a task that needs the image of its Dockerfile runs under docker"
        )
    return workspace, str(WORKSPACE)


def _copy(source: Path, target: Path) -> list[Path]:
    """Copies a file, or what is in a folder, and gives what it left out: links, devices, FIFOs, sockets."""
    left_out: list[Path] = []
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    for path in _below(source):
        place = target / path.relative_to(source) if path != source else target
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            place.mkdir(parents=True, exist_ok=True)
        elif stat.S_ISREG(mode):
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_symlink():
                place.unlink()
            shutil.copy2(path, place)
        else:
            left_out.append(path)
    return left_out


def _below(source: Path) -> Iterator[Path]:
    if not source.is_dir() or source.is_symlink():
        yield source
        return
    for path in sorted(source.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)


def _exit_code(code: int | None, signal_name: str | None, *, timed_out: bool) -> int:
    import signal

    if timed_out:
        return TIMED_OUT
    if signal_name is not None:
        return 128 + signal.Signals[signal_name]
    return _NOT_STARTED if code is None else code
