import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.grading.answers import extract, unwrapped


def text(response):
    return extract(response).text


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"so \boxed{12} it is", "12"),
        (r"\fbox{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {x}", "x"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{3\right\}}", r"\left\{3\right\}"),
        (r"a stray } and { in prose, then \boxed{5}", "5"),
        (r"\boxed{4}. No, wait: \boxed{6}", "6"),
        (r"\boxed{\text{area} = \boxed{5}}", "5"),
    ],
)
def test_the_last_box_is_the_answer_and_closes_by_counting_braces(response, answer):
    assert text(response) == answer


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ("The answer is 5.", "there is no box"),
        ("", "there is no box"),
        (r"put it in \boxed", "there is no box"),
        (r"the \boxed command frames", "there is no box"),
        (r"\boxedanswer{5}", "there is no box"),
        (r"\boxed{5} and once more \boxed{", "the last box is never closed"),
        (r"\boxed{\frac{1}{2", "the last box is never closed"),
        (r"\boxed{5\}", "the last box is never closed"),
        (r"\boxed{5}, that is \boxed{}", "the last box is empty"),
        (r"\boxed{5}, that is \boxed{ \, ~ $ $ \quad {} }", "the last box is empty"),
    ],
)
def test_an_open_or_empty_last_box_is_no_answer_and_no_earlier_one_takes_its_place_E72(response, why):
    answer = extract(response)
    assert answer.text is None
    assert answer.missing == why


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"$\boxed 7$", "7"),
        (r"$\boxed -12$.", "-12"),
        (r"\boxed 2.5 in all", "2.5"),
        (r"$\boxed\frac34$", r"\frac34"),
        (r"$\boxed x$", "x"),
        (r"\boxed{8}, which I put into \boxed as asked", "8"),
    ],
)
def test_without_a_brace_the_next_token_is_boxed_and_a_mention_boxes_nothing(response, answer):
    assert text(response) == answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"\boxed{3}, \boxed{5} and \boxed{7}", "3, 5, 7"),
        (r"$\boxed{3}$, $\boxed{5}$, and $\boxed{7}$", "3, 5, 7"),
        (r"\boxed{3}\text{ and }\boxed{5}", "3, 5"),
        (r"\boxed{3}、\boxed{5}和\boxed{7}", "3, 5, 7"),
        (r"\boxed{1}, then \boxed{3}, \boxed{5}", "3, 5"),
        (r"\boxed{5}, \boxed{5}", "5"),
        (r"\boxed{3} or \boxed{5}", "5"),
        ("\\boxed{3}\n\n\\boxed{5}", "5"),
        (r"\boxed{}, \boxed{5}", "5"),
    ],
)
def test_boxes_with_nothing_but_commas_and_and_between_them_are_one_list(response, answer):
    assert text(response) == answer


@pytest.mark.parametrize(
    ("response", "inside"),
    [
        (r"<think>\boxed{7}</think>", True),
        (r"<think>maybe \boxed{7}</think> it is \boxed{8}", False),
        (r"\boxed{7} hmm</think> so seven", True),  # a template opened the reasoning in the prompt
        (r"<think>cut \boxed{7} short", True),
        (r"<think>a</think> \boxed{7}", False),
        (r"\boxed{7}", False),
    ],
)
def test_it_says_whether_the_box_stood_inside_the_reasoning(response, inside):
    assert extract(response).inside_reasoning is inside


@pytest.mark.parametrize(
    ("response", "inside"),
    [
        (r"cut \boxed{7} short", True),
        (r"\boxed{7} hmm</think> so seven", True),
        (r"hmm</think> it is \boxed{7}", False),
        (r"hmm</think> it is <think>\boxed{7}", True),
        (r"<think>twice</think> \boxed{7}", False),
        ("cut short", False),
    ],
)
def test_a_template_may_have_opened_the_reasoning_which_the_caller_says(response, inside):
    assert extract(response, reasoning_opened=True).inside_reasoning is inside


@pytest.mark.parametrize(
    ("response", "answer"), [(r"\boxed{\ 42\ }", r"\ 42"), (r"\boxed{42\ \ }", "42"), (r"\boxed{42\\ }", "42\\\\")]
)
def test_a_blank_of_tex_at_the_end_leaves_no_half_of_itself(response, answer):
    assert text(response) == answer


@pytest.mark.parametrize("gold", ["5", r"\boxed{5}", r"Adding up, we get $\boxed{5}$."])
def test_a_gold_is_unwrapped_once_and_only_if_it_is_wrapped_E71(gold):
    assert unwrapped(gold) == "5"


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{" * 140_000,
        r"\boxed{" + "{" * 1_000_000,
        r"\boxed{" + "{" * 500_000 + "}" * 500_001,
        r"\boxed{1}, " * 90_000,
        r"\boxed{1}" + " " * 500_000 + r"\boxed{2} and" + "\\" * 500_000,
        r"\boxed " * 140_000,
        r"\boxed\frac{" * 80_000,
        r"\boxed{1" + "\\ " * 400_000 + "}",
    ],
    ids=["open", "braces", "deep", "list", "blanks", "mentions", "fractions", "blanks of TeX"],
)
def test_a_million_hostile_characters_are_read_in_one_pass(response):
    extract(response)  # quadratic time would be hours


@given(st.text(alphabet="ab{}\\ ,$\n", max_size=40))
def test_what_is_boxed_comes_out_as_it_stood_whenever_its_braces_match(inner):
    depth, lowest, escaped, end = 0, 0, False, 0
    for place, character in enumerate(inner):
        half_a_blank = character == "\\" and not escaped and inner[place + 1 : place + 2].isspace()
        if not character.isspace() and not half_a_blank:
            end = place + 1
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            depth += (character == "{") - (character == "}")
            lowest = min(lowest, depth)
    matched = depth == 0 == lowest and not escaped
    answer = extract(rf"thus \boxed{{{inner}}}")
    if matched and any(letter in inner for letter in "ab"):
        assert answer.text == inner[:end].lstrip()


def test_a_gold_in_a_box_and_one_without_are_the_same() -> None:
    """faults E71: taking the box off twice would make every answer wrong."""
    assert text(r"so \boxed{5}") == unwrapped(r"\boxed{5}") == unwrapped("5") == "5"
