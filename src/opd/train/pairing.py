"""Student and teacher must mean the same by an id, and end with the same ones; else the pair is refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opd.models.load import LanguageModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """What is known of a model's tokens without its weights."""

    tokenizer: Any
    stop_ids: frozenset[int]  # of tokenizer, config.json and generation_config.json together


def speaker_of(model: LanguageModel) -> Speaker:
    """What is known of a model that is loaded."""
    return Speaker(tokenizer=model.tokenizer, stop_ids=model.stop_ids)


def mismatch(student: Speaker, teacher: Speaker) -> str | None:
    """Why the teacher can't score what the student writes, in one line; None when it can (faults E23, E33)."""
    ours, theirs = student.tokenizer, teacher.tokenizer
    if ours.get_vocab() != theirs.get_vocab():
        return (
            f"student and teacher have different vocabularies ({_first_difference(ours, theirs)}): the teacher would "
            "score other tokens than the student wrote; use a pair with one tokenizer"
        )
    if ours.eos_token_id != theirs.eos_token_id:
        return (
            f"student and teacher end with different tokens ({ours.eos_token!r} and {theirs.eos_token!r}): answers "
            "would grow without end; make the two agree"
        )
    if student.stop_ids != teacher.stop_ids:
        return (
            f"student and teacher end with different tokens: the student with {_named(ours, student.stop_ids)}, the "
            f"teacher with {_named(ours, teacher.stop_ids)}; where the teacher prefers an end that does not end the "
            "student, answers grow. Make the two agree: eos_token_id in the generation_config.json of each"
        )
    return None


def _first_difference(ours: Any, theirs: Any) -> str:
    """How many words each has, and the first id that is another word to them; several words may have one id."""
    each = [one.get_vocab() for one in (ours, theirs)]
    size, other_size = (max(one.values(), default=-1) + 1 for one in each)
    words, other_words = (_words(one) for one in each)
    one = min(one for one in words.keys() | other_words.keys() if words.get(one) != other_words.get(one))
    said, other_said = (" and ".join(map(repr, some.get(one, ()))) or "nothing" for some in (words, other_words))
    return f"of {size:,} and {other_size:,} ids; id {one} is {said} to the student and {other_said} to the teacher"


def _words(vocabulary: Mapping[str, int]) -> dict[int, list[str]]:
    """The words of each id, in alphabetical order."""
    found: dict[int, list[str]] = {}
    for word, one in sorted(vocabulary.items()):
        found.setdefault(one, []).append(word)
    return found


def _named(tokenizer: Any, ids: Iterable[int]) -> str:
    return " and ".join(f"{tokenizer.convert_ids_to_tokens(one)!r} ({one})" for one in sorted(ids))
