"""What a request asks for: numbers within their limits, words of a list. All else is refused with the rule."""

from collections.abc import Sequence

from starlette.requests import Request

from opd.records.errors import AskedWrongly


def number(request: Request, name: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
    """A whole number of the query."""
    return whole_number(request.query_params.get(name, str(default)), name=name, least=least, most=most)


def whole_number(text: str, *, name: str, least: int = 0, most: int = 10**9) -> int:
    """The number that a text is."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and least <= int(text) <= most):
        raise AskedWrongly(f"{name}={text[:20]}: a whole number from {least:,} to {most:,}")
    return int(text)


def word(request: Request, name: str, words: Sequence[str]) -> str:
    """One of these words, the first where none is asked for."""
    asked = request.query_params.get(name, words[0])
    if asked not in words:
        raise AskedWrongly(f"{name}={asked[:40]}: one of {', '.join(words)}")
    return asked


def words_of(request: Request, name: str, *, known: Sequence[str] | None = None) -> list[str]:
    """Words with commas between them; each has to be a known one, where those are given."""
    asked = [one for one in request.query_params.get(name, "").split(",") if one]
    for one in asked if known is not None else ():
        if one not in (known or ()):
            raise AskedWrongly(f"{name}={one[:40]}: some of {', '.join(known or ())}")
    return asked


def flag(request: Request, name: str) -> bool:
    """Whether it stands there as 1."""
    return request.query_params.get(name, "0") == "1"


def required(request: Request, name: str) -> str:
    """A text that can't be left out."""
    asked = request.query_params.get(name)
    if not asked:
        raise AskedWrongly(f"{name} is missing: …?{name}=…")
    return asked
