"""The ladder: the highest rung on which a program really ran, and why not a higher one."""

import itertools
import json
import sys
from pathlib import Path, PurePosixPath

import pytest

import opd
from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.sandbox import ladder
from opd.protocol.sandbox.ladder import BY_NAME, RUNGS, choose, climb, lacks
from opd.protocol.sandbox.view import Guarantee, Mount, View, python_mounts
from opd.protocol.supervision.supervise import supervise
from opd.records.errors import AskedWrongly

SAYS_WHAT_IT_GETS = """
import json
from opd.protocol.sandbox.ladder import climb
chosen = climb()
print(json.dumps([chosen.rung.name, dict(chosen.refused)]))
"""


def test_the_highest_rung_that_works_is_taken() -> None:
    reasons = [lacks(rung) for rung in RUNGS]
    first = reasons.index(None)
    chosen = climb()
    assert chosen.rung is RUNGS[first]
    assert list(chosen.refused) == [rung.name for rung in RUNGS[:first]]


def test_each_rung_prevents_at_least_what_the_next_one_does() -> None:
    for higher, lower in itertools.pairwise(RUNGS):
        assert higher.prevents >= lower.prevents
    assert RUNGS[0].prevents == frozenset(Guarantee)


def test_without_bubblewrap_the_next_rung_is_taken_and_the_reason_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    chosen = climb()
    assert chosen.rung is not BY_NAME["bubblewrap"]
    assert chosen.refused["bubblewrap"] == "bwrap is not installed (package bubblewrap)"


def test_a_bubblewrap_that_can_not_work_is_found_out_by_running_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    reason = lacks(BY_NAME["bubblewrap"])
    assert reason is not None
    assert "bwrap: No permissions to create new namespace" in reason
    with pytest.raises(AskedWrongly, match=r"sandbox bubblewrap doesn't work here: .*No permissions"):
        choose("bubblewrap")
    assert climb().rung is not BY_NAME["bubblewrap"]


def test_a_rung_is_taken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose("group") is BY_NAME["group"]
    with pytest.raises(AskedWrongly, match=r"sandbox 'chroot': there are auto, bubblewrap, unshare, landlock, group"):
        choose("chroot")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(AskedWrongly, match="need Linux, and this is darwin"):
        choose()


@pytest.mark.parametrize("outer", [rung.name for rung in RUNGS[:3]])
def test_within_a_sandbox_a_lower_rung_is_had(outer: str, tmp_path: Path) -> None:
    """Where namespaces are forbidden, as in most containers, the ladder goes down to Landlock."""
    if (reason := lacks(BY_NAME[outer])) is not None:
        pytest.skip(f"{outer} doesn't work here: {reason}")
    source = Path(opd.__file__).parents[1]
    scratch = PurePosixPath("/tmp")
    view = View(
        mounts=(
            *python_mounts(),
            Mount(source=source, target=PurePosixPath(source)),
            Mount(source=None, target=scratch),
        ),
        folder=scratch,
        environment={"PATH": "/usr/bin:/bin", "PYTHONPATH": PurePosixPath(source), "TMPDIR": scratch},
    )
    ended = supervise(
        BY_NAME[outer].command(view, [sys.executable, "-c", SAYS_WHAT_IT_GETS], mark=ladder.new_mark()),
        deadline=Deadline(Stopwatch(), seconds=60),
        grace_seconds=0,
        out=tmp_path / "out",
        err=tmp_path / "err",
    )
    assert ended.exit_code == 0, (tmp_path / "err").read_text()
    name, refused = json.loads((tmp_path / "out").read_text())
    assert name == ("landlock" if lacks(BY_NAME["landlock"]) is None else "group")
    assert {"bubblewrap", "unshare"} <= refused.keys()
    assert "not permitted" in refused["unshare"], refused
