"""The exploration's clock, its idle time and its units are what its files say."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from opd.protocol.report.exploring import exploration
from opd.protocol.report.sources import Sources

BEGAN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def utc(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "explore/attempt-001"
    folder.mkdir(parents=True)
    receipt = {"began_utc": utc(-2), "ended_utc": utc(100), "outcome": "submitted", "active_seconds": 102.0}
    (folder / "receipt.json").write_text(json.dumps(receipt))
    return folder


def lines(path, *values):
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def proxy(folder, number: int, begin: float, end: float) -> None:
    place = folder / "proxy" / f"{number:03d}"
    place.mkdir(parents=True)
    values = {
        "number": number, "checkpoint": f"/runs/r{number}/checkpoint-4", "mean": None, "began_at_seconds": begin,
        "ended_at_seconds": end,
    }  # fmt: skip
    (place / "outcome.json").write_text(json.dumps(values))


def explored(folder):
    return exploration(Sources(folder.parents[1], folder), "explore/attempt-001", started_utc=utc(0))


def command(text: str, at: float, process: int = 7) -> dict[str, object]:
    return {"at": utc(at), "monotonic": at, "shell": 7, "process": process, "last_exit": 0, "command": text}


def test_a_unit_ends_with_each_measurement_and_one_holds_the_rest(folder):
    proxy(folder, 1, 20, 30)
    proxy(folder, 2, 60, 70)
    lines(
        folder / "commands.jsonl",
        command("OUT=$RUNS/r1 on-device bash run.sh", 5),
        command("tail -f log", 9, process=8),
        command("ls", 15),
        command("OUT=$RUNS/r2 on-device bash run.sh", 40),
        command("fast-eval x", 55),
        command("OUT=$RUNS/r3 on-device bash run.sh", 80),
    )
    found = explored(folder)
    assert [(one.id, one.begin, one.end) for one in found.units] == [
        ("U-01", 0, 30), ("U-02", 30, 70), ("U-03", 70, 100),
    ]  # fmt: skip
    assert [[(command.begin, command.end) for command in one.commands] for one in found.units] == [
        [(5, 15)], [(40, 55)], [(80, 80)],
    ]  # fmt: skip


def test_an_unmeasured_training_stands_with_the_command_that_names_it_as_a_whole(folder):
    proxy(folder, 1, 20, 30)
    for name in ("smoke", "r", "other"):
        (folder / "runs" / name).mkdir(parents=True)
        lines(folder / "runs" / name / "metrics.jsonl", {"step": 6})
    lines(folder / "commands.jsonl", command("OUT=$RUNS/smoke on-device bash run.sh", 5))
    found = explored(folder)
    assert [[one.folder for one in unit.trainings] for unit in found.units] == [
        ["/runs/smoke"],
        ["/runs/other", "/runs/r"],
    ]


def test_sleep_of_the_machine_is_left_out_of_the_clock(folder):
    seconds = [
        {"utc": utc(at + (3600 if at > 10 else 0)), "monotonic": 500.0 + at, "cpu_share": 1.0} for at in range(20)
    ]
    lines(folder / "device.jsonl", *seconds)
    lines(folder / "commands.jsonl", command("on-device x", 3600 + 15))
    (unit,) = explored(folder).units
    assert unit.commands[0].begin == pytest.approx(15)


def test_idle_time_is_what_lies_between_busy_seconds_and_evaluation_is_not_idle(folder):
    def second(at: int, share: float, *, evaluating: bool = False) -> dict[str, object]:
        return {"utc": utc(at), "monotonic": float(at), "cpu_share": share, "evaluating": evaluating, "gpus": []}

    busy = [second(at, 1.0) for at in range(10)]
    idle = [second(at, 0.0) for at in range(10, 20)]
    measured = [second(at, 0.0, evaluating=True) for at in range(20, 30)]
    lines(folder / "device.jsonl", *busy, *idle, *measured, second(30, 0.0), second(31, 1.0))
    assert explored(folder).idle == ((9, 19),)


def test_a_busy_gpu_is_not_idle_whatever_the_processors_do(folder):
    gpu = {"index": 0, "uuid": "GPU", "busy": 0.9}
    lines(
        folder / "device.jsonl",
        *({"utc": utc(at), "monotonic": float(at), "cpu_share": 0.0, "gpus": [gpu]} for at in range(20)),
    )
    assert explored(folder).idle == ()


def test_a_command_with_variables_brings_the_programs_that_it_started_with_them_filled_in(folder):
    text = 'OUT="$RUNS/$name" on-device bash run.sh "${settings[@]}"'
    lines(folder / "commands.jsonl", command(text, 5), command("fast-eval x", 20), command(text, 31))
    program = {"pid": 1, "start_ticks": 1, "boot_id": "b"}
    lines(
        folder / "processes.jsonl",
        {"at": utc(1), "command": "bash explorer.sh"} | program,
        {"at": utc(6), "command": "python -m opd train a.toml --out /runs/r1"} | program,
        {"at": utc(21), "command": "fast-eval x"} | program,
    )
    proxy(folder, 1, 20, 30)
    found = explored(folder)
    (first,) = found.units[0].commands
    assert [one.value for one in first.programs] == ["python -m opd train a.toml --out /runs/r1"]
    assert (found.began.value, found.began.pointer) == (utc(1), "line:1/at"), "when its program was first seen"
