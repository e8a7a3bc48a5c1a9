"""Made-up runs on the disk, in the formats that the install writes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from opd.records.files import write_json
from opd.records.receipts import NO_HEAD, Receipt, begin, seal
from opd.records.rollout_table import table_path, write_table

RECIPE = {"optimizer": {"lr": 6e-4}, "budget": {"steps": 40, "max_wall_seconds": None}, "objective": {"name": "k1"}}


@pytest.fixture
def make_train(metrics_of, scored_of, tokenizer) -> Callable[..., Path]:
    def make(folder: Path, *, steps: int = 40, lr: float = 6e-4, kept: Mapping[int, list[Any]] | None = None) -> Path:
        folder.mkdir(parents=True)
        write_json(folder / "recipe.json", {**RECIPE, "optimizer": {"lr": lr}})
        with (folder / "metrics.jsonl").open("w") as file:
            for step in range(1, steps + 1):
                file.write(json.dumps(metrics_of(step).resolved()) + "\n")
        (folder / "rollouts").mkdir()
        tokenizer.save(str(folder / "rollouts" / "tokenizer.json"))
        for step, scored in (kept or {1: [scored_of(response="73-9=64\n\\boxed{64}<eos>", gaps={3: -4.0})]}).items():
            write_table(table_path(folder, step), scored)
        return folder

    return make


@pytest.fixture
def make_score(score_of, sample_of) -> Callable[..., Path]:
    def make(folder: Path, *, questions: int = 3, each: int = 2, lines: list[dict[str, Any]] | None = None) -> Path:
        folder.mkdir(parents=True)
        score = score_of("a/checkpoint-40", 0.5).resolved()
        write_json(folder / "protocol.json", {"protocol": score["protocol"], "model_digest": score["model_digest"]})
        made = [sample_of(question, index).resolved() for question in range(questions) for index in range(each)]
        with (folder / "samples.jsonl").open("w") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in (lines or made))
        write_json(folder / "score.json", score)
        return folder

    return make


@pytest.fixture(scope="session")
def make_attempt() -> Callable[..., Path]:
    def make(folder: Path, *, tries: Mapping[str, Mapping[str, str]]) -> Path:
        """An attempt with these tries, each with these files, sealed as the protocol seals them."""
        folder.mkdir(parents=True)
        write_json(folder / "run.json", {"case": "command__made_up__none__none", "task": "made_up"})
        write_json(folder / "task.lock.json", {"task": {"name": "made_up", "description": "A task of a test."}})
        (folder / "events.jsonl").write_text('{"seq": 1}\n{"seq": 2}\n')
        for name, files in tries.items():
            partial = begin(folder / name)
            for file, text in files.items():
                (partial / file).parent.mkdir(parents=True, exist_ok=True)
                (partial / file).write_text(text)
            seal(folder / name, receipt(name.partition("/")[0]))
        return folder

    return make


def receipt(kind: str) -> Receipt:
    return Receipt(
        kind=kind,
        outcome="completed",
        because=None,
        began_utc="2026-01-31T10:00:00.000Z",
        ended_utc="2026-01-31T10:00:10.000Z",
        active_seconds=10.0,
        opd_version="0.1.0",
        made_from={"task": "0" * 64},
        events=NO_HEAD,
        files=(),
    )
