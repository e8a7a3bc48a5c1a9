"""What each sink was given, read back with its own reader."""

import importlib.util
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opd.records.files import read_json, read_lines
from opd.train.run import prepare, run
from opd.train.saved.resume import find_start


def tensorboard_scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Each series by step, as TensorBoard shows it; a step that comes twice is an error."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(folder)).Reload()
    series = {tag: [(one.step, one.value) for one in seen.Scalars(tag)] for tag in seen.Tags()["scalars"]}
    for tag, points in series.items():
        assert len(dict(points)) == len(points), tag
    return {tag: dict(points) for tag, points in series.items()}


def by_name(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """The oracle: the numbers of `metrics.jsonl` in float32, by name and step, by a definition of its own."""
    found: dict[str, dict[int, float]] = {}
    for one in lines:
        for key, value in one.items():
            inner = (
                {f"{key}/{name}": number for name, number in value.items()}
                if isinstance(value, dict)
                else {key: value}
            )
            for name, number in inner.items():
                if name != "step" and isinstance(number, int | float):
                    found.setdefault(name, {})[one["step"]] = float(np.float32(number))
    return found


@pytest.mark.patient
def test_tensorboard_shows_what_metrics_jsonl_holds_and_the_recipe(make_recipe, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is part of the tools: ./dev installs it")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe, out = make_recipe('sinks.to=["tensorboard"]'), tmp_path / "runs" / "x"
    run(recipe, prepare(recipe, out), out)
    scalars = tensorboard_scalars(out)
    assert scalars == by_name(list(read_lines(out / "metrics.jsonl")))
    assert {"loss", "gap/mean", "seconds/update", "objective/ratio"} <= scalars.keys()
    (text,) = EventAccumulator(str(out)).Reload().Tensors("recipe")
    shown = text.tensor_proto.string_val[0].decode()
    assert json.loads(shown.removeprefix("```json\n").removesuffix("\n```")) == recipe.resolved()
    assert not (out / "events.jsonl").exists()


@pytest.mark.patient
def test_tensorboard_shows_a_resumed_run_without_the_steps_that_were_made_again(
    make_recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try makes 3 steps and is broken after its last state, at 2; the second goes on from there to 5."""
    pytest.importorskip("tensorboard", reason="TensorBoard is part of the tools: ./dev installs it")
    recipe, out = make_recipe('sinks.to=["tensorboard"]', "budget.steps=5", "save.every=2"), tmp_path / "run"

    def power_cut(metrics: Any) -> None:
        if metrics.step == 3:
            raise KeyboardInterrupt("SIGTERM")

    with pytest.raises(KeyboardInterrupt):
        run(recipe, prepare(recipe, out), out, report=power_cut)
    assert sorted(tensorboard_scalars(out)["loss"]) == [1, 2, 3]
    first_seconds = tensorboard_scalars(out)["seconds/update"][3]
    start = find_start(recipe, out)
    assert start.step == 2
    run(recipe, prepare(recipe, out, start=start), out, start=start)
    scalars = tensorboard_scalars(out)
    assert scalars == by_name(list(read_lines(out / "metrics.jsonl")))
    assert sorted(scalars["loss"]) == [1, 2, 3, 4, 5]
    assert scalars["seconds/update"][3] != first_seconds, "step 3 is that of the second try"
    assert len(list(out.glob("events.out.tfevents.*"))) == 2


def needs(package: str, megabytes: int) -> pytest.MarkDecorator:
    """Skipped without the package, which the tools don't bring for its size."""
    there = importlib.util.find_spec(package)
    reason = f"{package} brings {megabytes} MB and is not among the tools; pip install 'opd[{package}]' to check it"
    return pytest.mark.skipif(there is None or there.origin is None, reason=reason)


@pytest.mark.patient
@needs("trackio", 60)
def test_trackio_keeps_a_resumed_run_as_one_in_its_database(
    bare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    bare.show([bare.line(1), bare.line(2)], "trackio")
    bare.show([bare.line(3)], "trackio", step=2)
    assert bare.events == []
    with sqlite3.connect(tmp_path / "trackio" / "tests.db") as database:
        rows = database.execute("select run_name, step, metrics from metrics order by step").fetchall()
        configs = database.execute("select run_name, config from configs").fetchall()
    name = f"one-{read_json(bare.out / 'sinks' / 'trackio.json')['id']}"
    assert [(one, step, json.loads(metrics)) for one, step, metrics in rows] == [
        (name, step, bare.written(step)) for step in (1, 2, 3)
    ]
    assert [(one, {key: json.loads(config)[key] for key in bare.recipe}) for one, config in configs] == [
        (name, bare.recipe)
    ]


def wandb_records(path: Path) -> Iterator[Any]:
    """What an offline W&B file holds: protocol buffers in the log format of LevelDB, after 7 bytes of its own."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, parts = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if (left := 32_768 - place % 32_768) < 7:  # no header crosses the end of a block
            place += left
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in {1, 4}:  # a whole record, or the last part of one
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


@pytest.mark.patient
@needs("wandb", 81)
def test_wandb_offline_keeps_each_try_of_a_run_under_one_number(bare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    bare.show([bare.line(1), bare.line(2)], "wandb")
    bare.show([bare.line(3)], "wandb", step=2)
    assert bare.events == []
    identity = read_json(bare.out / "sinks" / "wandb.json")["id"]
    tries = sorted((bare.out / "sinks" / "wandb").glob("offline-run-*/*.wandb"))
    steps, runs = {}, []
    for path in tries:
        for record in wandb_records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                config = {one.key: json.loads(one.value_json) for one in record.run.config.update}
                runs.append((record.run.run_id, record.run.display_name, record.run.project, config["optimizer"]))
            elif kind == "history":
                items = {
                    "/".join(one.nested_key) or one.key: json.loads(one.value_json) for one in record.history.item
                }
                steps[record.history.step.num] = {k: v for k, v in items.items() if not k.startswith("_")}
    assert len(tries) == 2
    assert set(map(str, runs)) == {str((identity, "one", "tests", bare.recipe["optimizer"]))}
    assert steps == {step: bare.written(step) for step in (1, 2, 3)}
