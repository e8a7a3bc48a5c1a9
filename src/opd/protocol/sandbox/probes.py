"""What a rung really prevents on this machine: each forbidden thing is tried inside, and outside as a control.

    inside    outside     outcome
    refused   succeeds    prevented
    succeeds  –           not_prevented
    refused   refused     not_assessed: the refusal may have nothing to do with the sandbox

A report on isolation quotes this, never a configuration.
"""

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.sandbox.ladder import Rung, new_mark
from opd.protocol.sandbox.launch import start
from opd.protocol.sandbox.layout import INSIDE, INSIDE_TARGET
from opd.protocol.sandbox.planted import Planted, planted
from opd.protocol.sandbox.view import Guarantee, Mount, View, Word
from opd.protocol.supervision.processes import find
from opd.protocol.supervision.supervise import Ended, supervise
from opd.records.settings import Settings

Outcome = Literal["prevented", "not_prevented", "not_assessed"]

_SECONDS = 60.0
_BEATS_SECONDS = 0.15  # several beats of a daemon
_FROZEN, _SHOWN = PurePosixPath("/probe/frozen"), PurePosixPath("/probe/shown")
_WORK, _SCRATCH = PurePosixPath("/workspace"), PurePosixPath("/tmp")  # noqa: S108 the sandbox's own


class Probed(Settings):
    """One thing that was tried."""

    name: Guarantee
    outcome: Outcome
    declared: bool
    """Whether the rung is said to prevent it."""
    inside: str
    """What came of it in the sandbox."""
    outside: str
    """What came of the same action without one."""


class Isolation(Settings):
    """`isolation.json`: which sandbox this machine gives, and what it was seen to prevent."""

    rung: str
    version: str
    refused: dict[str, str]
    """Why not each of the rungs above it."""
    kernel: str
    machine: str
    user: Literal["root", "ordinary"]
    """Who supervises. Root's control groups hold limits that an ordinary user's looks only watch."""
    probes: tuple[Probed, ...]

    @property
    def prevented(self) -> frozenset[Guarantee]:
        """What was seen to be prevented."""
        return frozenset(probe.name for probe in self.probes if probe.outcome == "prevented")

    @property
    def broken(self) -> tuple[Guarantee, ...]:
        """What the rung is said to prevent and was seen not to: a reason to start nothing in it."""
        return tuple(probe.name for probe in self.probes if probe.declared and probe.outcome == "not_prevented")


def probe(rung: Rung, folder: Path, *, gpu: bool = False, refused: Mapping[str, str] | None = None) -> Isolation:
    """What this rung prevents here, with or without a GPU; the targets are planted in the folder, which is made."""
    folder.mkdir(parents=True)
    with planted(folder) as targets:
        view = _view(targets, gpu=gpu)
        inside, outside = _tried(rung, view, targets)
    inside[Guarantee.DAEMONS], outside[Guarantee.DAEMONS] = _left_daemons(rung, view, folder)
    system = os.uname()
    return Isolation(
        rung=rung.name,
        version=rung.version(),
        refused=dict(refused or {}),
        kernel=f"{system.sysname} {system.release}",
        machine=platform.machine(),
        user="root" if os.geteuid() == 0 else "ordinary",
        probes=tuple(
            Probed(
                name=name,
                outcome=_outcome(inside[name], outside[name]),
                declared=name in rung.prevents,
                inside=inside[name][1],
                outside=outside[name][1],
            )
            for name in Guarantee
        ),
    )


Result = tuple[bool, str]
"""Whether it succeeded, and what was said."""


def _outcome(inside: Result, outside: Result) -> Outcome:
    if inside[0]:
        return "not_prevented"
    return "prevented" if outside[0] else "not_assessed"


def _view(targets: Planted, *, gpu: bool) -> View:
    (targets.folder / "work").mkdir()
    return View(
        mounts=(
            Mount(source=targets.frozen, target=_FROZEN),
            Mount(source=targets.shown, target=_SHOWN),
            Mount(source=targets.folder / "work", target=_WORK, writable=True),
            Mount(source=INSIDE.parent, target=PurePosixPath(INSIDE_TARGET).parent),
            Mount(source=None, target=_SCRATCH),
        ),
        hidden=(targets.hidden,),
        folder=_WORK,
        environment={"PATH": "/usr/bin:/bin"},
        gpu=gpu,
    )


def _tried(rung: Rung, view: View, targets: Planted) -> tuple[dict[Guarantee, Result], dict[Guarantee, Result]]:
    """All but the daemons: inside first, so that what the control does to the targets comes too late to matter."""
    told = targets.targets(
        frozen=rung.path(view, _FROZEN / "answers.txt"),
        hidden=rung.path(view, _SHOWN / "final" / "word.txt"),
        scratch=rung.path(view, _WORK),
    )
    ended, inside = _run_inside(rung, view, told, targets.folder / "inside")
    for name in targets.reached():
        inside[Guarantee(name)] = (True, "it was reached, says what was reached")
    told = targets.targets(
        frozen=str(targets.frozen / "answers.txt"),
        hidden=str(targets.hidden / "word.txt"),
        scratch=str(targets.folder),
    )
    outside = _run_outside(told, targets.folder / "outside.json")
    silent = (False, f"not tried: the probing program ended by {ended.reason}, exit code {ended.exit_code}")
    unknown = (False, "not tried")
    for name in Guarantee:
        if name not in inside:
            inside[name], outside[name] = silent, unknown
        outside.setdefault(name, unknown)
    return inside, outside


def _run_inside(rung: Rung, view: View, told: Mapping[str, str], logs: Path) -> tuple[Ended, dict[Guarantee, Result]]:
    logs.mkdir()
    work = next(mount.source for mount in view.mounts if mount.target == _WORK)
    assert work is not None, "mounted above"
    (work / "targets.json").write_text(json.dumps(told))
    argv: list[Word] = [*start("probing"), PurePosixPath(INSIDE_TARGET), _WORK / "targets.json"]
    ended = supervise(
        rung.command(view, argv, mark=new_mark()),
        deadline=Deadline(Stopwatch(), seconds=_SECONDS),
        grace_seconds=0.0,
        out=logs / "out",
        err=logs / "err",
    )
    return ended, _results((logs / "out").read_text())


def _run_outside(told: Mapping[str, str], file: Path) -> dict[Guarantee, Result]:
    file.write_text(json.dumps(told))
    argv = [*start("probing"), str(INSIDE), str(file)]
    return _results(subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False).stdout)


def _results(text: str) -> dict[Guarantee, Result]:
    said = [json.loads(line) for line in text.splitlines()]
    return {Guarantee(one["name"]): (one["done"], one["said"]) for one in said}


def _left_daemons(rung: Rung, view: View, folder: Path) -> tuple[Result, Result]:
    """Whether a daemon beats: inside, after the supervisor has returned; outside, after its parent has ended."""
    work = folder / "work"
    ended, _ = _run_inside(rung, view, {"beat": rung.path(view, _WORK / "beat")}, folder / "daemon")
    if not (work / "beat").exists():
        inside = (False, f"not tried: the probing program ended by {ended.reason}, exit code {ended.exit_code}")
        return inside, (False, "not tried")
    beats = _beats(work / "beat")
    inside = (beats, "it still ran" if beats else f"{len(ended.left_processes)} left processes were ended")
    _run_outside({"beat": str(folder / "beat")}, folder / "daemon.json")
    alive = _beats(folder / "beat")
    if (life := find(int((folder / "beat").read_text().split()[0]))) is not None:
        life.signal(9)
    return inside, (alive, "it still ran" if alive else "it had ended")


def _beats(file: Path) -> bool:
    before = file.stat().st_size
    time.sleep(_BEATS_SECONDS)
    return file.stat().st_size > before
