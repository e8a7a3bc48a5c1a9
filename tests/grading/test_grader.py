"""The door of the room: the shared cases, every MATH-500 gold, hostile responses, threads, own graders."""

import itertools
import json
import random
import re
import shutil
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opd.grading import identity as identity_module
from opd.grading.equality import Finding, NeedsWorker, compare
from opd.grading.exact import Exact
from opd.grading.grader import Grader, check_gold
from opd.grading.identity import identity
from opd.grading.numeric import Numeric
from opd.grading.pool import Limits
from opd.records.errors import AskedWrongly
from opd.records.scores import Verdict

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "grader_cases.jsonl"
ROWS = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()] if CASES.is_file() else []
KINDS = sorted({row["kind"] for row in ROWS}) or ["all kinds"]


@pytest.fixture(scope="module")
def grader():
    with Grader(limits=Limits(workers=1)) as grader:
        yield grader


@pytest.fixture(scope="module")
def golds(shared):
    lines = (shared / "data" / "math500.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["answer"] for line in lines]


def verdict(grader, answer, gold):
    return grader.grade([(rf"So \boxed{{{answer}}}.", gold, False)])[0].verdict


@pytest.mark.parametrize("kind", KINDS)
def test_every_shared_case_comes_to_its_expected_verdict_and_kills_nothing(shared, grader, kind):
    rows = [row for row in ROWS if row["kind"] == kind]
    judgements = grader.grade([(row["response"], row["gold"], False) for row in rows])
    wrong = [row["id"] for row, one in zip(rows, judgements, strict=True) if one.verdict.correct != row["expected"]]
    assert wrong == []
    assert all(one.verdict.settled is bool(row["gold"]) for row, one in zip(rows, judgements, strict=True))


def test_no_input_of_the_shared_cases_stands_in_the_code(shared):
    """Rules, not cases. Short ones such as a half are everywhere and say nothing."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(identity_module.__file__).parent.rglob("*.py"))
    boxed = [found for row in ROWS for found in re.findall(r"\\(?:boxed|fbox)\{(.*)\}", row["response"])]
    inputs = {text for text in (*boxed, *(row["gold"] for row in ROWS)) if len(text) > 8}
    assert len(inputs) > 100
    assert {text for text in inputs if text in source} <= {r"\frac{1}{2}"}


def test_a_symbolic_comparison_works_from_a_thread_other_than_main_E70():
    found = []

    def work():
        with Grader(limits=Limits(workers=1)) as grader:
            found.append(verdict(grader, "34", "34"))
            found.append(verdict(grader, r"\sqrt{12}", r"2\sqrt3"))
            found.append(verdict(grader, r"\frac{4}{7}", r"\frac37"))
            found.append(verdict(grader, r"\int_0^1 x\,dx", r"\frac12"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [Verdict.CORRECT, Verdict.CORRECT, Verdict.WRONG, Verdict.CORRECT]


@pytest.mark.patient
def test_a_comparison_that_never_ends_is_a_failure_of_the_grader_and_not_a_wrong_answer_E70():
    with Grader(limits=Limits(workers=1, seconds=1.0)) as grader:
        endless, after = grader.grade(
            [(r"\boxed{\int_0^1 10^{10^{10}} x\,dx}", "5", False), (r"\boxed{\sqrt{8}}", r"2\sqrt{2}", False)]
        )
        assert endless.verdict is Verdict.GRADER_FAILED
        assert "longer than 1 s" in endless.reason
        assert after.verdict is Verdict.CORRECT


@pytest.mark.parametrize("gold", ["5", r"\boxed{5}", "$5$", r"Thus $\boxed{5}$."])
def test_a_boxed_gold_is_the_gold_in_it_E71(grader, gold):
    assert verdict(grader, "5", gold) is Verdict.CORRECT
    assert verdict(grader, "6", gold) is Verdict.WRONG


@pytest.mark.parametrize("response", [r"\boxed{5} … \boxed{", r"\boxed{5} … \boxed{}", "5", ""])
def test_no_complete_last_box_is_no_answer_and_says_when_the_limit_was_the_reason_E72(grader, response):
    ended, cut = grader.grade([(response, "5", False), (response, "5", True)])
    assert (ended.verdict, ended.extracted) == (Verdict.NO_ANSWER, None)
    assert (cut.verdict, cut.extracted) == (Verdict.CUT_SHORT, None)


def test_a_response_that_was_cut_short_behind_a_complete_box_is_graded_as_any_other(grader):
    right, wrong = grader.grade([(r"\boxed{5}. Let me check", "5", True), (r"\boxed{6}. Let me check", "5", True)])
    assert (right.verdict, wrong.verdict) == (Verdict.CORRECT, Verdict.WRONG)


@pytest.mark.parametrize("gold", ["", "  ", r"\boxed{}", r"\boxed{5", "$$", r"\,", "."])
def test_an_empty_gold_is_refused_when_it_is_loaded_and_equals_nothing_E73(grader, gold):
    with pytest.raises(AskedWrongly, match="holds no answer"):
        check_gold(gold)
    for response in ["", "5", r"\boxed{5}", r"\boxed{}", r"\boxed{\text{}}", rf"\boxed{{{gold}}}"]:
        (judgement,) = grader.grade([(response, gold, False)])
        assert (judgement.verdict, judgement.reason) == (
            Verdict.GRADER_FAILED,
            "the gold is empty: nothing can equal it",
        )


@pytest.mark.parametrize("gold", ["5", r"\text{no such triangle}", r"\wp(x)", r"\boxed{5}"])
def test_a_gold_that_says_something_is_accepted(gold):
    check_gold(gold)


def test_a_gold_that_no_rule_reads_equals_itself_and_nothing_else_E73(grader):
    gold = r"\wp(x) \diamond 3"
    assert verdict(grader, gold, gold) is Verdict.CORRECT
    for answer in ["3", r"\wp(x)", r"\text{wp}", "x"]:
        assert verdict(grader, answer, gold) in {Verdict.UNREADABLE, Verdict.WRONG}


def test_judgements_come_in_order_and_say_how_they_were_reached(grader):
    responses = [r"\boxed{7}", r"<think>\boxed{0.5}</think>", r"\boxed{\sqrt{8}}", "none", r"\boxed{07}"]
    golds = ["7", r"\frac12", r"2\sqrt2", "7", "8"]
    judgements = grader.grade([(one, gold, False) for one, gold in zip(responses, golds, strict=True)])
    assert [one.stage for one in judgements] == ["integer", "exact", "value", "extract", "integer"]
    assert [one.extracted for one in judgements] == ["7", "0.5", r"\sqrt{8}", None, "07"]
    assert [one.verdict.correct for one in judgements] == [True, True, True, False, False]
    assert [one.inside_reasoning for one in judgements] == [False, True, False, False, False]


def test_two_thousand_integers_start_no_process():
    with Grader() as grader:
        judgements = grader.grade([(rf"\boxed{{{number % 7}}}", "3", False) for number in range(2000)])
        assert grader.process_ids == ()
    assert sum(one.verdict.correct for one in judgements) == len(range(3, 2000, 7))


HOSTILE = [
    r"\boxed{" + "{" * 500_000 + "}" * 500_000 + "}",
    r"\boxed{" + "9" * 1_000_000 + "}",
    r"\boxed{" + "(" * 1_900 + "1" + ")" * 1_900 + "}",
    r"\boxed{" + "9" * 3_900 + "}",
    r"\boxed{9!" + "^{9!}" * 20 + "}",
    r"\boxed{" + r"\cup".join(["(1,2)"] * 400) + "}",
    r"\boxed{" + ",".join(str(number) for number in range(900)) + "}",
    r"\boxed{" + r"\pm 1" * 700 + "}",
    r"\boxed{" + r"\sqrt{" * 25 + r"\pi" + "}" * 25 + "}",
    r"\boxed{" + "A1" * 1_900 + "_}",
    r"\boxed{\sum_{k=1}^{10^{12}} k^k}",
    r"\boxed{\{" + ",".join(f"{number}x+abc+y" for number in range(190)) + r"\}}",
    r"\boxed{" + "+".join(rf"\sin({number}x)" for number in range(2, 290)) + "}",
    r"\boxed{(0." + "3" * 3_000 + r"x)!}",
    r"\boxed{x < " + r" \text{ or } x < ".join(map(str, range(150))) + "}",
    "\\boxed{\x00\ud800}",
]


def test_hostile_responses_are_settled_without_killing_a_process(grader):
    """Every limit is one of size, found before the work is done, so that the verdict is the same on any machine."""
    judgements = grader.grade([(response, gold, False) for response in HOSTILE for gold in (r"\pi", "16")])
    assert {one.verdict for one in judgements} <= {Verdict.WRONG, Verdict.UNREADABLE}


def test_every_math_500_gold_equals_itself(grader, golds):
    judgements = grader.grade([(rf"\boxed{{{gold}}}", gold, False) for gold in golds])
    assert [gold for gold, one in zip(golds, judgements, strict=True) if not one.verdict.correct] == []


def spaced(gold, draw):
    """Blanks around signs and brackets; not in text, and not in numbers with commas."""
    blank = draw(st.sampled_from([" ", r"\,", r"\;", "  ", "~"]))
    parts = re.split(r"(\\(?:text|mbox)\{[^}]*\}|\\.)", gold)
    return "".join(
        part if part.startswith("\\") else re.sub(r"([-+=(\[])(?=\S)", rf"\1{blank}", part).replace("  ", " ")
        for part in parts
    )


REWRITINGS = [
    spaced,
    lambda gold, draw: re.sub(r"\\[dt]?frac", draw(st.sampled_from([r"\\dfrac", r"\\tfrac", r"\\frac"])), gold),
    lambda gold, draw: gold if "text" in gold else re.sub(r"([(\[])", r"\\left\1", gold),
    lambda gold, draw: gold if "text" in gold else re.sub(r"([)\]])", r"\\right\1", gold),
    lambda gold, draw: re.sub(r"([-+=])", r" \1 ", gold) if "text" not in gold else gold,
    lambda gold, draw: gold + draw(st.sampled_from([".", " .", r"\,", ""])),
    lambda gold, draw: rf"${gold}$",
    lambda gold, draw: rf"\text{{{gold}}}" if re.fullmatch(r"[\w.]+", gold, re.ASCII) and "_" not in gold else gold,
    lambda gold, draw: rf"\displaystyle {gold}",
]


WRAPPERS = ("text", "mbox", "textbf", "mathrm", "mathbf")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_math_500_gold_equals_its_rewritings(grader, golds, data):
    gold = rewritten = data.draw(st.sampled_from(golds))
    for rewriting in data.draw(st.lists(st.sampled_from(REWRITINGS), max_size=4, unique=True)):
        rewritten = rewriting(rewritten, data.draw)
    assert verdict(grader, rewritten, gold) is Verdict.CORRECT, (gold, rewritten)


def test_every_math_500_gold_of_digits_and_letters_equals_itself_in_any_wrapper(grader, golds):
    bare = [gold for gold in golds if re.fullmatch(r"[A-Za-z0-9.]+", gold)]
    wrapped = [(rf"\boxed{{\{name}{{{gold}}}}}", gold, False) for gold in bare for name in WRAPPERS]
    assert any(re.fullmatch(r"\d+[a-z]", gold) for gold in bare)  # 2k in a text is no two of anything
    judgements = grader.grade(wrapped)
    assert [case for case, one in zip(wrapped, judgements, strict=True) if not one.verdict.correct] == []


def plainly(gold):
    """An independent reading of the golds that have several spellings: a number, or an unordered list of numbers."""
    text = re.sub(r"\^\\circ|\\mbox\{.*\^2|(?<=[\d ])\\text\{.*?\}|\\\$|\\!| |^x=", "", gold)
    based = re.fullmatch(r"(\d+)_\{?(\d)\}?", text)
    if based:
        return Fraction(int(based[1], int(based[2])))
    listed = re.fullmatch(r"\(?(-?\d),(-?\d)\)?", text)
    if listed:
        return frozenset(map(int, listed.groups()))
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    mixed = re.fullmatch(r"(-?)(\d*)\\[dt]?frac\{?(\d+?)\}?\{?(\d+)\}?", text)
    if mixed:
        value = int(mixed[2] or "0") + Fraction(int(mixed[3]), int(mixed[4]))
        return -value if mixed[1] else value
    return Fraction(text) if re.fullmatch(r"-?\d*\.?\d+", text) else text


def differing(golds):
    """The pairs of golds on which the grader and `plainly` disagree."""
    for one, other in itertools.combinations(golds, 2):
        try:
            outcome = compare(one, other, Exact())
        except NeedsWorker:
            outcome = compare(one, other, Numeric(), symbolic=lambda *_: False)
        if (outcome.finding is Finding.EQUAL) != (plainly(one) == plainly(other)):
            yield one, other, outcome


# What `plainly` does not see: a point has an order, and dollars are not degrees.
EXPLAINED = {frozenset({"(-2,1)", "1,-2"}), frozenset({r"\$36", r"36^\circ"})}


@pytest.mark.parametrize("most", [80, pytest.param(500, marks=pytest.mark.slow)])
def test_no_math_500_gold_equals_another_problems_unequal_gold(golds, most):
    different = sorted(set(golds))
    sample = random.Random(0).sample(different, min(most, len(different)))
    assert [found for found in differing(sample) if frozenset(found[:2]) not in EXPLAINED] == []


@pytest.fixture
def copied_room(tmp_path, monkeypatch):
    """A copy of the room's source, which `identity` takes for the room itself."""
    room = Path(identity_module.__file__).parent
    shutil.copytree(room, tmp_path / "grading", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(identity_module, "__file__", str(tmp_path / "grading" / "identity.py"))
    return tmp_path / "grading"


@pytest.mark.parametrize("name", ["house", "reference"])
def test_the_identity_changes_with_the_source_and_names_the_grader(name, copied_room, monkeypatch):
    copied = identity(name)
    assert re.fullmatch(rf"{name}:[0-9a-f]{{64}}", copied)
    with (copied_room / "units.py").open("a") as file:
        file.write("# one comment more\n")
    changed = identity(name)
    assert changed != copied
    monkeypatch.undo()
    assert identity(name) == Grader(grader=name).identity() == copied


def test_the_reference_rules_are_part_of_the_identity_of_that_grader_alone(copied_room):
    before = identity("house"), identity("reference")
    with (copied_room / "reference" / "rules.py").open("a") as file:
        file.write("# one comment more\n")
    assert identity("house") == identity(None) == before[0]
    assert identity("reference") != before[1]


def test_the_caller_says_that_the_prompt_opened_the_reasoning(grader):
    case = (r"I think \boxed{7}", "7", True)
    assert not grader.grade([case])[0].inside_reasoning
    assert grader.grade([case], reasoning_opened=True)[0].inside_reasoning


def test_each_judgement_says_who_decided_and_equal_cases_are_paid_for_once():
    with Grader(limits=Limits(workers=1)) as grader:
        first, again, other = grader.graded(
            [(r"\boxed{\sqrt8}", r"2\sqrt2", False)] * 2 + [(r"\boxed{1}", "1", False)]
        )
        later = grader.graded([(r"\boxed{\sqrt8}", r"2\sqrt2", False)])[0]
    assert {one.judgement.by for one in (first, again, other)} == {"house"}
    assert first.judgement == again.judgement == later.judgement
    assert min(one.seconds for one in (first, again, other, later)) > 0
    assert first.seconds / 2 > max(again.seconds, later.seconds)


@pytest.mark.parametrize("name", [None, "house"])
def test_the_house_grader_has_a_name_of_its_own(name):
    with Grader(grader=name) as grader:
        assert grader.identity() == identity()
        assert grader.grade([(r"\boxed{5}", "5", False)])[0].by == "house"


OWN = "def grade(response, gold):\n    return response.endswith(gold)\n"


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_grader.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "own_grader.py"


def test_anyones_own_grader_decides_and_the_house_still_says_what_was_boxed(own):
    with Grader(grader="own_grader:grade", limits=Limits(workers=1)) as grader:
        judgements = grader.grade(
            [("it is 5", "5", False), (r"\boxed{5}", "5", False), ("no", "5", False), ("cut", "5", True)]
        )
    assert [one.verdict for one in judgements] == [
        Verdict.CORRECT,
        Verdict.WRONG,
        Verdict.NO_ANSWER,
        Verdict.CUT_SHORT,
    ]
    assert [one.extracted for one in judgements] == [None, "5", None, None]
    assert judgements[0].stage == "own_grader:grade"
    assert {one.by for one in judgements} == {"own_grader:grade"}


def test_the_identity_of_an_own_grader_is_that_of_its_module(own):
    before = Grader(grader="own_grader:grade").identity()
    assert re.fullmatch(r"own_grader:grade:[0-9a-f]{64}", before)
    own.write_text(OWN + "# changed\n")
    assert Grader(grader="own_grader:grade").identity() != before


@pytest.mark.parametrize("spec", ["own_grader", "own grader:grade", ":grade", "own_grader:", "own_grader:a:b"])
def test_a_grader_that_is_not_module_and_function_is_asked_wrongly(spec):
    with pytest.raises(AskedWrongly, match="module:function"):
        Grader(grader=spec)


def test_a_grader_whose_module_does_not_exist_is_asked_wrongly():
    with pytest.raises(AskedWrongly, match="no module 'nowhere_at_all'"):
        Grader(grader="nowhere_at_all:grade").identity()
