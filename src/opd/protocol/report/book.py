"""The book of claims that a report is written with: what is cited gets an id, a form, and marks in the text.

book.cite(fact, Form.MEAN)                             0.8145, which stands in a file
book.computed("a - b", Form.SIGNED_INTEGER, a=…, b=…)  +325, of two that stand in files
book.judged("higher", Ground.PAIRED_TEST, …)           a word, and what lets it stand
"""

import hashlib
import re
from collections.abc import Callable, Iterable

from opd.protocol.report.forms import rendered
from opd.protocol.report.formulas import ROOT, evaluated
from opd.protocol.report.linting import faults, unfit
from opd.protocol.report.marks import Marked, unmarked
from opd.protocol.report.sources import Fact
from opd.records.claims import Claim, Claims, Document, Form, Ground, Origin

Operand = Fact | Marked
_QUOTED = frozenset({Form.QUOTE, Form.LISTING})


class Book:
    """All claims of one report, and its texts when they are done."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._at: dict[tuple[object, ...], str] = {}
        self._documents: dict[str, Document] = {}

    def cite(self, fact: Fact, form: Form) -> Marked:
        """The fact's value in this form."""
        key = (fact.file, fact.pointer, form)
        if key not in self._at:
            self._at[key] = self._add(
                origin=Origin.QUOTED if form in _QUOTED else Origin.COMPUTED,
                value=fact.value,
                form=form,
                text=rendered(fact.value, form),
                file=fact.file,
                pointer=fact.pointer,
                sha256=fact.sha256,
            )
        return self._marked(self._at[key])

    def computed(self, formula: str, form: Form, **operands: Operand) -> Marked:
        """What a formula over facts comes to, in this form; its names are those of the operands."""
        ids = {name: self._id(operand) for name, operand in operands.items()}
        over = re.sub(r"[a-z_]+", lambda found: found[0] if found[0] == ROOT else ids[found[0]], formula)
        key = (over, form)
        if key not in self._at:
            value = evaluated(over, {one: self._claims[one].value for one in ids.values()})
            text = rendered(value, form)
            self._at[key] = self._add(origin=Origin.COMPUTED, value=value, form=form, text=text, formula=over)
        return self._marked(self._at[key])

    def value(self, marked: Marked) -> float:
        """The number of a claim."""
        value = self._claims[marked.claim].value
        assert isinstance(value, int | float), f"{marked.claim} is a number"
        return value

    def judged(
        self, words: str, ground: Ground, *, because: str | None = None, rests_on: Iterable[Operand] = ()
    ) -> Marked:
        """Words that compare, with what lets them stand. Numbers within them are claims of their own."""
        made = self._add(
            origin=Origin.JUDGEMENT,
            value=None,
            form=Form.TEXT,
            text=unmarked(words).text,
            ground=ground,
            because=unmarked(because).text if because is not None else None,
            rests_on=tuple(self._id(one) for one in rests_on),
        )
        return Marked(words, claim=made)

    def not_established(self, what: str, because: str) -> Marked:
        """`Not established: …`, with the reason; it may hold any word that compares."""
        return self.judged(f"Not established: {what}, because {because}.", Ground.NOT_ESTABLISHED, because=because)

    def written(self, name: str, marked: str, *, is_there: Callable[[str], bool]) -> str:
        """The text without its marks, after it has been looked through; a fault in it is a bug here."""
        plain = unmarked(marked)
        document = Document(sha256=hashlib.sha256(plain.text.encode()).hexdigest(), spans=plain.spans)
        found = [*faults(name, plain.text, document, self._claims, is_there=is_there)]
        found += [fault for claim in self._claims.values() for fault in _unfit(claim, self._claims)]
        assert not found, "; ".join(found)
        self._documents[name] = document
        return plain.text

    @property
    def claims(self) -> Claims:
        """All of them, and the texts that are done."""
        return Claims(claims=tuple(self._claims.values()), documents=self._documents)

    def _id(self, operand: Operand) -> str:
        """Of a claim over this fact, in whatever form it was written; one that stands in no text is made for it."""
        if isinstance(operand, Marked):
            return operand.claim
        known = (self._at.get((operand.file, operand.pointer, form)) for form in Form)
        return next(filter(None, known), None) or self.cite(operand, Form.HIDDEN).claim

    def _marked(self, name: str) -> Marked:
        return Marked(self._claims[name].text, claim=name)

    def _add(self, **fields: object) -> str:
        name = f"c{len(self._claims) + 1:03d}"
        self._claims[name] = Claim.model_validate({"id": name, **fields})
        return name


def _unfit(claim: Claim, claims: dict[str, Claim]) -> Iterable[str]:
    return unfit(claim, claims) if claim.origin is Origin.JUDGEMENT else ()
