"""The text behind tokens, by the tokenizer that a run keeps beside its rollouts."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer

from opd.view.server.answers import Gone, Unreadable
from opd.view.server.places import Place
from opd.view.server.shelf import Shelf
from opd.view.tokens import pieces

_FILE = ("rollouts", "tokenizer.json")
_MOST_BYTES = 128 << 20  # of a tokenizer.json; one of 250,000 pieces has 20 MiB
_KEPT = 8
_ROLLOUTS_KEPT = 16


class Texts:
    """Reads each tokenizer once, and keeps the texts of the rollouts that are looked at."""

    def __init__(self) -> None:
        self._tokenizers: Shelf[Tokenizer] = Shelf(_KEPT)
        self._pieces: Shelf[list[str]] = Shelf(_ROLLOUTS_KEPT)

    def missing(self, run: Place) -> str | None:
        """Why there is no text; None where there is."""
        try:
            self._tokenizer(run)
        except (Gone, Unreadable) as error:
            return str(error)
        return None

    def pieces(self, run: Place, ids: Sequence[int]) -> tuple[list[str], str | None]:
        """The text that each token adds, or the ids in brackets and why there is no text."""
        try:
            tokenizer = self._tokenizer(run)
        except (Gone, Unreadable) as error:
            return [f"⟨{id_}⟩" for id_ in ids], str(error)
        known = tuple(ids)
        key = (run, hash(known))
        return self._pieces.get(key, (run.at(*_FILE).stamp(), known), lambda _: _pieces(ids, tokenizer)), None

    def words(self, run: Place, ids: Iterable[int]) -> dict[int, str]:
        """The text that each of these ids adds in the middle of a text; none where there is no tokenizer.

        A part of a character stands as U+FFFD: what would complete it was never sampled.
        """
        try:
            tokenizer = self._tokenizer(run)
        except (Gone, Unreadable):
            return {}
        return {id_: _word(id_, tokenizer) for id_ in ids}

    def prompt(self, run: Place, ids: Sequence[int]) -> str | None:
        """The prompt as the model saw it, or None where there is no text."""
        try:
            tokenizer = self._tokenizer(run)
        except (Gone, Unreadable):
            return None
        return "".join(_pieces(ids, tokenizer))

    def responses(self, run: Place, each: Iterable[Sequence[int]]) -> list[str]:
        """The texts as a grader reads them: marks such as `</think>` stay. Raises where there is no tokenizer."""
        tokenizer = self._tokenizer(run)
        return [str(tokenizer.decode(_in_range(ids), skip_special_tokens=False)) for ids in each]

    def _tokenizer(self, run: Place) -> Tokenizer:
        place = run.at(*_FILE)
        stamp = place.stamp()
        if stamp is None:
            raise Gone(f"{place.path} is not there: ids have no text without it")
        return self._tokenizers.get(place, stamp, lambda _: _read(place))


def _read(place: Place) -> Tokenizer:
    text = place.read(most=_MOST_BYTES).decode("utf-8", "replace")
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing more precise
        raise Unreadable(f"{place.path} is no tokenizer: {error!s:.200}") from error


def _pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    return pieces(_in_range(ids), tokenizer)


def _word(id_: int, tokenizer: Tokenizer) -> str:
    """A decoder may drop the blank at the beginning of a text: the id stands there twice, and counts once."""
    if id_ < 0 or tokenizer.id_to_token(id_) is None:
        return f"⟨id {id_} has no text⟩"
    once, twice = (tokenizer.decode([id_] * times, skip_special_tokens=False) for times in (1, 2))
    return str(twice[len(once) :])


def _in_range(ids: Sequence[int]) -> list[int]:
    """Negative ids, which only a damaged table has, as one that no tokenizer has: decoding takes no others."""
    return [id_ if id_ >= 0 else 0xFFFF_FFFF for id_ in ids]
