"""Rows of a file become prompts: which rows, under which number, and what is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opd.records.errors import AskedWrongly
from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.train.data import DataSettings, check_data, check_repeats, read_prompts
from opd.train.rows import read_rows

ROWS = [
    {"problem": "Compute 1+2.", "answer": "3", "part": "train"},
    {"problem": "Compute 4-2.", "answer": "2", "part": "reserved"},
    {"problem": "Compute 5+5+5+5+5+5+5.", "answer": "35", "part": "train"},
    {"problem": "Compute 9-9.", "answer": "0", "part": "train"},
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer()


def jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "problems.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("write", [jsonl, parquet])
def test_a_row_becomes_a_prompt_in_the_chat_template(tmp_path: Path, tokenizer: Any, write: Any) -> None:
    """E35, E36: one beginning of sequence, and the reasoning opened at the end."""
    prompts = read_prompts(DataSettings(path=str(write(tmp_path, ROWS))), tokenizer)
    assert [(prompt.row, prompt.problem, prompt.answer) for prompt in prompts] == [
        (row, values["problem"], values["answer"]) for row, values in enumerate(ROWS)
    ]
    assert tokenizer.decode(prompts[0].token_ids) == "<bos><User>Compute 1+2.<Assistant><think>\n"
    assert all(prompt.token_ids.count(tokenizer.bos_token_id) == 1 for prompt in prompts)
    assert {prompt.epoch for prompt in prompts} == {0}


@pytest.mark.parametrize("write", [jsonl, parquet])
def test_a_filter_keeps_the_numbers_of_the_rows(tmp_path: Path, tokenizer: Any, write: Any) -> None:
    """A row's number names it and is part of its sampling noise; leaving others out changes neither."""
    settings = DataSettings(path=str(write(tmp_path, ROWS)), where={"part": "train"})
    whole = {prompt.row: prompt for prompt in read_prompts(DataSettings(path=settings.path), tokenizer)}
    filtered = read_prompts(settings, tokenizer)
    assert [prompt.row for prompt in filtered] == [0, 2, 3]
    assert all(prompt == whole[prompt.row] for prompt in filtered)


def test_all_conditions_of_a_filter_must_hold(tmp_path: Path, tokenizer: Any) -> None:
    path = str(jsonl(tmp_path, ROWS))
    settings = DataSettings(path=path, where={"part": "train", "answer": "0"})
    assert [prompt.row for prompt in read_prompts(settings, tokenizer)] == [3]


def test_fields_and_the_users_turn_are_what_the_settings_say(tmp_path: Path, tokenizer: Any) -> None:
    path = jsonl(tmp_path, [{"question": "1+1?", "gold": "2"}])
    settings = DataSettings(
        path=str(path), problem_field="question", answer_field="gold", prompt="Reason. {problem} Box it."
    )
    (prompt,) = read_prompts(settings, tokenizer)
    assert (prompt.problem, prompt.answer) == ("1+1?", "2")
    assert tokenizer.decode(prompt.token_ids) == "<bos><User>Reason. 1+1? Box it.<Assistant><think>\n"


@pytest.mark.parametrize("problem", [r"Find $\frac{{a}}{b}$ in {x}.", "Say {problem} twice: {{problem}}"])
def test_braces_of_a_problem_reach_the_model_as_they_are(tmp_path: Path, tokenizer: Any, problem: str) -> None:
    """E38: nothing formats the text, so nothing halves its braces; LaTeX doubles them for reasons of its own."""
    settings = DataSettings(path=str(jsonl(tmp_path, [{"problem": problem, "answer": "1"}])))
    (prompt,) = read_prompts(settings, tokenizer)
    assert tokenizer.decode(prompt.token_ids) == f"<bos><User>{problem}<Assistant><think>\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], {"problem": "?"}], r"row 1 of .*: no text in field 'answer'; it has \['problem'\]"),
        ([{"text": "?", "answer": "1"}], r"row 0 of .*: no text in field 'problem'; it has \['answer', 'text'\]"),
        ([{"problem": "?", "answer": 7}], r"row 0 of .*: no text in field 'answer'"),
        ([{"problem": ["?"], "answer": "1"}], r"row 0 of .*: no text in field 'problem'"),
        ([{"problem": "?", "answer": None}], r"row 0 of .*: no text in field 'answer'"),
    ],
)
@pytest.mark.parametrize("write", [jsonl, parquet])
def test_a_row_without_its_text_is_refused(
    tmp_path: Path, tokenizer: Any, write: Any, rows: list[dict[str, Any]], message: str
) -> None:
    if write is parquet and len(rows) > 1:
        message = message.replace(r"it has \['problem'\]", "it has")  # a table has every column in every row
    with pytest.raises(AskedWrongly, match=message):
        read_prompts(DataSettings(path=str(write(tmp_path, rows))), tokenizer)


def test_a_file_without_rows_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(AskedWrongly, match=r"problems\.jsonl has no row to train on"):
        read_prompts(DataSettings(path=str(jsonl(tmp_path, []))), tokenizer)


def test_a_filter_that_leaves_nothing_is_named(tmp_path: Path, tokenizer: Any) -> None:
    settings = DataSettings(path=str(jsonl(tmp_path, ROWS)), where={"part": "trian"})
    with pytest.raises(AskedWrongly, match=r"has no row that has \{'part': 'trian'\} to train on"):
        read_prompts(settings, tokenizer)


def test_a_prompt_beyond_the_limit_stops_the_run_unless_it_may_be_dropped(tmp_path: Path, tokenizer: Any) -> None:
    """E37: refused or left out, whole; what remains ends with the marker that the model answers to."""
    path = str(jsonl(tmp_path, ROWS))
    lengths = [len(prompt.token_ids) for prompt in read_prompts(DataSettings(path=path), tokenizer)]
    assert lengths[2] == max(lengths) > sorted(lengths)[-2]
    limit = lengths[2] - 1
    expected = (
        rf"row 2 of .*: its prompt has {lengths[2]} tokens, the limit is {limit}; raise data.limit_prompt_tokens"
    )
    with pytest.raises(AskedWrongly, match=expected):
        read_prompts(DataSettings(path=path, limit_prompt_tokens=limit), tokenizer)
    dropped = read_prompts(DataSettings(path=path, limit_prompt_tokens=limit, too_long="drop"), tokenizer)
    assert [prompt.row for prompt in dropped] == [0, 1, 3]
    assert [len(prompt.token_ids) for prompt in dropped] == [lengths[row] for row in (0, 1, 3)]
    assert all(tokenizer.decode(prompt.token_ids).endswith("<Assistant><think>\n") for prompt in dropped)


def test_a_prompt_of_exactly_the_limit_is_taken(tmp_path: Path, tokenizer: Any) -> None:
    path = str(jsonl(tmp_path, ROWS))
    longest = max(len(prompt.token_ids) for prompt in read_prompts(DataSettings(path=path), tokenizer))
    assert len(read_prompts(DataSettings(path=path, limit_prompt_tokens=longest), tokenizer)) == 4


def test_dropping_every_row_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    settings = DataSettings(path=str(jsonl(tmp_path, ROWS)), limit_prompt_tokens=1, too_long="drop")
    with pytest.raises(AskedWrongly, match="has no row to train on"):
        read_prompts(settings, tokenizer)


def test_another_file_than_the_recipe_names_is_refused(tmp_path: Path) -> None:
    """E59: one byte is enough."""
    path = jsonl(tmp_path, ROWS)
    named = hashlib.sha256(path.read_bytes()).hexdigest()
    settings = DataSettings(path=str(path), sha256=named)
    assert check_data(settings) == path
    path.write_bytes(path.read_bytes() + b"\n")
    now = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(AskedWrongly, match=f"has SHA-256 {now}, the recipe asks for {named}"):
        check_data(settings)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(AskedWrongly, match=rf"data '{path}': no such file"):
            check_data(DataSettings(path=str(path)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", b"PAR1 not really", "a.parquet is not a parquet file"),
        ("a.jsonl", b'{"problem": "?", "answer": "1"}\n{"problem', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", b"[1, 2]\n", "a.jsonl, line 1 is not a JSON object"),
        ("a.jsonl", b"\xff\xfe\x00", "a.jsonl is not a JSON Lines file"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, tokenizer: Any, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AskedWrongly, match=message):
        read_prompts(DataSettings(path=str(tmp_path / name)), tokenizer)


def test_the_projection_of_the_reference_task_has_15285_rows(shared: Path) -> None:
    rows = list(read_rows(shared / "data" / "dapo_math_unique.jsonl"))
    assert len(rows) == 16_395
    assert sum(row.get("projection") == "train" for row in rows) == 15_285


def test_real_problems_come_back_from_their_tokens(shared: Path, tokenizer: Any) -> None:
    """MATH-500, with its LaTeX, through the template and back."""
    settings = DataSettings(path=str(shared / "data" / "math500.jsonl"), limit_prompt_tokens=4_096)
    prompts = read_prompts(settings, tokenizer)
    assert len(prompts) == 500
    for prompt in prompts:
        assert tokenizer.decode(prompt.token_ids) == f"<bos><User>{prompt.problem}<Assistant><think>\n"


REPEATED = [
    *({"problem": f"Compute {n}.", "answer": "1"} for n in range(60)),
    {"problem": "Compute $7$.", "answer": "7"},
]


def test_more_than_one_percent_of_repeated_problems_is_refused_with_a_pair_of_rows(
    tmp_path: Path, tokenizer: Any
) -> None:
    """E62: the filter and the numbers of the rows are those of the file."""
    rows = [
        {"problem": "Compute 7.", "answer": "7", "part": "other"},
        *({**row, "part": "train"} for row in REPEATED),
    ]
    settings = DataSettings(path=str(jsonl(tmp_path, rows)), where={"part": "train"})
    with pytest.raises(AskedWrongly) as refusal:
        check_repeats(settings, read_prompts(settings, tokenizer))
    said = str(refusal.value)
    assert "1 of 61 problems (1.6%) repeat an earlier one but for spelling" in said
    assert "row 61 asks what row 8 does ('Compute $7$.'" in said
    assert "`opd data dedupe`" in said
    assert 'data.repeats = "allow"' in said


def test_repeated_problems_are_counted_where_they_are_allowed_or_few(tmp_path: Path, tokenizer: Any) -> None:
    """E62."""
    allowed = DataSettings(path=str(jsonl(tmp_path, REPEATED)), repeats="allow")
    assert check_repeats(allowed, read_prompts(allowed, tokenizer)).repeated == 1
    few = [*REPEATED, *({"problem": f"Compute {n}+{n}.", "answer": "1"} for n in range(40))]
    settings = DataSettings(path=str(jsonl(tmp_path, few)))
    assert check_repeats(settings, read_prompts(settings, tokenizer)).repeated == 1
