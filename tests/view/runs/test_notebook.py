"""Boards and runs in a real notebook: a kernel runs the cells, and what a page would show is looked at.

kernel("run(…)")    executes a cell; gives its outputs, as they stand in the notebook at the end
kernel.updates      how often a block was drawn anew in place
"""

import asyncio
import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.view.story.test_pictures import contrast

from opd.view.terminal.notebook import _INKS, in_notebook
from opd.view.terminal.terminal import Display, display_of

pytestmark = pytest.mark.patient

Make = Callable[..., Path]
MISSING = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]

STEPS = """
import json, time
from opd.records.metrics import StepMetrics
from opd.records.settings import validated
from opd.view.terminal.board import EvaluateBoard, TrainBoard

def steps(path):
    for line in open(path):
        yield validated(StepMetrics, json.loads(line), source=path)
"""


class Kernel:
    """Executes cells one after the other in one kernel."""

    def __init__(self, folder: Path) -> None:
        import nbformat
        from nbclient import NotebookClient

        kernel = self

        class Client(NotebookClient):  # type: ignore[misc]
            def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
                kernel.updates += message["msg_type"] == "update_display_data"
                return super().process_message(message, cell, cell_index)

        self.updates = 0
        self.notebook = nbformat.v4.new_notebook()
        self._client = Client(self.notebook, timeout=120, kernel_name="python3", allow_errors=False)
        self._client.create_kernel_manager()
        self._client.km.transport = "ipc"  # no port, and nobody else's
        self._client.km.ip = str(folder / "k")
        self._loop = asyncio.new_event_loop()
        self._run(self._client.async_start_new_kernel(cwd=str(folder)))
        self._run(self._client.async_start_new_kernel_client())

    def __call__(self, source: str, *, failing: bool = False) -> list[Any]:
        import nbformat

        self.updates = 0
        cell = nbformat.v4.new_code_cell(source)
        self.notebook.cells.append(cell)
        self._client.allow_errors = failing
        self._run(self._client.async_execute_cell(cell, len(self.notebook.cells) - 1))
        return list(cell.outputs)

    def close(self) -> None:
        self._run(self._client._async_cleanup_kernel())
        self._loop.close()

    def _run(self, work: Any) -> None:
        self._loop.run_until_complete(work)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    if MISSING:
        pytest.skip(f"no notebook was run: pip install {' '.join(MISSING)}")
    started = Kernel(tmp_path_factory.mktemp("nb"))
    started(STEPS)
    yield started
    started.close()


def html_of(output: Any) -> str:
    assert output["output_type"] in {"display_data", "execute_result"}, output
    return "".join(output["data"]["text/html"])


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_a_training_is_one_block_that_is_drawn_anew_in_place(kernel: Kernel, make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t", steps=5)
    (block,) = kernel(f"""
board = TrainBoard(total_steps=5)
board.tell("sampler: engine")
with board:
    for metrics in steps({str(run / "metrics.jsonl")!r}):
        board.step(metrics)
        time.sleep(0.5)
    board.say("a <b>sink</b> was dropped")
""")
    shown = text_of(html_of(block))
    assert shown.splitlines()[:2] == ["sampler: engine", "a <b>sink</b> was dropped"]
    for words in ("opd train", "100 %", "step 5/5", "done in", "KL to teacher", "nats/token", "▇"):
        assert words in shown
    assert "<b>" not in html_of(block)
    assert block["data"]["text/plain"].split() == shown.split()
    assert "\x1b" not in str(block["data"])
    assert 2 <= kernel.updates <= 6, "once a second, and at the end"


def test_an_evaluation_is_one_block_too(kernel: Kernel, make_score: Make, tmp_path: Path) -> None:
    score = make_score(tmp_path / "s", [[1, 0], [1, 1]])
    (block,) = kernel(f"""
from opd.records.scores import Sample
with EvaluateBoard(total=4) as board:
    for line in open({str(score / "samples.jsonl")!r}):
        board.add([validated(Sample, json.loads(line), source="a sample")])
""")
    shown = text_of(html_of(block))
    assert "sample 4/4" in shown
    assert "running mean   0.750" in shown


def test_a_run_that_fails_leaves_its_last_state_and_its_error(kernel: Kernel) -> None:
    block, error = kernel("with TrainBoard(total_steps=5): raise ValueError('out of rows')", failing=True)
    assert "step 0/5" in text_of(html_of(block))
    assert error["ename"] == "ValueError"
    assert (
        kernel("import threading; [one.name for one in threading.enumerate() if one.name == 'opd-board']")[0]["data"][
            "text/plain"
        ]
        == "[]"
    )


def test_quiet_shows_nothing_and_a_stream_that_is_given_gets_lines(
    kernel: Kernel, make_run: Make, tmp_path: Path
) -> None:
    lines = make_run(tmp_path / "t", steps=2) / "metrics.jsonl"
    loop = f"[board.step(one) for one in steps({str(lines)!r})]"
    assert kernel(f"with TrainBoard(total_steps=2, quiet=True) as board: {loop}") == []
    said = kernel(f"""
import sys
with TrainBoard(total_steps=2, stream=sys.stdout) as board: {loop}
""")
    lines_said = "".join(one["text"] for one in said).splitlines()
    assert [line.split()[1] for line in lines_said] == ["1/2", "2/2"]


def test_a_command_behind_an_exclamation_mark_says_lines(kernel: Kernel, make_run: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "first", steps=3)
    outputs = kernel(f"import sys\n!{{sys.executable}} -m opd top {tmp_path}/runs")
    said = "".join(one["text"] for one in outputs)
    assert "first" in said
    assert "\x1b[" not in said


def test_runs_scores_comparisons_and_attempts_show_themselves(
    kernel: Kernel, make_run: Make, make_score: Make, make_attempt: Make, tmp_path: Path
) -> None:
    make_run(tmp_path / "run")
    make_score(tmp_path / "a", [[1, 0], [0, 0]])
    make_score(tmp_path / "b", [[1, 1], [1, 0]])
    make_attempt(tmp_path / "attempt", finals={60: 0.5})
    for expression, words in {
        f"opd.open('{tmp_path}/run')": ("Run ", "12 of 12"),
        f"opd.open('{tmp_path}/b')": ("ScoreFolder ", "95 % interval"),
        f"opd.open('{tmp_path}/b').comparison('{tmp_path}/a')": ("ScoreComparison", "+0.500"),
        f"opd.open('{tmp_path}/attempt')": ("AttemptFolder ", "command__t__m__none"),
    }.items():
        (shown,) = kernel(f"import opd\n{expression}")
        page = html_of(shown)
        assert [one for one in words if one not in text_of(page)] == []
        assert len(page) < 4_000
        assert "color" not in page, "ink and paper are the notebook's, light or dark"


def test_here_is_no_notebook_and_a_terminal_in_one_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    assert not in_notebook()
    monkeypatch.setenv("TERM", "xterm-color")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    assert display_of(Terminal()) is Display.LIVE  # type: ignore[arg-type]
    monkeypatch.setenv("JPY_PARENT_PID", str(os.getppid()))
    assert display_of(Terminal()) is Display.LINES  # type: ignore[arg-type]


@pytest.mark.parametrize("paper", [(255, 255, 255), (17, 17, 17)])
def test_the_inks_can_be_read_on_light_and_on_dark(paper: tuple[int, int, int]) -> None:
    for ink in _INKS.values():
        assert contrast([int(ink[at : at + 2], 16) for at in (1, 3, 5)], paper) >= 4
