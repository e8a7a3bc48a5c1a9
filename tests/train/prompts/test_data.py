"""Rows of a file become prompts: which rows, under which number, and what is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opd.records.errors import AskedWrongly
from opd.records.metrics import LeftOut
from opd.records.rollouts import Prompt
from opd.records.settings import read
from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.train.corpus.projection import bare, find_rule
from opd.train.prompts.data import DataSettings, check_data, check_repeats, read_problems, read_prompts
from opd.train.prompts.rows import read_rows
from opd.train.prompts.templates import TEMPLATES

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


def prompts_of(settings: DataSettings, tokenizer: Any) -> list[Prompt]:
    return read_prompts(settings, tokenizer).prompts


@pytest.mark.parametrize("write", [jsonl, parquet])
def test_a_row_becomes_a_prompt_in_the_chat_template(tmp_path: Path, tokenizer: Any, write: Any) -> None:
    """E35, E36: one beginning of sequence, and the reasoning opened at the end."""
    prompts = prompts_of(DataSettings(path=str(write(tmp_path, ROWS))), tokenizer)
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
    whole = {prompt.row: prompt for prompt in prompts_of(DataSettings(path=settings.path), tokenizer)}
    filtered = prompts_of(settings, tokenizer)
    assert [prompt.row for prompt in filtered] == [0, 2, 3]
    assert all(prompt == whole[prompt.row] for prompt in filtered)


def test_all_conditions_of_a_filter_must_hold(tmp_path: Path, tokenizer: Any) -> None:
    path = str(jsonl(tmp_path, ROWS))
    settings = DataSettings(path=path, where={"part": "train", "answer": "0"})
    assert [prompt.row for prompt in prompts_of(settings, tokenizer)] == [3]


def test_fields_and_the_users_turn_are_what_the_settings_say(tmp_path: Path, tokenizer: Any) -> None:
    path = jsonl(tmp_path, [{"question": "1+1?", "gold": "2"}])
    settings = DataSettings(
        path=str(path), problem_field="question", answer_field="gold", prompt="Reason. {problem} Box it."
    )
    (prompt,) = prompts_of(settings, tokenizer)
    assert (prompt.problem, prompt.answer) == ("1+1?", "2")
    assert tokenizer.decode(prompt.token_ids) == "<bos><User>Reason. 1+1? Box it.<Assistant><think>\n"


@pytest.mark.parametrize("problem", [r"Find $\frac{{a}}{b}$ in {x}.", "Say {problem} twice: {{problem}}"])
def test_braces_of_a_problem_reach_the_model_as_they_are(tmp_path: Path, tokenizer: Any, problem: str) -> None:
    """E38: nothing formats the text, so nothing halves its braces; LaTeX doubles them for reasons of its own."""
    settings = DataSettings(path=str(jsonl(tmp_path, [{"problem": problem, "answer": "1"}])))
    (prompt,) = prompts_of(settings, tokenizer)
    assert tokenizer.decode(prompt.token_ids) == f"<bos><User>{problem}<Assistant><think>\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], {"problem": "?"}], r"row 1 of .*: no text in field 'answer'; it has \['problem'\]"),
        ([{"text": "?", "answer": "1"}], r"row 0 of .*: no text in field 'problem'; it has \['answer', 'text'\]"),
        ([{"problem": "?", "answer": True}], r"row 0 of .*: no text in field 'answer'"),
        ([{"problem": "?", "answer": ["7"]}], r"row 0 of .*: no text in field 'answer'"),
        ([{"problem": 7, "answer": "7"}], r"row 0 of .*: no text in field 'problem'"),
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
        prompts_of(DataSettings(path=str(write(tmp_path, rows))), tokenizer)


CHAT = {
    "prompt": [{"role": "user", "content": "Compute 1+2."}],
    "reward_model": {"ground_truth": 3.0, "style": "rule"},
    "extra": {"split": "train", "level": 5},
}


@pytest.mark.parametrize("write", [jsonl, parquet])
def test_a_chat_a_value_inside_another_and_a_number_are_read(tmp_path: Path, tokenizer: Any, write: Any) -> None:
    """The form that several trainers keep their rows in."""
    others = [
        {**CHAT, "extra": {"split": "test", "level": 5}},
        {**CHAT, "extra": {"split": "train", "level": 4}},
    ]
    settings = DataSettings(
        path=str(write(tmp_path, [*others, CHAT])),
        problem_field="prompt",
        answer_field="reward_model.ground_truth",
        where={"extra.split": "train", "extra.level": "5"},
    )
    (prompt,) = prompts_of(settings, tokenizer)
    assert (prompt.row, prompt.problem, prompt.answer) == (2, "Compute 1+2.", "3")
    assert tokenizer.decode(prompt.token_ids) == "<bos><User>Compute 1+2.<Assistant><think>\n"


@pytest.mark.parametrize(
    ("number", "text"), [(7, "7"), (27.0, "27"), (0.5, "0.5"), (-3, "-3"), (10**20, f"{10**20}")]
)
def test_a_number_is_an_answer_as_json_writes_it(tmp_path: Path, tokenizer: Any, number: float, text: str) -> None:
    (prompt,) = prompts_of(DataSettings(path=str(jsonl(tmp_path, [{"problem": "?", "answer": number}]))), tokenizer)
    assert prompt.answer == text


def test_a_field_whose_name_has_a_dot_goes_before_one_inside_another(tmp_path: Path, tokenizer: Any) -> None:
    row = {"problem": "?", "a.b": "named", "a": {"b": "inside"}}
    (prompt,) = prompts_of(DataSettings(path=str(jsonl(tmp_path, [row])), answer_field="a.b"), tokenizer)
    assert prompt.answer == "named"


def test_a_chat_of_several_turns_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    """What a system's turn asks for would be lost, or the answer would stand in the prompt."""
    chat = [{"role": "system", "content": "Box it."}, {"role": "user", "content": "1+1?"}]
    settings = DataSettings(path=str(jsonl(tmp_path, [{"prompt": chat, "answer": "2"}])), problem_field="prompt")
    with pytest.raises(AskedWrongly, match=r"row 0 of .*'prompt' is a chat of 2 turns \(system, user\)"):
        prompts_of(settings, tokenizer)


def test_a_template_goes_by_its_name_or_its_text(tmp_path: Path, tokenizer: Any) -> None:
    """Both are one recipe, with one digest."""
    path = str(jsonl(tmp_path, ROWS[:1]))
    named = DataSettings(path=path, prompt="boxed")
    written = DataSettings(
        path=path,
        prompt="{problem} Please reason step by step, and put your final answer within \\boxed{}.",
    )
    assert named.digest == written.digest
    (prompt,) = prompts_of(named, tokenizer)
    assert tokenizer.decode(prompt.token_ids) == (
        "<bos><User>Compute 1+2. Please reason step by step, and put your final answer within \\boxed{}."
        "<Assistant><think>\n"
    )


def test_a_template_that_there_is_not_is_refused_with_the_names(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"'boxd': \{problem\} must stand in it exactly once.*plain, boxed, dapo"):
        read_settings(tmp_path, 'path = "a.jsonl"\nprompt = "boxd"\n')


def read_settings(folder: Path, text: str) -> DataSettings:
    path = folder / "data.toml"
    path.write_text(text, encoding="utf-8")
    return read(DataSettings, path)


def test_the_template_of_the_reference_data_is_the_one_that_its_rows_had(shared: Path) -> None:
    """With it, rows without their instructions become the rows as they were published."""
    with (shared / "data" / "dapo_math_unique.jsonl").open(encoding="utf-8") as file:
        row = json.loads(file.readline())
    asked = TEMPLATES["dapo"].replace("{problem}", row["problem"])
    assert bare(asked, find_rule("opd-dapo-aime-zero-overlap-v2")) == row["problem"].strip()
    assert asked != row["problem"]


NEVER_RIGHT = ["", "  ", "\\boxed{}", "\\boxed{5"]


@pytest.mark.parametrize("answer", NEVER_RIGHT)
def test_under_a_reward_a_row_that_no_response_could_answer_is_left_out_and_counted(
    tmp_path: Path, tokenizer: Any, answer: str
) -> None:
    """E73; without a reward the answer is not used, and the row is trained on."""
    settings = DataSettings(path=str(jsonl(tmp_path, [ROWS[0], {"problem": "?", "answer": answer}])))
    assert len(read_prompts(settings, tokenizer).prompts) == 2
    rows = read_prompts(settings, tokenizer, graded=True)
    assert [prompt.row for prompt in rows.prompts] == [0]
    assert rows.left_out == LeftOut(unanswered=1)
    assert str(rows.left_out) == "1 without an answer that a response could equal"


def test_a_row_with_a_blank_problem_is_left_out_and_counted(tmp_path: Path, tokenizer: Any) -> None:
    """There is nothing to answer, and a template alone would be sampled from."""
    settings = DataSettings(path=str(jsonl(tmp_path, [{"problem": " \n", "answer": "1"}, *ROWS])))
    problems, left_out = read_problems(settings, graded=False)
    assert [problem.row for problem in problems] == [1, 2, 3, 4]
    assert left_out == LeftOut(blank=1)
    assert read_prompts(settings, tokenizer).left_out == LeftOut(blank=1)


def test_a_file_of_which_every_row_is_left_out_is_refused_with_the_reasons(tmp_path: Path, tokenizer: Any) -> None:
    rows = [{"problem": "", "answer": "1"}, {"problem": "?", "answer": ""}]
    settings = DataSettings(path=str(jsonl(tmp_path, rows)))
    with pytest.raises(AskedWrongly, match=r"no row to train on \(1 with a blank problem, 1 without an answer"):
        read_prompts(settings, tokenizer, graded=True)


def test_a_file_without_rows_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(AskedWrongly, match=r"problems\.jsonl has no row to train on"):
        prompts_of(DataSettings(path=str(jsonl(tmp_path, []))), tokenizer)


def test_a_filter_that_leaves_nothing_is_named(tmp_path: Path, tokenizer: Any) -> None:
    settings = DataSettings(path=str(jsonl(tmp_path, ROWS)), where={"part": "trian"})
    with pytest.raises(AskedWrongly, match=r"has no row that has \{'part': 'trian'\} to train on"):
        prompts_of(settings, tokenizer)


def test_a_prompt_beyond_the_limit_stops_the_run_unless_it_may_be_dropped(tmp_path: Path, tokenizer: Any) -> None:
    """E37: refused or left out, whole; what remains ends with the marker that the model answers to."""
    path = str(jsonl(tmp_path, ROWS))
    lengths = [len(prompt.token_ids) for prompt in prompts_of(DataSettings(path=path), tokenizer)]
    assert lengths[2] == max(lengths) > sorted(lengths)[-2]
    limit = lengths[2] - 1
    expected = (
        rf"row 2 of .*: its prompt has {lengths[2]} tokens, the limit is {limit}; raise data.limit_prompt_tokens"
    )
    with pytest.raises(AskedWrongly, match=expected):
        prompts_of(DataSettings(path=path, limit_prompt_tokens=limit), tokenizer)
    dropped = prompts_of(DataSettings(path=path, limit_prompt_tokens=limit, too_long="drop"), tokenizer)
    assert [prompt.row for prompt in dropped] == [0, 1, 3]
    assert [len(prompt.token_ids) for prompt in dropped] == [lengths[row] for row in (0, 1, 3)]
    assert all(tokenizer.decode(prompt.token_ids).endswith("<Assistant><think>\n") for prompt in dropped)


def test_a_prompt_of_exactly_the_limit_is_taken(tmp_path: Path, tokenizer: Any) -> None:
    path = str(jsonl(tmp_path, ROWS))
    longest = max(len(prompt.token_ids) for prompt in prompts_of(DataSettings(path=path), tokenizer))
    assert len(prompts_of(DataSettings(path=path, limit_prompt_tokens=longest), tokenizer)) == 4


def test_dropping_every_row_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    settings = DataSettings(path=str(jsonl(tmp_path, ROWS)), limit_prompt_tokens=1, too_long="drop")
    with pytest.raises(AskedWrongly, match="has no row to train on"):
        prompts_of(settings, tokenizer)


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
        ("a.jsonl", b"\xff\xfe\x00", "a.jsonl, line 1 is not UTF-8"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, tokenizer: Any, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AskedWrongly, match=message):
        prompts_of(DataSettings(path=str(tmp_path / name)), tokenizer)


def test_the_projection_of_the_reference_task_has_15285_rows(shared: Path) -> None:
    rows = list(read_rows(shared / "data" / "dapo_math_unique.jsonl"))
    assert len(rows) == 16_395
    assert sum(row.get("projection") == "train" for row in rows) == 15_285


def test_real_problems_come_back_from_their_tokens(shared: Path, tokenizer: Any) -> None:
    """MATH-500, with its LaTeX, through the template and back."""
    settings = DataSettings(path=str(shared / "data" / "math500.jsonl"), limit_prompt_tokens=4_096)
    prompts = prompts_of(settings, tokenizer)
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
        check_repeats(settings, prompts_of(settings, tokenizer))
    said = str(refusal.value)
    assert "1 of 61 problems (1.6%) repeat an earlier one but for spelling" in said
    assert "row 61 asks what row 8 does ('Compute $7$.'" in said
    assert "`opd data dedupe`" in said
    assert 'data.repeats = "allow"' in said


def test_repeated_problems_are_counted_where_they_are_allowed_or_few(tmp_path: Path, tokenizer: Any) -> None:
    """E62."""
    allowed = DataSettings(path=str(jsonl(tmp_path, REPEATED)), repeats="allow")
    assert check_repeats(allowed, prompts_of(allowed, tokenizer)).repeated == 1
    few = [*REPEATED, *({"problem": f"Compute {n}+{n}.", "answer": "1"} for n in range(40))]
    settings = DataSettings(path=str(jsonl(tmp_path, few)))
    assert check_repeats(settings, prompts_of(settings, tokenizer)).repeated == 1
