"""A problem as the model reads it: one beginning, the opened reasoning, and the text as it was."""

import pytest

from opd.models.chat import check_template, opens_reasoning, prompt_ids, user_text
from opd.models.load import load_model
from opd.records.errors import AskedWrongly
from opd.tasks.arith_tiny.tokenizer import make_tokenizer

INSTRUCTION = r"{problem} Please reason step by step, and put your final answer within \boxed{}."


@pytest.fixture
def tokenizer():
    return make_tokenizer()


def test_a_prompt_begins_once_and_ends_where_the_reasoning_begins(tokenizer):
    """E35, E36: one <bos>, at index 0, though the tokenizer puts one before whatever it encodes."""
    ids = prompt_ids(tokenizer, "Compute 73-9+7.")
    assert tokenizer("x")["input_ids"][0] == tokenizer.bos_token_id  # the bad condition exists
    assert ids.count(tokenizer.bos_token_id) == 1
    assert tokenizer.decode(ids) == "<bos><User>Compute 73-9+7.<Assistant><think>\n"
    assert tokenizer.convert_ids_to_tokens(ids[-3:]) == ["<Assistant>", "<think>", "Ċ"]


def test_a_prompt_that_ends_in_the_marker_opens_the_reasoning(tokenizer):
    ids = prompt_ids(tokenizer, "Compute 73-9+7. Do not write <think>")
    assert opens_reasoning(tokenizer, ids)
    assert not opens_reasoning(tokenizer, ids[:-2])


def test_student_and_teacher_read_the_same_prompt(random_models):
    """E36: a directory that was saved and loaded gives the ids of the tokenizer that was saved."""
    expected = prompt_ids(make_tokenizer(), "Compute  73-9+7.\n\n\n Please")
    for name in ("student", "teacher"):
        loaded = load_model(random_models / name, dtype="float32", device="cpu").tokenizer
        assert prompt_ids(loaded, "Compute  73-9+7.\n\n\n Please") == expected


def test_a_template_that_begins_twice_is_refused(tokenizer):
    """E35."""
    tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
    with pytest.raises(AskedWrongly, match=r"two beginning-of-sequence tokens \('<bos>'\)"):
        prompt_ids(tokenizer, "1+1")


def test_a_tokenizer_without_a_template_is_refused(tokenizer):
    tokenizer.chat_template = None
    with pytest.raises(AskedWrongly, match="the tokenizer has no chat template"):
        prompt_ids(tokenizer, "1+1")


def test_a_tokenizer_without_a_beginning_needs_none(tokenizer):
    tokenizer.bos_token = None
    tokenizer.chat_template = "{{ messages[0]['content'] }}<Assistant>"
    assert tokenizer.decode(prompt_ids(tokenizer, "1+1")) == "1+1<Assistant>"


# --- the user's turn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["1+1", r"$\frac{1}{2}$ of {{x}}", "{problem}", "", "{"])
def test_the_problem_stands_in_the_turn_as_it_is(problem):
    check_template(INSTRUCTION)
    instruction = r" Please reason step by step, and put your final answer within \boxed{}."
    assert user_text(INSTRUCTION, problem) == problem + instruction


@pytest.mark.parametrize("template", ["", "{}", "Solve: {Problem}", "{problem} and {problem}"])
def test_a_template_has_exactly_one_place_for_the_problem(template):
    with pytest.raises(AskedWrongly, match=r"\{problem\} must stand in it exactly once"):
        check_template(template)


@pytest.mark.parametrize("template", [r"{problem} within \boxed{{}}", "{{problem}}", "{{ {problem}", "{problem} }}"])
def test_a_template_with_doubled_braces_is_refused(template):
    r"""E38: `\boxed{{}}` reached the models of a public data set as it stands there."""
    with pytest.raises(AskedWrongly, match="doubled braces"):
        check_template(template)
