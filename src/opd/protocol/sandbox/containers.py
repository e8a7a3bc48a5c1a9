"""Docker and Podman: the view as the options of `run`, for machines whose rule is that everything is a container.

The container's processes belong to a daemon, not to this one's tree; so the container has a name, and is removed by
it when its program ends, has to end, or loses its supervisor.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from opd.protocol.sandbox import view as seen
from opd.protocol.sandbox.launch import Launch, Orders, first_process, marked_environment
from opd.protocol.sandbox.view import Guarantee, Mount, View, Word
from opd.records.errors import AskedWrongly

_ASK_SECONDS = 10.0
_PASSED_ON = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "CONTAINER_HOST")  # to the client
_ISOLATION = (
    *("--rm", "--network", "none", "--ipc", "private", "--read-only"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "1000:1000"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of the image that the view names; the program is process 1 in it, or a child of a small one."""

    program: str

    @property
    def name(self) -> str:
        """The program's own."""
        return self.program

    @property
    def prevents(self) -> frozenset[Guarantee]:
        """What a container with these options can't do."""
        return frozenset(Guarantee)

    def missing(self) -> str | None:
        """What this machine lacks to try it; None: a client is there, and it reaches its daemon."""
        if shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        try:
            asked = subprocess.run([self.program, "info"], capture_output=True, timeout=_ASK_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"{self.program} info did not answer within {_ASK_SECONDS:g} s"
        lines = asked.stderr.decode(errors="replace").strip().splitlines()
        return None if asked.returncode == 0 else f"{self.program} info: {(lines or ['failed'])[-1]}"

    def version(self) -> str:
        """What the client says of itself."""
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def path(self, view: View, target: PurePosixPath) -> str:  # noqa: ARG002
        """Where a target lies for the program: there."""
        return str(target)

    def command(self, view: View, argv: Sequence[Word], *, mark: str) -> Launch:
        """How a program is started in this view; raises `AskedWrongly` for a view without an image."""
        name = f"opd-{mark}"
        orders = Orders(
            argv=[
                self.program,
                "run",
                *options(view, name=name, mark=mark),
                *seen.words(argv, view=view, moved=True),
            ],
            environment={key: os.environ[key] for key in _PASSED_ON if key in os.environ},
            folder="/",
            afterwards=[self.program, "rm", "--force", name],
        )
        return Launch(
            rung=self.name,
            argv=tuple(first_process("init")),
            orders=orders,
            mark=mark,
            own_processes=False,
            own_group=False,  # the limits are the container's
        )


def options(view: View, *, name: str, mark: str) -> list[str]:
    """The options of `run`, and the image."""
    if view.image is None:
        raise AskedWrongly("a container needs an image: set sandbox.image, or ask for another sandbox")
    return [
        *_ISOLATION,
        *("--name", name, "--label", f"opd.mark={mark}", "--workdir", str(view.folder)),
        *_limits(view),
        *(word for mount in view.mounts for word in _mount(mount, view)),
        *(word for place in _covers(view) for word in ("--tmpfs", f"{place}:ro,size=4k")),
        *(
            word
            for pair in marked_environment(seen.environment(view, moved=True), mark).items()
            for word in _set(pair)
        ),
        *(("--gpus", "all") if view.gpu else ()),
        view.image,
    ]


def _limits(view: View) -> Iterator[str]:
    limits = view.limits
    if limits.processes is not None:
        yield from ("--pids-limit", str(limits.processes))
    if limits.memory_bytes is not None:
        yield from ("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes))
    if limits.file_bytes is not None:
        yield from ("--ulimit", f"fsize={limits.file_bytes}")


def _mount(mount: Mount, view: View) -> tuple[str, str]:
    if mount.source is None:
        size = view.limits.scratch_bytes
        return "--tmpfs", f"{mount.target}:rw,mode=1777" + (f",size={size}" if size is not None else "")
    access = "" if mount.writable else ",readonly"
    source = str(mount.source.resolve())
    if "," in source:
        raise AskedWrongly(f"{source}: a container can't mount a path with a comma; move it")
    return "--mount", f"type=bind,source={source},target={mount.target}{access}"


def _covers(view: View) -> Iterator[PurePosixPath]:
    """Where the hidden folders would be seen; a hidden file is refused, since no option of `run` covers one."""
    for place in view.hidden:
        hidden = place.resolve()
        for mount in view.mounts:
            if mount.source is not None and hidden.is_relative_to(mount.source.resolve()):
                if hidden.is_file():
                    raise AskedWrongly(f"{hidden}: a container can hide a folder, not a file; hide its folder")
                yield mount.target / hidden.relative_to(mount.source.resolve())


def _set(pair: tuple[str, str]) -> tuple[str, str]:
    return "--env", "=".join(pair)
