import pytest

from opd.grading.folding import fold
from opd.grading.lexer import LONGEST_ANSWER, tokenise
from opd.grading.trees import BeyondGrammar, Unreadable


def spelled(text, **settings):
    return " ".join(token.text for token in tokenise(text, **settings))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\left( 3, \dfrac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        (r"\displaystyle\tfrac{1}{2}", r"\frac{1}{2}"),
        (r"$\,42\,$", "42"),
        (r"\(42\)", "42"),
        ("**42**", "42"),
        ("42.", "42"),
        (r"\text{Evelyn}", r"\textbf{ Evelyn }"),
        (r"\mathrm{east}", "east"),
        (r"(3,4]", r"\big( 3,\; 4 \big]"),
        (r"((((7))))", "(7)"),
        (r"{{7}}", "7"),
        ("\u200b42\u00a0\x00", "42"),
        ("\u202e42\u2066", "42"),
        ("``42''", "42"),
        ("\u201c42\u201d", "42"),
        (r"\begin{aligned} x &= 1 \\ y &= 2 \end{aligned}", "x=1, y=2"),
        ("5{:}30", "5:30"),
        ("]0,1[", "(0,1)"),
        ("[0,1[", "[0,1)"),
        (r"]-\infty, 0] \cup ]1, 2[", r"(-\infty,0]\cup(1,2)"),
    ],
)
def test_layout_leaves_no_trace(one, other):
    assert tokenise(one) == tokenise(other)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234", "1234"),
        ("1,234,567.5", "1234567.5"),
        (r"10,\!080", "10080"),
        (r"11,\! 111,\! 100", "11111100"),
        ("58{,}500", "58500"),
        (r"1\,000\,000", "1000000"),
        (r"1,\,000", "1000"),
        ("1 000 000", "1000000"),
    ],
)
def test_groups_of_three_digits_are_one_number(text, number):
    assert spelled(text) == number


@pytest.mark.parametrize(
    "text", ["19,22", "1,23", "1,2345", "1, 234", "1234,567", "1,234,56", "(1,234)", r"\{1,234\}"]
)
def test_other_groups_and_groups_in_brackets_stay_apart(text):
    assert "," in spelled(text)


def test_a_comma_can_be_asked_to_separate():
    assert spelled("1,234", grouped=False) == "1 , 234"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("6abc", "6 a b c"),
        ("17 apples", "17 apples"),
        ("17apples", "17 apples"),
        ("3m", "3 m"),
        ("3 cm", "3 cm"),
        ("xyz", "x y z"),
        ("sinx", "sin x"),
        ("2pi", "2 pi"),
        (r"12^{\text{th}}", "12"),
        ("21st", "21"),
        ("4:30 p.m.", "4 : 30 pm"),
        ("2**10", "2 ^ 10"),
        ("+/-5", "+- 5"),
        (r"45 \deg", "45 degree"),
        (r"2\text{cis}60", "2 cis 60"),
        (r"3 \text{ to } 4", "3 : 4"),
        (r"\text{one hundred and five}", "one hundred five"),
        (r"\overline{3+4i}", "conj { 3 + 4 i }"),
        (r"\overline{XY}", "X Y"),
        (r"\textbf{x}+1", "x + 1"),
        (r"1-\mbox{ t }", "1 - t"),
        (r"\text{A}\cdot 2", "A * 2"),
        (r"3\text{x}", "3 x"),
        (r"3(\text{x}+\text{y})", "3 ( x + y )"),
        (r"3\text{ m}+4\text{ m}", "3 m + 4 m"),
        (r"[[1,2],[3,4]]", "[ [ 1 , 2 ] , [ 3 , 4 ] ]"),
    ],
)
def test_letters_are_words_units_functions_or_names(text, tokens):
    assert spelled(text) == tokens


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (r"\textbf{x}+1", "name mark number"),
        (r"2\text{n}", "number name"),
        (r"5\text{ m}", "number word"),
        (r"5\text{ m}+\text{ s}", "number word mark word"),
        (r"\text{x apples}+1", "word word mark number"),
        (r"\text{B}", "word"),
        (r"\text{2k}", "number name"),
        (r"\mathrm{2k}", "number name"),
        (r"\text{2kg}", "number word"),
        (r"300\mathrm{K}", "number word"),
        (r"\text{17apples}", "number word"),
    ],
)
def test_a_letter_alone_in_its_wrapper_is_calculated_with_unless_it_is_a_unit_or_a_word(text, kinds):
    assert " ".join(token.kind.value for token in tokenise(text)) == kinds


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("(3A)_{16}", "3A"),
        ("3A_{16}", "3A"),
        (r"2\text{B}4_{12}", "2B4"),
        (r"\mathrm{A3}_{12}", "A3"),
        (r"(\text{3}\mbox{A})_{16}", "3A"),
        (r"( 3A ) _ { 16 }", "3A"),
    ],
)
def test_a_numeral_with_letters_is_one_number_whatever_it_is_wrapped_in(text, number):
    assert spelled(text).partition(" _ ")[0] == number


@pytest.mark.parametrize("text", ["(AB)_{12}", "f(3)_{12}", r"\text{AB}_{12}", "(3a)_{16}"])
def test_letters_alone_and_small_ones_are_no_numeral(text):
    assert not any(token.kind.value == "number" and not token.text.isdecimal() for token in tokenise(text))


@pytest.mark.parametrize(
    ("text", "folded"),
    [("5²", "5^{2}"), ("½", r"\frac{1}{2}"), ("２", "2"), ("（1，2）", "(1,2)"), ("x₁₂", "x_{12}"), ("−3", "-3")],
)
def test_characters_of_other_alphabets_become_latex_without_changing_their_meaning(text, folded):
    assert fold(text) == folded


def test_a_command_in_no_table_is_beyond_the_grammar():
    with pytest.raises(BeyondGrammar, match="wp"):
        tokenise(r"\wp(x)")


@pytest.mark.parametrize("text", ["{1", "1}", "1 @ 2", "7" * (LONGEST_ANSWER + 1)])
def test_unbalanced_foreign_and_endless_texts_are_unreadable(text):
    with pytest.raises(Unreadable):
        tokenise(text)
