"""Runs as text and as JSON: columns, order, what differs, and that a stranger's words stay on their line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from opd.records.errors import AskedWrongly
from opd.records.files import read_json, write_json
from opd.view.runs.differences import ABSENT, differing, flat
from opd.view.runs.folders import find, opened
from opd.view.runs.runs import HEADER, Order, difference_lines, differences, in_words, lines, ordered, rows, values
from opd.view.runs.summaries import summaries, summary

Make = Callable[..., Path]
HOSTILE = "x\x1b[2J\n\u202eevil\r\x00"


def test_values_of_other_kinds_differ_and_a_missing_key_is_not_null() -> None:
    a = {"one": 1, "flag": True, "text": "1", "null": None, "lr": 1.0}
    b = {"one": 1.0, "flag": 1, "text": 1, "lr": 1}
    assert differing([a, b]) == ("flag", "text", "null")
    assert differing([a, a, a]) == ()
    assert differing([]) == ()


def test_recipes_are_flat_and_an_empty_section_stays() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": [2]}, "e": {}}) == {"a.b.c": 1, "a.d": [2], "e": {}}


def test_the_table_says_only_what_differs_between_the_recipes(make_run: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "a", lr=1e-4)
    make_run(tmp_path / "b", lr=2e-4)
    cells = rows(summaries(find([tmp_path])))
    assert [row[-1] for row in cells] == ["optimizer.lr=0.0001", "optimizer.lr=0.0002"]
    assert [row[3:6] for row in cells] == [("12/12", "–", "34 s")] * 2
    (tmp_path / "b" / "recipe.json").unlink()
    assert [row[-1] for row in rows(summaries(find([tmp_path])))] == [""], "one recipe alone differs from none"


def test_columns_line_up_whatever_alphabet_is_in_them() -> None:
    made = lines(("a", "b", "c"), [("漢字", "x", "1"), ("abc", "yy", "2"), ("é", "z", "3")])
    assert len({cell_len(line[: line.index(last)]) for line, last in zip(made, "c123", strict=True)}) == 1


def test_runs_are_ordered_by_name_score_steps_or_change(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    import os

    make_run(tmp_path / "t-10", steps=3)
    make_run(tmp_path / "t-9", steps=7)
    make_score(tmp_path / "zero", [[0], [0]])
    make_score(tmp_path / "top", [[1], [1]])
    for name, when in (("t-10", 50), ("t-9", 40), ("zero", 30), ("top", 60)):
        for file in (tmp_path / name).iterdir():
            os.utime(file, (when, when))
    runs = summaries(find([tmp_path]))

    def names(order: Order) -> list[str]:
        return [one.name for one in ordered(runs, order)]

    assert names(Order.NAME) == ["t-9", "t-10", "top", "zero"]
    assert names(Order.SCORE) == ["top", "zero", "t-9", "t-10"], "those without a score come last, after zero"
    assert names(Order.STEPS) == ["t-9", "t-10", "top", "zero"]
    assert names(Order.CHANGED) == ["top", "t-10", "t-9", "zero"]


def test_words_of_strangers_stay_on_their_line(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "evil\x1b[31m\u202e")
    recipe = read_json(run / "recipe.json")
    write_json(run / "recipe.json", recipe | {HOSTILE: HOSTILE})
    write_json(run / "run.json", read_json(run / "run.json") | {"notes": [HOSTILE]})
    other = make_run(tmp_path / "b")
    runs = summaries(find([tmp_path]))
    found = differences(opened(run), opened(other))
    told = [
        *lines(HEADER, rows(runs)),
        *difference_lines(found, opened(run), opened(other)),
        *in_words(summary(opened(run))).split("\n"),
    ]
    assert any("⟨U+202E⟩" in line for line in told)
    assert [line for line in told if not line.isprintable()] == []


def test_as_json_a_run_says_all_that_the_table_says_and_more(make_score: Make, tmp_path: Path) -> None:
    said = json.loads(json.dumps(values(summary(opened(make_score(tmp_path / "s", [[1, 0], [1, 1], [0, 0]]))))))
    assert said["mean"] == 0.5
    assert said["ci95"][0] < 0.5 < said["ci95"][1]
    assert (said["kind"], said["state"], said["step"], said["trouble"]) == ("score", "finished", 6, None)


def test_two_trainings_differ_by_recipe_inputs_and_machine(make_run: Make, tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a"), make_run(tmp_path / "b", lr=1e-3)
    began = read_json(b / "began.json")
    began["models"]["teacher"]["model.safetensors"] = "33" * 32
    write_json(b / "began.json", began)
    done = read_json(b / "run.json")
    write_json(b / "run.json", done | {"machine": {"opd": "0.2.0", "torch": "2.13.0", "device": "cuda"}})
    found = {(one.part, one.key): (one.a, one.b) for one in differences(opened(a), opened(b))}
    assert found == {
        ("recipe", "optimizer.lr"): (6e-4, 1e-3),
        ("inputs", "teacher.model.safetensors"): ("22" * 32, "33" * 32),
        ("machine", "opd"): ("0.1.0", "0.2.0"),
        ("machine", "device"): (ABSENT, "cuda"),
    }
    assert differences(opened(a), opened(a)) == []


def test_two_scores_differ_by_protocol_and_model(make_score: Make, tmp_path: Path) -> None:
    a = make_score(tmp_path / "a", [[1]], model="m/one")
    b = make_score(tmp_path / "b", [[1]], model="m/two", protocol={"temperature": 0.25})
    found = {one.key: (one.a, one.b) for one in differences(opened(a), opened(b))}
    assert found == {"temperature": (1.0, 0.25), "model": ("m/one", "m/two")}


def test_two_kinds_of_runs_have_no_differences(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="two of one kind"):
        differences(opened(make_run(tmp_path / "a")), opened(make_score(tmp_path / "b", [[1]])))
