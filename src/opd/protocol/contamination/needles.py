"""What is looked for: a final's questions, held in memory, and named outside of it by salted ids alone.

An id is an HMAC of the question's text. Its key is drawn from all questions together, so it need not be kept: who has
the whole final can work out which id is which, and who knows some problems can't, and learns from an audit nothing
about which problems the final holds.
"""

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opd.protocol.contamination.folds import canonical, letters, tight, without_signs
from opd.protocol.contamination.grams import GRAM, Grams, grams
from opd.protocol.contamination.phrases import STOCK
from opd.records.files import canonical_json

LEAST_LETTERS = 40  # of a text, for its letters alone to tell it from others
LEAST_TIGHT = 8  # marks of a text that is shorter
ESCAPES = 3  # depths of JSON in JSON that are looked for letter by letter
_LEAST_ANSWER_LETTERS = 24  # of an answer that is looked for by itself; a number of three digits stands everywhere
_STOCK_ROWS = 3  # ordinary texts that hold a run of letters, for it to be a phrase
_LONGEST_PHRASE = 120  # letters; what is longer was copied, however often it stands there
_LEAST_SPECIFIC = 0.25  # of a text's runs; where less is left, it is the ordinary texts that hold the question
_ID_DIGITS = 12
_SALT = b"opd contamination ids\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of the final, in each wording of it that goes around."""

    wordings: tuple[str, ...]
    answer: str


class Needle:
    """One text to look for, in the forms in which it may stand somewhere."""

    def __init__(self, text: str, *, question: int, answer: str) -> None:
        self.question = question
        self.answer = answer
        self.exact = text.encode()
        self.marks = canonical(self.exact)
        self.letters = without_signs(self.marks)
        self.squeezed = b" ".join(self.exact.split())
        self.tight = tight(self.exact)
        self.grams = grams(self.letters)
        self.specific: NDArray[np.bool_] = np.ones(len(self.grams), np.bool_)  # of each run: it is nobody else's

    @cached_property
    def own(self) -> NDArray[np.bool_]:
        """Of each letter whether it is in no phrase."""
        own = np.ones(len(self.letters), np.bool_)
        for start in np.flatnonzero(~self.specific).tolist():
            own[start : start + GRAM] = False
        return own

    @property
    def is_short(self) -> bool:
        """Whether its letters alone would be found where it isn't."""
        return len(self.letters) < LEAST_LETTERS

    @cached_property
    def escaped(self) -> tuple[tuple[bytes, ...], ...]:
        """As JSON writes it inside JSON, once, twice, three times, with and without escapes of what is not ASCII."""
        forms: list[tuple[bytes, ...]] = []
        seen = {self.exact}
        texts = {self.exact.decode()}
        for _ in range(ESCAPES):
            texts = {json.dumps(text, ensure_ascii=plain)[1:-1] for text in texts for plain in (True, False)}
            forms.append(tuple(sorted({text.encode() for text in texts} - seen)))
            seen |= set(forms[-1])
        return tuple(forms)


class Needles:
    """All texts to look for."""

    def __init__(self, questions: Sequence[Question], ordinary: Iterable[str] = ()) -> None:
        """`ordinary` are texts of the same kind that anybody may have: what several of them share is a phrase."""
        self.questions = tuple(questions)
        self.all = tuple(
            Needle(text, question=number, answer=answer)
            for number, one in enumerate(self.questions)
            for text, answer in _texts(one)
        )
        self.long = tuple(needle for needle in self.all if not needle.is_short)
        self.short = tuple(needle for needle in self.all if needle.is_short and len(needle.tight) >= LEAST_TIGHT)
        self.too_short = sum(len(needle.tight) < LEAST_TIGHT for needle in self.all)
        self._key = hashlib.sha256(
            _SALT + canonical_json([[*one.wordings, one.answer] for one in self.questions]).encode()
        ).digest()
        stock = _stock(self.long, ordinary)
        for needle in self.long:
            needle.specific = _specific(needle, stock)

    def id(self, question: int) -> str:
        """By what a question is named where others may read it."""
        text = canonical_json(self.questions[question].wordings).encode()
        return "q-" + hmac.new(self._key, text, hashlib.sha256).hexdigest()[:_ID_DIGITS]

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """The way back, for who has the questions."""
        return {self.id(number): number for number in range(len(self.questions))}


def _texts(question: Question) -> Iterable[tuple[str, str]]:
    for text in dict.fromkeys(question.wordings):
        yield text, question.answer
    if len(letters(question.answer.encode())) >= _LEAST_ANSWER_LETTERS:
        yield question.answer, ""


def _stock(needles: Sequence[Needle], ordinary: Iterable[str]) -> Grams:
    """Runs of letters that are nobody's own: of a listed phrase, of several questions, of several ordinary texts."""
    listed = np.unique(np.concatenate([grams(letters(text.encode())) for text in STOCK]))
    owners: Counter[int] = Counter()
    for question in {needle.question for needle in needles}:
        own = [needle.grams for needle in needles if needle.question == question]
        owners.update(np.unique(np.concatenate(own)).tolist())
    shared = [gram for gram, count in owners.items() if count > 1]
    return np.unique(np.concatenate([listed, np.array(shared, np.uint64), _frequent(needles, ordinary)]))


def _frequent(needles: Sequence[Needle], ordinary: Iterable[str]) -> Grams:
    """Runs of the needles that stand in several different ordinary texts."""
    looked_for = np.unique(np.concatenate([np.empty(0, np.uint64), *(needle.grams for needle in needles)]))
    texts = sorted({letters(text.encode()) for text in ordinary})
    numbers = grams(b" ".join(texts))  # a run across two texts has a blank, and is in no needle
    at = np.flatnonzero(np.isin(numbers, looked_for))
    begins = np.cumsum([0, *(len(text) + 1 for text in texts)])
    pairs = np.unique(np.stack([numbers[at], np.searchsorted(begins, at, "right").astype(np.uint64)]), axis=1)
    found, counts = np.unique(pairs[0], return_counts=True)
    frequent: Grams = found[counts >= _STOCK_ROWS]
    return frequent


def _specific(needle: Needle, stock: Grams) -> NDArray[np.bool_]:
    """Which of a needle's runs are its own; a stretch that is too long for a phrase is, whoever else has it."""
    own = ~np.isin(needle.grams, stock)
    edges = np.flatnonzero(np.diff(np.concatenate(([True], own, [True])).astype(np.int8)))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - start + GRAM - 1 > _LONGEST_PHRASE:
            own[start:end] = True
    return own if own.mean() >= _LEAST_SPECIFIC else np.ones_like(own)
