"""One rollout, token by token: HTML spans coloured by how the teacher and the student differ.

    gap = log teacher - log student, nats        > 0: the teacher is surer      < 0: the student is surer
    class   n5 n4 n3 n2 n1 (none) p1 p2 p3 p4 p5       by |gap| against LEVELS

A span holds the token's own text; hovering shows its id, both log-probabilities and the gap. All text is escaped,
and what would be invisible or would turn the direction of the page is shown by its code point.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tokenizers import Tokenizer

from opd.records.files import read_json
from opd.records.rollouts import ScoredRollout
from opd.view.words import number, probability, signed

LEVELS = (0.05, 0.2, 0.5, 1.0, 2.0)  # nats: a factor of 1.05, 1.2, 1.6, 2.7 and 7.4 in probability
LARGEST_TOKENS = 4000  # what is shown of a rollout: beyond that a page is slow and nobody reads it
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LONGEST_CHARACTER_BYTES = 4  # of UTF-8: a character that needs more tokens than this isn't one
_PLAIN = {"\n", "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A sampled token with its text; the tokens that begin a character have none, the one that ends it has it."""

    place: int  # 1 for the first of the response
    id: int
    text: str
    student_logp: float  # nats
    teacher_logp: float  # nats

    @property
    def gap(self) -> float:
        """Nats: log teacher - log student."""
        return self.teacher_logp - self.student_logp

    @property
    def words(self) -> str:
        """Everything about it in a line."""
        return (
            f"token {self.place}, id {self.id}: "
            f"student {number(self.student_logp)} ({probability(self.student_logp)}), "
            f"teacher {number(self.teacher_logp)} ({probability(self.teacher_logp)}), gap {signed(self.gap)} nats"
        )


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`; a missing or damaged file is named in the error."""
    read_json(path)
    return Tokenizer.from_file(str(path))


def tokens_of(scored: ScoredRollout, tokenizer: Tokenizer) -> list[Token]:
    """The response's tokens with the very ids that were sampled: nothing is encoded again (E30)."""
    rollout = scored.rollout
    texts = pieces(rollout.token_ids, tokenizer)
    return [
        Token(place=place, id=id_, text=text, student_logp=student, teacher_logp=teacher)
        for place, (id_, text, student, teacher) in enumerate(
            zip(rollout.token_ids, texts, rollout.logp, scored.teacher_logp, strict=True), start=1
        )
    ]


def pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """The text that each token adds; joined they are the text of the whole.

    A token that holds a part of a character adds nothing until a later one completes it. Bytes that never
    become a character are shown as U+FFFD.
    """
    texts = [""] * len(ids)
    known, read = 0, 0  # ids[known:read] give the context, ids[read:] have not been shown
    for place, id_ in enumerate(ids):
        if tokenizer.id_to_token(id_) is None:  # a padded row of the embedding (E34)
            texts[place], known, read = f"⟨id {id_} has no text⟩", place + 1, place + 1
            continue
        before = tokenizer.decode(ids[known:read], skip_special_tokens=False)
        after = tokenizer.decode(ids[known : place + 1], skip_special_tokens=False)
        unfinished = after.endswith(_REPLACEMENT) and place + 1 < len(ids)
        if unfinished and place - read + 1 < _LONGEST_CHARACTER_BYTES:
            continue
        texts[place] = after[len(before) :]
        # after a broken character the context is of no use: it could turn into another one and shift the text
        known, read = (place + 1 if after.endswith(_REPLACEMENT) else read), place + 1
    return texts


def level(gap: float) -> int:
    """How many of LEVELS the gap reaches, negative where the student is surer."""
    reached = sum(abs(gap) >= bound for bound in LEVELS)
    return reached if gap > 0 else -reached


def level_class(steps: int) -> str:
    """The CSS class of a level: `p3`, `n1`, or empty for none."""
    return f"{'p' if steps > 0 else 'n'}{abs(steps)}" if steps else ""


def spans(tokens: Sequence[Token]) -> str:
    """The tokens as HTML; equal text for equal tokens."""
    return "".join(_span(token) for token in tokens)


def widest(tokens: Sequence[Token], *, count: int) -> list[Token]:
    """The tokens with the largest |gap|, widest first; the earlier of two equals first."""
    return sorted(tokens, key=lambda token: -abs(token.gap))[:count]


def visible(text: str) -> str:
    """The text as HTML: line ends keep their place and get a mark, invisible characters show their code point."""
    return "".join(_visible_characters(text))


def _span(token: Token) -> str:
    kind = level_class(level(token.gap))
    classes = f"t {kind}" if kind else "t"
    return f'<span class="{classes}" title="{escape(token.words)}">{visible(token.text)}</span>'


def _visible_characters(text: str) -> Iterator[str]:
    for character in text:
        if character == "\n":
            yield '<i class="nl" aria-hidden="true"></i>\n'
        elif character not in _PLAIN and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn"}:
            yield f'<i class="code">U+{ord(character):04X}</i>'
        else:
            yield escape(character)
