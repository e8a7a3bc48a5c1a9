"""Student and teacher must mean the same by an id; a pair that doesn't is refused before anything is sampled."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from opd.records.errors import AskedWrongly
from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.train.ahead.plan import make_plan
from opd.train.pairing import Speaker, mismatch
from opd.train.parts import build


def speaker(*more: str, eos: str | None = None, stops: tuple[str, ...] = ("<eos>",)) -> Speaker:
    """The tokenizer of the embedded task with more tokens or another end."""
    tokenizer: PreTrainedTokenizerFast = make_tokenizer()
    tokenizer.add_tokens(list(more))
    if eos is not None:
        tokenizer.eos_token = eos
    return Speaker(tokenizer=tokenizer, stop_ids=frozenset(map(tokenizer.convert_tokens_to_ids, stops)))


def test_two_models_of_one_tokenizer_are_a_pair() -> None:
    assert mismatch(speaker(), speaker()) is None


def test_more_tokens_on_one_side_are_refused() -> None:
    """E33: the teacher would have scores for tokens that the student can't write, or none for those it can."""
    said = str(mismatch(speaker(), speaker("<extra>")))
    assert "different vocabularies (of 312 and 313 ids; id 312 is nothing to the student and '<extra>' to the" in said
    assert "use a pair with one tokenizer" in said


def test_vocabularies_of_one_size_with_other_tokens_are_refused() -> None:
    """E33: the size alone says nothing; the same id stands for another text. The first such id is named."""
    said = str(mismatch(speaker("<one>", "<two>"), speaker("<other>", "<two more>")))
    assert "(of 314 and 314 ids; id 312 is '<one>' to the student and '<other>' to the teacher)" in said


def test_other_ends_of_sequence_are_refused() -> None:
    """E23: a base student under a chat teacher; the one's last token is unknown to the other, and answers grow."""
    said = str(mismatch(speaker(), speaker(eos="<User>")))
    assert "end with different tokens ('<eos>' and '<User>')" in said
    assert "make the two agree" in said


@pytest.mark.parametrize(
    ("student", "teacher"), [(("<eos>",), ("<eos>", "<User>")), (("<eos>", "<User>"), ("<eos>",))]
)
def test_one_more_way_to_end_on_either_side_is_refused_with_both(student: tuple, teacher: tuple) -> None:
    """E23: the tokenizers agree, and generation_config.json does not."""
    ours, theirs = speaker(stops=student), speaker(stops=teacher)
    said = str(mismatch(ours, theirs))
    for role, one in (("student", student), ("teacher", teacher)):
        ids = ours.tokenizer.convert_tokens_to_ids(list(one))
        named = " and ".join(f"{token!r} ({number})" for number, token in sorted(zip(ids, one, strict=True)))
        assert f"the {role} with {named}" in said
    assert "generation_config.json" in said


@pytest.fixture
def chatty(random_models: Path, tmp_path: Path) -> Path:
    """The teacher, with a second end of sequence in the one file where chat models keep it."""
    shutil.copytree(random_models / "teacher", tmp_path / "chatty")
    path = tmp_path / "chatty" / "generation_config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"eos_token_id": [values["eos_token_id"], 5]}))
    return tmp_path / "chatty"


def test_a_run_and_its_plan_refuse_a_second_end_in_the_generation_settings(
    make_recipe, chatty: Path, tmp_path: Path
) -> None:
    """E23: 151645 alone in one directory and 151645 with 151643 in the other, as it were."""
    recipe = make_recipe(f"teacher.model={chatty}")
    with pytest.raises(
        AskedWrongly, match=r"end with different tokens: the student with .*, the teacher with .*\(5\)"
    ):
        build(recipe)
    (fault,) = make_plan(recipe, out=tmp_path).lacks
    assert fault.startswith("models: student and teacher end with different tokens")


def test_the_same_two_ends_on_both_sides_are_a_pair(make_recipe, chatty: Path, tmp_path: Path) -> None:
    recipe = make_recipe(f"student.model={chatty}", f"teacher.model={chatty}")
    assert make_plan(recipe, out=tmp_path).lacks == ()
    assert len(build(recipe).student.stop_ids) == 2
