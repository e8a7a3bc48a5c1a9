"""Interrupted at any point, an evaluation goes on to the same rows, the same tokens and the same score.

What a killed process leaves is what the folder holds at that moment. So a trace looks at the folder at every line of
the code that writes, keeps a copy of each state that it was in, and each copy is gone on with. The groups come last
first, as they may from several workers, so that the rows have to be put in order at the end.
"""

import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.records.files import PARTIAL
from opd.records.generation_table import read_generations

Trace = Callable[[FrameType, str, Any], Any]


def traced(run: Callable[[], None], at_line: Callable[[], None]) -> None:
    """Runs it, and calls `at_line` before every line of the evaluation and of what writes its files."""

    def local(_frame: FrameType, event: str, _value: Any) -> Trace:
        if event == "line":
            at_line()
        return local

    def entering(frame: FrameType, _event: str, _value: Any) -> Trace | None:
        ours = ("opd/evaluate/", "opd/records/files.py", "opd/records/generation_table.py")
        return local if any(part in frame.f_code.co_filename for part in ours) else None

    before = sys.gettrace()
    sys.settrace(entering)
    try:
        run()
    finally:
        sys.settrace(before)


def sizes(out: Path) -> dict[str, int]:
    return {str(path.relative_to(out)): path.stat().st_size for path in sorted(out.rglob("*")) if path.is_file()}


def outcome(out: Path) -> tuple[str, dict[str, Any], dict[tuple[str, int], tuple[int, ...]], list[str]]:
    """The rows, the score but for its seconds, the tokens, and the names of all files."""
    score = json.loads((out / "score.json").read_text())
    score.pop("seconds")
    drawn = [one for path in sorted((out / "generations").iterdir()) for one in read_generations(path)]
    tokens = {(one.question, one.sample): one.token_ids for one in drawn}
    assert len(tokens) == len(drawn), "a generation is kept twice"
    return (out / "samples.jsonl").read_text(), score, tokens, sorted(sizes(out))


@pytest.fixture(scope="module")
def whole(sums: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("whole") / "out"
    sums.evaluated(sums.half_right(), out)
    return out


@pytest.fixture(scope="module")
def states(sums: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A copy of each state that the folder of one evaluation was in, in the order of time."""
    folder = tmp_path_factory.mktemp("states")
    out, seen, copies = folder / "out", [{}], []

    def look() -> None:
        now = sizes(out) if out.exists() else {}
        if now != seen[-1]:
            seen.append(now)
            copies.append(Path(shutil.copytree(out, folder / f"state-{len(copies):03d}")))

    traced(lambda: sums.evaluated(sums.half_right(), out, backwards=True), look)
    look()
    return copies


def test_there_are_states_between_each_two_writes(states: list[Path]) -> None:
    """So that the next test holds for something: torn tables, tables without rows, rows without a score."""
    kinds = {
        (any(PARTIAL in name for name in found), len([name for name in found if "generations/" in name]), rows)
        for state in states
        for found in [sizes(state)]
        for rows in [found.get("samples.jsonl", 0) > 0]
    }
    assert "samples.jsonl.partial" in {name for state in states for name in sizes(state)}  # being put in order
    assert {(True, 1, False), (False, 1, False), (False, 1, True), (True, 2, True), (False, 3, True)} <= kinds
    assert "score.json" not in sizes(states[-3])
    assert len(states) >= 12


def test_a_process_killed_between_any_two_lines_leaves_what_can_be_completed(
    sums: Any, states: list[Path], whole: Path, tmp_path: Path
) -> None:
    for state in states:
        out = Path(shutil.copytree(state, tmp_path / state.name))
        sums.evaluated(sums.half_right(), out)
        assert outcome(out) == outcome(whole), f"gone on from {sizes(state)}"


@pytest.mark.patient
@settings(max_examples=60)
@given(data=st.data())
def test_a_write_that_was_torn_at_any_byte_is_completed(
    sums: Any, states: list[Path], whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """H16: the last of several appended rows may be there in part, and so may a file that was not renamed yet."""
    state = data.draw(st.sampled_from(states), label="state")
    out = Path(shutil.copytree(state, tmp_path_factory.mktemp("torn") / "out"))
    torn = [path for path in out.rglob("*") if path.name == "samples.jsonl" or path.name.endswith(PARTIAL)]
    if "score.json" not in sizes(out) and torn:
        path = data.draw(st.sampled_from(sorted(torn)), label="file")
        text = path.read_bytes()
        path.write_bytes(text[: data.draw(st.integers(0, len(text)), label="bytes")])
    sums.evaluated(sums.half_right(), out)
    assert outcome(out) == outcome(whole)
    shutil.rmtree(out.parent)


@pytest.fixture(scope="module")
def lines(sums: Any, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many lines an evaluation has, as often as they are run."""
    passed = [0]

    def count() -> None:
        passed[0] += 1

    out = tmp_path_factory.mktemp("counted") / "out"
    traced(lambda: sums.evaluated(sums.half_right(), out, backwards=True), count)
    return passed[0]


@pytest.mark.patient
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that were about to be closed
@settings(max_examples=60)
@given(share=st.floats(0, 1, exclude_min=True))
def test_an_exception_at_any_line_leaves_what_can_be_completed(
    sums: Any, lines: int, whole: Path, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    """Ctrl-C twice, or a disk that is full: the code's own clearing up runs, and may be what goes wrong."""
    out = tmp_path_factory.mktemp("raised") / "out"
    left = [math.ceil(share * lines)]

    def count_down() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        traced(lambda: sums.evaluated(sums.half_right(), out, backwards=True), count_down)
    sums.evaluated(sums.half_right(), out)
    assert outcome(out) == outcome(whole)
    shutil.rmtree(out.parent)
