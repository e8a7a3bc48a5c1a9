"""Samples of other harnesses, read as ours: files made here in their forms, with the values that they should have."""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from opd.evaluate.foreign.choice import Choice
from opd.evaluate.results import Source, read_results, read_source
from opd.evaluate.rows import Row
from opd.evaluate.statistics.estimates import Counts
from opd.records.errors import AskedWrongly


def lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def lm_eval_line(doc: int, value: Any, *, behind: str | None = "strict-match", **more: Any) -> dict[str, Any]:
    """A line as `--log_samples` writes it; `behind` is left out as older versions do."""
    values = {
        "doc_id": doc,
        "doc": {"question": f"What is {doc}+1?", "unique_id": f"sums/{doc}"},
        "target": str(doc + 1),
        "arguments": {"gen_args_0": {"arg_0": f"What is {doc}+1?", "arg_1": {"until": ["\n\n"]}}},
        "resps": [[f"It is {doc + 1}."]],
        "filtered_resps": [str(doc + 1)],
        "doc_hash": "d" * 64,
        "prompt_hash": "p" * 64,
        "target_hash": "t" * 64,
        "exact_match": value,
    }
    if behind is not None:
        values |= {"filter": behind, "metrics": ["exact_match"]}
    return values | more


def test_lm_eval_lines_are_counted_by_document(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "samples_gsm8k_2026-01-31T10-00-00.000000.jsonl", [lm_eval_line(d, d % 2 * 1.0) for d in range(4)]
    )
    source = read_source(path)
    assert (source.form, source.benchmark, source.protocol) == ("lm-evaluation-harness", "gsm8k", None)
    assert source.rows[1] == Row(
        question="1",
        sample=0,
        correct=True,
        by="lm-evaluation-harness: exact_match",
        answered=True,
        extracted="2",
        gold="2",
        response="It is 2.",
    )
    assert read_results(path).counts == Counts(hits=(0, 1, 0, 1), samples=(1, 1, 1, 1))


def test_one_of_several_filters_is_chosen_and_never_guessed(tmp_path: Path) -> None:
    """Both filters of a document in one file: together they would count every question twice."""
    rows = [
        lm_eval_line(doc, value, behind=behind)
        for doc, values in enumerate([(0.0, 1.0), (1.0, 1.0), (0.0, 1.0)])
        for behind, value in zip(("strict-match", "flexible-extract"), values, strict=True)
    ]
    path = lines(tmp_path / "x.jsonl", rows)
    with pytest.raises(AskedWrongly, match=r"which filter counts\? --set filter=…, one of: strict-match, flexible"):
        read_source(path)
    with pytest.raises(AskedWrongly, match="no filter 'loose'; there are: strict-match, flexible-extract"):
        read_source(path, choice=Choice(filter="loose"))
    assert read_results(path, choice=Choice(filter="strict-match")).counts.hits == (0, 1, 0)
    assert read_results(path, choice=Choice(filter="flexible-extract")).counts.hits == (1, 1, 1)


def test_one_of_several_metrics_is_chosen(tmp_path: Path) -> None:
    rows = [lm_eval_line(0, 0.0, metrics=["exact_match", "math_verify"], math_verify=1)]
    path = lines(tmp_path / "x.jsonl", rows)
    with pytest.raises(AskedWrongly, match=r"which metric counts\? --set metric=…, one of: exact_match, math_verify"):
        read_source(path)
    assert read_results(path, choice=Choice(metric="math_verify")).counts.hits == (1,)


def test_older_lm_eval_files_name_neither_filter_nor_metrics(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [lm_eval_line(0, True, behind=None), lm_eval_line(1, False, behind=None)])
    source = read_source(path)
    assert [row.correct for row in source.rows] == [True, False]
    assert [row.answered for row in source.rows] == [None, None]  # without a filter nothing was extracted


def test_repeats_are_samples(tmp_path: Path) -> None:
    row = lm_eval_line(7, [1, 0, 1], resps=[["8", "9", "8"]], filtered_resps=[["8", "[invalid]", "8"]])
    found = read_source(lines(tmp_path / "x.jsonl", [row])).rows
    assert [(one.sample, one.correct, one.response) for one in found] == [
        (0, True, "8"),
        (1, False, "9"),
        (2, True, "8"),
    ]
    assert [(one.answered, one.extracted) for one in found] == [(True, "8"), (False, None), (True, "8")]


def test_a_question_can_be_named_by_a_field_of_its_document(tmp_path: Path) -> None:
    """So that a run of another harness compares with ours on the same questions."""
    path = lines(tmp_path / "x.jsonl", [lm_eval_line(0, 1.0)])
    assert read_results(path, choice=Choice(question="doc.unique_id")).questions == ("sums/0",)
    with pytest.raises(AskedWrongly, match=r"row 1: doc.name = None; a question is named"):
        read_source(path, choice=Choice(question="doc.name"))


@pytest.mark.parametrize("value", [0.5, None, "yes", {"em": 1}, 2, [0.5]])
def test_a_metric_between_right_and_wrong_is_no_verdict(tmp_path: Path, value: Any) -> None:
    rows = [lm_eval_line(0, 1.0), lm_eval_line(1, value)]
    with pytest.raises(AskedWrongly, match=r"row 2: exact_match = .*; a sample is right \(1, true, C\) or not"):
        read_source(lines(tmp_path / "x.jsonl", rows))


def test_a_document_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [lm_eval_line(0, 1.0), lm_eval_line(0, 1.0)])
    with pytest.raises(AskedWrongly, match="question '0' has sample 0 twice"):
        read_results(path)


def inspect_sample(name: int | str, epoch: int, value: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "epoch": epoch,
        "input": "What is 2+3?",
        "target": "5",
        "messages": [],
        "output": {
            "model": "local/m",
            "choices": [{"message": {"role": "assistant", "content": "It is 5."}, "stop_reason": "stop"}],
            "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
        },
        "scores": {"match": {"value": value, "answer": "5", "explanation": "It is 5."}},
    } | more


def inspect_log(samples: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "sums", "model": "local/m", "dataset": {"samples": 2}, "config": {"epochs": 2}},
        "results": {"total_samples": len(samples), "completed_samples": len(samples)},
        "samples": samples,
    } | more


SAMPLES = [
    inspect_sample(1, 1, "C"),
    inspect_sample(1, 2, "I"),
    inspect_sample("b", 1, "N"),
    inspect_sample("b", 2, 1),
]


def write_json(path: Path, log: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(log), encoding="utf-8")
    return path


def write_eval(path: Path, log: Mapping[str, Any], *, header: bool = True) -> Path:
    """The archive in the parts that inspect_ai writes."""
    head = {key: value for key, value in log.items() if key != "samples"}
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": log["eval"]}))
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        if header:
            archive.writestr("header.json", json.dumps(head))
    return path


def zstandard_archive(path: Path, files: Mapping[str, Any]) -> Path:
    """A zip archive with compression 93, by the description of the format: each local header and its data, the
    central directory, and the end record.
    """
    parts, directory, offset = [], [], 0
    for name, value in files.items():
        data = json.dumps(value).encode()
        packed = pa.compress(data, codec="zstd", asbytes=True)
        sizes = struct.pack("<III", zlib.crc32(data), len(packed), len(data))
        extra = b"\x99\x99\x02\x00ab"  # an extra field that nobody knows is passed over
        head = struct.pack("<HHHHH", 63, 0, 93, 0, 33)
        local = b"PK\x03\x04" + head + sizes + struct.pack("<HH", len(name), len(extra)) + name.encode() + extra
        entry = b"PK\x01\x02" + struct.pack("<H", 63) + head + sizes
        entry += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, offset) + name.encode()
        parts += [local, packed]
        directory.append(entry)
        offset += len(local) + len(packed)
    central = b"".join(directory)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(files), len(files), len(central), offset, 0)
    path.write_bytes(b"".join([*parts, central, end]))
    return path


def test_an_archive_in_zstandard_is_read_as_well(tmp_path: Path) -> None:
    """What inspect_ai 0.3.285 writes, and Python's own reader knows from 3.14 on."""
    log = inspect_log(SAMPLES)
    files = {"header.json": {key: value for key, value in log.items() if key != "samples"}}
    files |= {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in SAMPLES}
    path = zstandard_archive(tmp_path / "x.eval", files)
    assert read_source(path, name="x") == read_source(write_json(tmp_path / "x.json", log), name="x")
    path.write_bytes(
        path.read_bytes().replace(struct.pack("<I", zlib.crc32(json.dumps(SAMPLES[0]).encode())), b"abcd")
    )
    with pytest.raises(AskedWrongly, match=r"x.eval can't be read: bad CRC-32 of samples/1_epoch_1.json"):
        read_source(path)


def both_forms(tmp_path: Path, log: Mapping[str, Any]) -> list[Source]:
    paths = (write_json(tmp_path / "x.json", log), write_eval(tmp_path / "x.eval", log))
    return [read_source(path, name="x") for path in paths]


def test_both_forms_of_an_inspect_log_are_the_same_rows(tmp_path: Path) -> None:
    json_log, archive = both_forms(tmp_path, inspect_log(SAMPLES))
    assert json_log == archive
    assert (json_log.form, json_log.benchmark, json_log.model) == ("inspect_ai", "sums", "local/m")
    assert [(row.question, row.sample, row.correct) for row in json_log.rows] == [
        ("1", 1, True),
        ("1", 2, False),
        ("b", 1, False),
        ("b", 2, True),
    ]
    assert json_log.rows[0] == Row(
        question="1",
        sample=1,
        correct=True,
        by="inspect_ai: match",
        reason="It is 5.",
        answered=True,
        extracted="5",
        cut_short=False,
        tokens=4,
        gold="5",
        response="It is 5.",
    )


@pytest.mark.parametrize(
    ("more", "cut_short"),
    [
        ({"output": {"choices": [{"message": {"content": "It"}, "stop_reason": "max_tokens"}]}}, True),
        ({"output": {"choices": [{"message": {"content": "It"}, "stop_reason": "model_length"}]}}, True),
        ({"output": {"choices": [{"message": {"content": "It"}, "stop_reason": "unknown"}]}}, None),
        ({"limit": {"type": "token", "limit": 4}}, True),
        ({"limit": {"type": "message", "limit": 4}}, False),
    ],
)
def test_why_a_response_ended_is_read_where_it_is_known(
    tmp_path: Path, more: dict[str, Any], cut_short: bool | None
) -> None:
    (source, _) = both_forms(tmp_path, inspect_log([inspect_sample(1, 1, "I", **more)]))
    assert source.rows[0].cut_short is cut_short


def test_parts_of_an_answer_are_joined_and_reasoning_kept_apart_is_left_out(tmp_path: Path) -> None:
    content = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "It"},
        {"type": "text", "text": "is"},
    ]
    output = {"choices": [{"message": {"role": "assistant", "content": content}, "stop_reason": "stop"}]}
    (source, _) = both_forms(tmp_path, inspect_log([inspect_sample(1, 1, "C", output=output)]))
    assert source.rows[0].response == "It\nis"
    assert source.rows[0].tokens is None


def test_one_of_several_scorers_is_chosen_also_inside_a_table(tmp_path: Path) -> None:
    scores = {"match": {"value": "I"}, "judge": {"value": {"right": "C", "polite": 0}}}
    path = write_json(tmp_path / "x.json", inspect_log([inspect_sample(1, 1, "I", scores=scores)]))
    with pytest.raises(AskedWrongly, match=r"which metric counts\? .* one of: match, judge.right, judge.polite"):
        read_source(path)
    assert read_source(path, choice=Choice(metric="judge.right")).rows[0].correct is True
    assert read_source(path, choice=Choice(metric="match")).rows[0].correct is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "error"}, "status = 'error'; only an evaluation that finished has a score"),
        ({"status": "started"}, "status = 'started'; only an evaluation"),
        ({"results": {"total_samples": 6}}, "holds 4 samples and declares 6; rows are missing or extra"),
        ({"samples": [], "results": None}, "no samples; a score needs at least one"),
        (
            {"samples": [*SAMPLES[:3], inspect_sample("b", 2, 1, error={"message": "no route"})]},
            r"sample 4 \(b\): it failed \(no route\), which says nothing about the answer",
        ),
        ({"samples": [*SAMPLES[:3], inspect_sample("b", 2, 1, scores=None)]}, r"sample 4 \(b\): no score by match"),
        ({"samples": [*SAMPLES[:3], inspect_sample("b", 2, "P")]}, r"\(b\): match = 'P'; a sample is right"),
    ],
)
def test_a_log_that_is_not_whole_has_no_score(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """H22, E70: an error of the harness, or a sample without a verdict, would otherwise pass for a wrong answer."""
    log = inspect_log(SAMPLES) | change
    assert read_results(write_json(tmp_path / "whole.json", inspect_log(SAMPLES))).counts.total_hits == 2
    for path in (write_json(tmp_path / "x.json", log), write_eval(tmp_path / "x.eval", log)):
        with pytest.raises(AskedWrongly, match=message):
            read_source(path)


def test_an_archive_without_its_header_did_not_finish(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "x.eval", inspect_log(SAMPLES), header=False)
    with pytest.raises(AskedWrongly, match=r"x.eval has no header.json: that evaluation did not finish"):
        read_source(path)


@pytest.mark.parametrize(
    "damage", [lambda whole: whole.replace(b"PK\x03\x04", b"PK\x03\x05"), lambda whole: whole[:200]]
)
def test_a_damaged_archive_is_named_and_a_way_out_given(tmp_path: Path, damage: Any) -> None:
    path = write_eval(tmp_path / "x.eval", inspect_log(SAMPLES))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(AskedWrongly, match=r"x.eval can't be read: .*inspect log convert --to json"):
        read_source(path)


def test_an_archive_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"x.eval does not exist"):
        read_source(tmp_path / "x.eval")


def test_another_json_file_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"is no log of inspect_ai"):
        read_source(write_json(tmp_path / "x.json", {"results": {}}))


def test_half_a_surrogate_pair_in_a_foreign_text_can_be_written_down(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"question": "a\\ud800", "sample": 0, "correct": true, "extracted": "\\udfff"}\n', encoding="utf-8"
    )
    (row,) = read_source(path).rows
    assert (row.question, row.extracted) == ("a\\ud800", "\\udfff")
