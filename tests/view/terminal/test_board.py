import io
from collections.abc import Callable

import pytest
from rich.console import Console

from opd.records.metrics import StepMetrics
from opd.records.scores import Sample, Verdict
from opd.view.terminal.board import EvaluateBoard, TrainBoard

MakeMetrics = Callable[[int], StepMetrics]
MakeSample = Callable[..., Sample]


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def frame(board: TrainBoard | EvaluateBoard, *, width: int = 80) -> str:
    """What the board draws, as plain text."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(board.draw())
    return out.getvalue()


def test_the_frame_shows_everything_that_is_watched(metrics_of: MakeMetrics) -> None:
    clock = Clock()
    board = TrainBoard(total_steps=120, quiet=True, now=clock)
    for step in range(1, 75):
        clock.seconds += 0.5
        board.step(metrics_of(step))
    last = metrics_of(74)
    drawn = frame(board)
    assert "step 74/120" in drawn
    assert "62 %" in drawn
    assert "0:37 elapsed" in drawn
    assert "about 0:23 left" in drawn, "46 steps of half a second"
    for shown in (
        f"{last.kl:.3g} nats/token",
        f"{last.loss:.3g}",
        "cut short 0.0 %",
        f"{last.mean_tokens:.1f} tokens",
    ):
        assert shown in drawn
    assert "1.1e-07 nats/token" in drawn
    assert "sample 0.151, score 0.062, update 0.172" in drawn
    assert "█" in drawn, "the trend of the KL"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_a_board_on_a_terminal_is_drawn_from_its_first_moment(kind: str, metrics_of, sample_of, monkeypatch) -> None:
    """Before a step or a sample has ended, and afterwards; a message stays above the frame."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    shown = Terminal()
    board = TrainBoard(total_steps=2, stream=shown) if kind == "train" else EvaluateBoard(total=2, stream=shown)
    board.tell("told before")
    with board:
        board.say("said within")
        if isinstance(board, TrainBoard):
            board.step(metrics_of(1))
        else:
            board.add([sample_of("a", 0)])
    for text in ("told before", "said within", "running", "1/2"):
        assert text in shown.getvalue()


def test_the_wall_clock_bounds_what_is_left(metrics_of: MakeMetrics) -> None:
    clock, left = Clock(), 10.0
    board = TrainBoard(total_steps=120, quiet=True, now=clock, seconds_left=lambda: left)
    assert "at most 0:10 left" in frame(board)  # before any step, it is all that is known
    for step in (1, 2, 3):
        clock.seconds += 0.5
        board.step(metrics_of(step))
    assert "at most 0:10 left" in frame(board)
    assert "at most 0:10 left" in board.line()
    left = 100.0
    assert "about 0:58 left" in frame(board), "117 steps of half a second"


def test_what_a_step_is_warned_of_stands_under_the_frame_and_behind_the_line(metrics_of: MakeMetrics) -> None:
    warning = "the teacher gives the student's end of sequence -14.2 nats on average: " + "answers will grow " * 5
    board = TrainBoard(total_steps=9, quiet=True)
    board.step(metrics_of(1).model_copy(update={"warnings": (warning, "another")}))
    drawn = frame(board)
    assert max(len(line.rstrip()) for line in drawn.splitlines()) <= 80
    shown = " ".join(drawn.split())
    assert f"warning: {warning.strip()} warning: another" in shown
    assert board.line().endswith(f"warning: {warning}  warning: another")
    board.step(metrics_of(2))
    assert "warning" not in frame(board) + board.line()


def test_tokens_per_second_are_those_of_the_last_twenty_steps(metrics_of: MakeMetrics) -> None:
    board = TrainBoard(total_steps=50, quiet=True)
    for step in range(1, 31):
        board.step(metrics_of(step).model_copy(update={"trained_tokens": 10 if step <= 10 else 2000}))
    assert f"{20 * 2000 / (20 * 0.39):,.0f} tokens/s" in frame(board)


@pytest.mark.parametrize("seconds", [0.001, 0.39, 15.2, 812.4])
@pytest.mark.parametrize("steps", [(1, 9), (1999, 2057), (99_999, 100_000)])
def test_the_frame_fits_eighty_columns_and_nothing_is_cut(
    metrics_of: MakeMetrics, steps: tuple[int, int], seconds: float
) -> None:
    done, total = steps
    clock = Clock()
    board = TrainBoard(total_steps=total, quiet=True, now=clock)
    for step in (done - 1, done) if done > 1 else (done,):
        clock.seconds += seconds
        times = dict.fromkeys(("sample", "score", "update", "save", "total"), seconds)
        wide = {"seconds": times, "loss": -123_456.789, "kl": -0.000123, "cut_short": 0.998, "mean_tokens": 12_288.0}
        board.step(metrics_of(step).model_copy(update=wide))
    drawn = frame(board)
    assert max(len(line.rstrip()) for line in drawn.splitlines()) <= 80
    assert "…" not in drawn
    assert f"step {done:,}/{total:,}" in drawn
    assert len(drawn.splitlines()) == len(frame(board, width=200).splitlines()), "nothing wraps"


def test_a_resumed_run_counts_what_was_done_and_times_what_is_done_now(metrics_of: MakeMetrics) -> None:
    clock = Clock()
    board = TrainBoard(total_steps=100, quiet=True, now=clock)
    clock.seconds += 2
    board.step(metrics_of(91))
    drawn = frame(board)
    assert "step 91/100" in drawn
    assert "about 0:18 left" in drawn, "nine more steps of two seconds each"


def test_before_the_first_step_nothing_is_claimed() -> None:
    drawn = frame(TrainBoard(total_steps=10, quiet=True))
    assert "time left unknown" in drawn
    assert "nats" not in drawn


def test_a_pipe_gets_the_first_step_the_last_and_few_between(metrics_of: MakeMetrics) -> None:
    clock, pipe = Clock(), io.StringIO()
    with TrainBoard(total_steps=120, stream=pipe, now=clock, seconds_between_lines=10) as board:
        for step in range(1, 121):
            clock.seconds += 0.5
            board.step(metrics_of(step))
    lines = pipe.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == [
        "1/120",
        "21/120",
        "41/120",
        "61/120",
        "81/120",
        "101/120",
        "120/120",
    ]
    assert "\x1b" not in pipe.getvalue()
    assert "\r" not in pipe.getvalue()
    for part in ("loss ", "KL ", "nats/token", "cut short ", "tokens/s", "gap 1.1e-07", "sample 0.151", "done in"):
        assert part in lines[-1]


def test_a_run_that_fails_leaves_its_last_step_in_the_log(metrics_of: MakeMetrics) -> None:
    clock, pipe = Clock(), io.StringIO()

    def run(board: TrainBoard) -> None:
        for step in (1, 2, 3):
            clock.seconds += 0.5
            board.step(metrics_of(step))
        raise RuntimeError

    with pytest.raises(RuntimeError), TrainBoard(total_steps=120, stream=pipe, now=clock) as board:
        run(board)
    assert pipe.getvalue().splitlines()[-1].startswith("step 3/120")


def test_the_running_mean_is_that_of_the_samples_so_far(sample_of: MakeSample) -> None:
    clock = Clock()
    board = EvaluateBoard(total=2000, quiet=True, now=clock)
    verdicts = [Verdict.CORRECT] * 3 + [Verdict.WRONG] * 4 + [Verdict.CUT_SHORT]
    for question, verdict in enumerate(verdicts):
        clock.seconds += 0.25
        board.add([sample_of(question, 0, verdict, tokens=50)])
    drawn = frame(board)
    assert "sample 8/2,000" in drawn
    assert "0.375" in drawn
    assert "cut short 12.5 %" in drawn
    assert "50.0 tokens" in drawn
    assert "200 tokens/s" in drawn
    assert "about 8:18 left" in drawn, "1,992 more samples at four a second"


def test_a_grader_that_fails_is_not_counted_as_wrong(sample_of: MakeSample) -> None:
    board = EvaluateBoard(total=10, quiet=True)
    board.add([sample_of(0, 0), sample_of(1, 0, Verdict.WRONG), sample_of(2, 0, Verdict.GRADER_FAILED)])
    assert "0.500" in frame(board)
    assert "not settled: 1" in frame(board)


def test_only_failed_graders_leave_the_mean_undefined(sample_of: MakeSample) -> None:
    board = EvaluateBoard(total=10, quiet=True)
    board.add([sample_of(2, 0, Verdict.GRADER_FAILED)])
    assert "undefined" in frame(board)


def test_samples_of_an_earlier_call_count_and_say_nothing_about_the_speed(sample_of: MakeSample) -> None:
    clock = Clock()
    board = EvaluateBoard(total=1000, quiet=True, now=clock)
    board.add([sample_of(question, 0) for question in range(900)], found=True)
    clock.seconds += 5
    board.add([sample_of(900, 0, tokens=30), sample_of(901, 0, tokens=30)])
    drawn = frame(board)
    assert "sample 902/1,000" in drawn
    assert "12 tokens/s" in drawn
    assert "about 4:05 left" in drawn, "98 more at two in five seconds"


def test_the_frame_of_an_evaluation_fits_eighty_columns(sample_of: MakeSample) -> None:
    clock = Clock()
    board = EvaluateBoard(total=200_000, quiet=True, now=clock)
    clock.seconds += 3
    board.add([sample_of(question, 0, Verdict.GRADER_FAILED, tokens=12_288) for question in range(1234)])
    assert max(len(line.rstrip()) for line in frame(board).splitlines()) <= 80
    assert "…" not in frame(board)


def test_an_evaluation_without_samples_can_end(sample_of: MakeSample) -> None:
    pipe = io.StringIO()
    with EvaluateBoard(total=4, stream=pipe) as board:
        board.add([], found=True)
        frame(board)
    assert pipe.getvalue() == "", "nothing was found, so nothing is said"
    with EvaluateBoard(total=1, stream=pipe) as board:
        board.add([sample_of(0, 0)])
    assert "sample 1/1" in pipe.getvalue()
