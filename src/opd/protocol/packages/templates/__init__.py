"""Texts of a package with words to be filled in: a word stands in them as `@@name@@`."""

import re
from collections.abc import Mapping
from pathlib import Path

_WORD = re.compile(r"@@([a-z_]+)@@")


def filled(name: str, words: Mapping[str, str]) -> str:
    """The text of that name with its words; a word that isn't given is a `KeyError`."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return _WORD.sub(lambda found: words[found[1]], text)
