"""Following runs: what is read once, what is said, what fits."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from opd.records.files import append_lines
from opd.records.metrics import StepMetrics
from opd.view.growing import news
from opd.view.terminal.top import Pulse, Seen, Watch, changes

Make = Callable[..., Path]


def drawn(watch: Watch, width: int) -> list[str]:
    console = Console(width=width, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(watch.draw(width=width))
    return captured.get().rstrip("\n").split("\n")


def test_a_pulse_that_was_taken_bit_by_bit_is_that_of_the_whole_file(make_run: Make, tmp_path: Path) -> None:
    whole = (make_run(tmp_path / "t", steps=40) / "metrics.jsonl").read_bytes()
    path = tmp_path / "growing.jsonl"
    bit_by_bit = Pulse()
    for end in [*range(0, len(whole), 977), len(whole)]:
        path.write_bytes(whole[:end])
        bit_by_bit = bit_by_bit.after(news(path, start=bit_by_bit.end))
    assert bit_by_bit.end == len(whole)
    at_once = Pulse().after(news(path))
    assert (bit_by_bit.kl, bit_by_bit.recent) == (at_once.kl, at_once.recent)
    assert bit_by_bit.seconds == pytest.approx(at_once.seconds)


def test_a_run_that_went_back_to_an_earlier_step_is_read_anew(make_run: Make, tmp_path: Path) -> None:
    path = make_run(tmp_path / "t", steps=9) / "metrics.jsonl"
    before = Pulse().after(news(path))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    after = before.after(news(path, start=before.end))
    assert (len(before.kl), len(after.kl)) == (9, 4)
    assert after.seconds == pytest.approx(4 * 0.39)


def test_speed_is_tokens_over_seconds_of_the_last_steps(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    lines = [{"step": n, "trained_tokens": 100 * n, "seconds": {"total": 2.0}} for n in range(1, 31)]
    append_lines(path, lines)
    pulse = Pulse().after(news(path))
    assert pulse.step_seconds == 2.0
    assert pulse.tokens_per_second == sum(100 * n for n in range(11, 31)) / 40
    assert Pulse().tokens_per_second is None


@pytest.mark.parametrize("width", [60, 80, 100, 140, 220])
def test_the_table_fits_and_no_number_is_cut(make_run: Make, make_score: Make, tmp_path: Path, width: int) -> None:
    run = make_run(tmp_path / "a-name-that-is-much-longer-than-anyone-would-want-it-to-be" / "t")
    make_score(tmp_path / "s", [[1, 0], [1, 1]], model=run / "checkpoint-12")
    watch = Watch([tmp_path])
    watch.look()
    lines = drawn(watch, width)
    assert [line for line in lines if cell_len(line) > width] == []
    (told,) = [line for line in lines if "12/12" in line]
    assert "finished" in told
    assert "0.750 ± 0.250" in told
    kl = watch.seen[0].pulse.kl[-1]
    assert f"{kl:.3g}" in told


def test_those_that_go_on_stand_first(make_run: Make, held: Callable[..., object], tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    running = make_run(tmp_path / "z", ended=False, steps=3)
    watch = Watch([tmp_path])
    with held(running):  # type: ignore[attr-defined]  # a context manager
        watch.look()
        assert [line.split()[0] for line in drawn(watch, 120)] == ["run", "z", "a"]
        assert not watch.over
    watch.look()
    assert watch.over


def test_what_is_left_is_said_from_the_last_steps_and_silence_is_noticed(
    make_run: Make, held: Callable[..., object], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "t", ended=False, steps=2)  # 0.39 s each, 10 to come
    written = (run / "metrics.jsonl").stat().st_mtime
    clock = [written]
    watch = Watch([tmp_path], now=lambda: clock[0])
    with held(run):  # type: ignore[attr-defined]  # a context manager
        (one,) = watch.look()
        assert watch.line(one).endswith("about 0:04 left")
        clock[0] = written + 3
        assert watch.line(one).endswith("about 0:01 left")
        clock[0] = written + 125
        assert watch.line(one).endswith("silent for 2:05")


def test_a_warning_of_the_last_step_is_shown(
    make_run: Make, held: Callable[..., object], metrics_of: Callable[[int], StepMetrics], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "t", ended=False, steps=2)
    warned = metrics_of(3).model_copy(update={"warnings": ("the KL \x1b[1mrose",)})
    append_lines(run / "metrics.jsonl", [warned.resolved()])
    with held(run):  # type: ignore[attr-defined]  # a context manager
        watch = Watch([tmp_path])
        (one,) = watch.look()
        assert watch.line(one).endswith("warning: the KL ⟨U+001B⟩[1mrose")


def test_only_changes_are_changes(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t", ended=False, steps=2)
    watch = Watch([tmp_path])
    before: tuple[Seen, ...] = watch.look()
    assert changes(before, watch.look()) == []
    assert changes((), before) == list(before)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    append_lines(run / "metrics.jsonl", [json.loads(lines[-1]) | {"step": 3}])
    assert [one.run.step for one in changes(before, watch.look())] == [3]
    make_run(tmp_path / "new")
    assert [one.run.name for one in changes(before, watch.look())] == ["new", "t"]


def test_to_follow_a_run_changes_nothing_in_it(make_run: Make, make_attempt: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "t", ended=False)
    make_attempt(tmp_path / "a")

    def state() -> list[tuple[str, int, int]]:
        return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*"))

    before, watch = state(), Watch([tmp_path])
    for _ in range(3):
        watch.look()
    assert state() == before
