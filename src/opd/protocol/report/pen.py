"""What a section is written with: the story, the book of claims, what was compared; and the phrases that recur."""

from collections.abc import Iterable
from dataclasses import dataclass

from opd.protocol.report import marks
from opd.protocol.report.book import Book
from opd.protocol.report.comparing import Compared, Pair
from opd.protocol.report.exploring import Measured
from opd.protocol.report.forms import SMALLEST_CHANCE
from opd.protocol.report.layout import listed
from opd.protocol.report.marks import Marked
from opd.protocol.report.sources import Fact
from opd.protocol.report.story import FinalRun, Reference, Story, label
from opd.protocol.report.trainings import Match
from opd.records.claims import Form, Ground

NONE_GIVEN = "The explorer's record gives none."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """All of it."""

    story: Story
    book: Book
    compared: Compared

    def of(self, fact: Fact, form: Form) -> Marked:
        """The fact's value in this form."""
        return self.book.cite(fact, form)

    def proxy(self, measured: Measured) -> str:
        """`proxy 4`."""
        return f"proxy {self.of(measured.proxy['number'], Form.STEP)}"

    def unit(self, measured: Measured) -> str:
        """`U-04 (proxy 4)`."""
        return f"{marks.numbering(self.story.unit_of(measured).id)} ({self.proxy(measured)})"

    def step(self, final: FinalRun) -> str:
        """`step 2100`."""
        assert final.tried.step is not None, "a final is about a step"
        return f"step {self.of(final.tried.step, Form.STEP)}"

    def score(self, record: Fact) -> str:
        """`809/1,920 = 0.421354 ± 0.051593`, of an outcome.json with a score."""
        error = record.get("stderr")
        shown = f" ± {self.of(error, Form.ERROR)}" if error else ", with an error that is not defined"
        correct, samples = self.of(record["correct"], Form.INTEGER), self.of(record["samples"], Form.INTEGER)
        return f"{correct}/{samples} = {self.of(record['mean'], Form.MEAN)}{shown}"

    def sentence(self, fact: Fact) -> str:
        """Somebody else's sentence on one line, with a full stop behind it."""
        return f"{self.of(fact, Form.TEXT)}{'' if str(fact.value).rstrip().endswith(('.', '!', '?')) else '.'}"

    def seconds(self, fact: Fact) -> str:
        """`41,701.93 s`."""
        return f"{self.of(fact, Form.NUMBER)} s"

    def reference(self, reference: Reference) -> str:
        """`0.427083 ± 0.051615 (820/1,920)`."""
        fact = reference.fact
        error = f" ± {self.of(fact['stderr'], Form.ERROR)}" if fact.get("stderr") else ""
        counted = ""
        if fact.get("correct"):
            counted = f" ({self.of(fact['correct'], Form.INTEGER)}/{self.of(fact['samples'], Form.INTEGER)})"
        return f"{self.of(fact['score'], Form.MEAN)}{error}{counted}"

    def against(self, record: Fact, reference: Reference) -> str:
        """`+325 correct answers, above it`, or `as many correct answers`: arithmetic, and no test."""
        fact, key, unit, form = reference.fact, "correct", " correct answers", Form.SIGNED_INTEGER
        if fact.get("correct") is None or fact.value["samples"] != record.value["samples"]:
            key, unit, form = "score", "", Form.SIGNED_MEAN
        mine = record["correct" if key == "correct" else "mean"]
        difference = self.book.computed("mine - published", form, mine=mine, published=fact[key])
        value = self.book.value(difference)
        if value == 0:
            level = f"as many{unit}" if unit else "the same score"
            return self.book.judged(level, Ground.ORDER, rests_on=[difference])
        words = self.book.judged("above it" if value > 0 else "below it", Ground.ORDER, rests_on=[difference])
        return f"{difference}{unit}, {words}"

    def quotes(self, facts: Iterable[Fact]) -> str:
        """A block of quotation for each, with its source."""
        return "\n\n".join(f"{self.of(fact, Form.QUOTE)}\n>\n> — {self.source(fact)}" for fact in facts)

    def source(self, fact: Fact) -> str:
        """Where it stands: the file, and the line where it has lines."""
        line = fact.pointer.partition("/")[0].removeprefix("line:")
        where = f", line {marks.place(line)}" if fact.pointer.startswith("line:") else ""
        return f"{marks.path(fact.file)}{where}"

    def differing(self, match: Match) -> str:
        """`reward`, `data.shuffle` and the source."""
        keys = [str(marks.name(one.key)) for one in match.recipe]
        hunks = ["the source"] if match.hunks else []
        return listed([*keys, *hunks])

    def tested(self, pair: Pair, a: str, b: str) -> str:
        """What the paired test says of B against A, in a sentence or more; `a` and `b` name them."""
        found = self.numbers(pair)
        if not pair.apart:
            because = f"they cannot be told apart ({found}){self._would_be_found(pair)}"
            return self.book.not_established(f"any difference between {b} and {a}", because)
        words = "higher than" if pair.difference > 0 else "lower than"
        ground = Ground.MATCHED_CONTROL if pair.is_controlled else Ground.PAIRED_TEST
        rests_on = [pair.found["distinguishable"], pair.found["difference"]]
        compares = self.book.judged(words, ground, rests_on=rests_on)
        return f"{b[0].upper()}{b[1:]} scored {compares} {a}: {found}."

    def why_no_control(self, pair: Pair) -> str:
        """Why A is no matched control of B, as the end of a sentence that begins with `because`."""
        match = pair.match
        if match.unknown is not None:
            return match.unknown
        if not match.same_steps:
            a, b = (self._steps_of(one) for one in (pair.a, pair.b))
            return f"one was trained for {a} steps and the other for {b}"
        if match.is_repetition:
            return f"they differ in the {marks.name('seed')} alone"
        if not match.names:
            return "nothing differs that was recorded"
        return f"they differ in more than one thing: {self.differing(match)}"

    def _steps_of(self, name: str) -> str:
        training = next(one.training for one in self.story.measured if label(one) == name)
        assert training is not None, "steps are known where they are compared"
        assert training.step is not None, "and both have some"
        return self.of(training.step, Form.STEP)

    def numbers(self, pair: Pair) -> str:
        """The difference, its interval and its p, in a row."""
        found, interval = pair.found, ""
        if found.get("ci95"):
            low, high = (self.of(found["ci95"][end], Form.SIGNED_MEAN) for end in (0, 1))
            interval = f", {marks.convention('95 %')} interval {low} to {high}"
        questions = self.of(found["questions"], Form.INTEGER)
        difference = self.of(found["difference"], Form.SIGNED_MEAN)
        return f"{difference}{interval}, {self.chance(pair)}, paired over {questions} questions"

    def shortly(self, pair: Pair) -> str:
        """The difference, and its p in brackets."""
        difference = self.of(pair.found["difference"], Form.SIGNED_MEAN)
        return f"{difference} ({self.chance(pair)})"

    def chance(self, pair: Pair) -> str:
        """`adjusted p = 0.47`: for the family that the test was made in; without one, `p = 0.47`."""
        if pair.chance is None:
            return "p undefined"
        said = self.of(pair.chance, Form.CHANCE)
        name = "adjusted p" if pair.found.get("p_holm") else "p"
        return f"{name} {said}" if float(pair.chance.value) < SMALLEST_CHANCE else f"{name} = {said}"

    def _would_be_found(self, pair: Pair) -> str:
        detectable = pair.found.get("detectable")
        if detectable is None:
            return ""
        reach = self.of(detectable, Form.ROUNDED)
        return f"; a true difference has to reach {reach} to be found {marks.convention('four times in five')}"


def control_of(pen: Pen, measured: Measured) -> tuple[Pair, Measured] | None:
    """A measurement's matched control, with the pair of the two; None where it has none, or is what others are held
    against: the source and the recipe as they were given.

    Of several, one of what was given comes first, and of those the one that was measured first.
    """
    story = pen.story
    if not measured.score or story.is_given(measured):
        return None
    found: list[tuple[bool, int, Pair, Measured]] = []
    for other in story.measured:
        pair = pen.compared.between(label(measured), label(other)) if other is not measured else None
        if pair is not None and pair.is_controlled:
            found.append((not story.is_given(other), other.number, pair, other))
    return min(found, key=lambda one: one[:2])[2:] if found else None
