"""Text of a model or a stranger on one line, as text: nothing in it moves a cursor, turns a page or makes markup."""

import re
import unicodedata

LONGEST = 60  # characters of an answer or a name in a table
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKUP = re.compile(r"[\\`*_\[\]<>|~$&!#@]|:(?=/)|w(?=ww\.)")  # signs of markup, and what makes a link of a text


def shown(text: str, *, longest: int = LONGEST) -> str:
    """The text on one line, at most so long; what can't be seen stands as its code point: `⟨U+202E⟩`."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(f"⟨U+{ord(one):04X}⟩" if unicodedata.category(one) in _UNSEEN else one for one in cut)


def markdown(text: str) -> str:
    """The text as Markdown that shows exactly it: every sign that could mean more becomes a character reference."""
    return _MARKUP.sub(lambda found: f"&#{ord(found.group())};", text)
