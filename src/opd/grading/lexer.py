r"""From an answer to its tokens: numbers, names, words, units and marks, without anything that is only layout.

\left( 3, \dfrac{\pi}{2} \right)     ( 3 , frac { pi } { 2 } )
40,\! 250,\! 300                      40250300
72 \mbox{ feet}^3                     72 feet ^ 3
"""

import re
from functools import lru_cache

from opd.grading import vocabulary as words
from opd.grading.folding import fold
from opd.grading.tokens import Kind, Token, trimmed
from opd.grading.trees import BeyondGrammar, Unreadable

LONGEST_ANSWER = 4_000  # characters; keeps every pattern below cheap, and no real answer comes near


@lru_cache(maxsize=8192)
def tokenise(text: str, *, grouped: bool = True) -> tuple[Token, ...]:
    """The tokens of an answer, without dots and commas at its end.

    `grouped` reads 1,234 as one number, otherwise as a list of two. Raises `Unreadable` for an unbalanced
    brace or a text that is too long, `BeyondGrammar` for a command that is in no table.
    """
    if len(text) > LONGEST_ANSWER:
        raise Unreadable(f"it is longer than {LONGEST_ANSWER} characters")
    tokens = _Lexer(fold(text), grouped=grouped).tokens()
    return trimmed(tokens)


_LEXEME = re.compile(
    r"""
      (?P<repeating> \d*\.\d*\\(?:overline|bar|dot)\s*\{\d+\} )
    | (?P<scientific> (?:\d+(?:\.\d+)?|\.\d+)[eE][+-]?\d+(?![A-Za-z\d.]) )
    | (?P<numeral> (?=[A-Z]*\d)(?=\d*[A-Z])[0-9A-Z]++(?=\s*\}?\s*_\s*\{?\s*\d\d) )
    | (?P<spaced> \d{1,3}(?:(?:,?\s*\\!\s*|\{,\}|\\[,;:\s]|~|[ ])\d{3})+(?!\d|,\d)(?:\.\d+)? )
    | (?P<grouped> \d{1,3}(?:,(?:\\,)?\d{3})+(?!,?\d)(?:\.\d+)? )
    | (?P<plain> \d+\.\d+|\.\d+|\d+ )
    | (?P<degree> \^\s*\{\s*\\(?:circ|degree)\s*\}|\^\s*\\(?:circ|degree)(?![A-Za-z])|\\degree(?![A-Za-z]) )
    | (?P<ordinal> \^\s*(?:\{\s*(?:\\[a-z]+\s*\{\s*(?:st|nd|rd|th)\s*\}|(?:st|nd|rd|th))\s*\}
                   |\\[a-z]+\s*\{\s*(?:st|nd|rd|th)\s*\}) )
    | (?P<blackboard> \\(?:mathbb|Bbb)\s*(?:\{\s*[A-Z]\s*\}|[A-Z]) )
    | (?P<conjugate> \\(?:overline|bar)\s*(?=\{[^{}]*[+-][^{}]*\}) )
    | (?P<environment> \\(?:begin|end)\s*\{[A-Za-z]+\*?\}(?:\{[clr|]*\})? )
    | (?P<command> \\[A-Za-z]+\*?|\\. )
    | (?P<letters> [A-Za-z]+ )
    | (?P<ideographs> [\u3400-\u9fff]+ )
    | (?P<blank> [\s~]+ )
    | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ONLY_LETTERS = re.compile(r"[^0-9=+*/^_<>]*")
_VOWEL = re.compile("[aeiou]", re.IGNORECASE)
_FUNCTION_AND_LETTER = re.compile(r"(sin|cos|tan|cot|sec|csc|ln|log)([xyz])")
_ROMAN_NAMES = frozenset("iedx")  # \mathrm{e} is the constant, and \mathrm{d}x no unit
_OPENED_JUST_BEFORE = re.compile(r"\{\s*")
_CLOSED_BEHIND = re.compile(r"\s*\}")
_OPERATOR_BEHIND = re.compile(r"\s*\}\s*(?:[-+*^]|\\(?:cdot|times|pm|mp)(?![A-Za-z]))")
_NEVER_UNITS = frozenset("xyzn")  # 3\text{x} is a product, where 3\text{u} may be units
_OPERATORS = frozenset({"+", "-", "*", "^", "+-", "-+"})
_OPEN = frozenset({"(", "[", "\\{"})
_CLOSE = frozenset({")", "]", "\\}"})
_SKIPPED_MARKS = frozenset('$"`')
_MARKS = frozenset("+-*/^_()[]{}|=<>,;:!&.'?")
_LINES = frozenset({"aligned", "align", "align*", "alignedat", "gathered", "gather", "split", "cases", "equation"})
_MATRICES = frozenset({"pmatrix", "bmatrix", "Bmatrix", "matrix", "smallmatrix", "array"})


class _Lexer:
    """One pass over a folded text. Knows, for each open brace, whether it holds text or mathematics."""

    def __init__(self, text: str, *, grouped: bool) -> None:
        self._text = text
        self._commas_group = grouped
        self._only_letters = _ONLY_LETTERS.fullmatch(text) is not None
        self._out: list[Token] = []
        self._braces: list[str] = []  # group, text or roman: what was opened and is still open
        self._layout = 0  # environments open that only set lines below each other
        self._pending: str | None = None  # text or roman: the wrapper whose brace comes next
        self._depth = 0  # of brackets: inside them a comma separates
        self._glued = False  # to the lexeme before, without a blank
        self._span = (0, 0)  # of the lexeme in the text

    def tokens(self) -> list[Token]:
        position = 0
        while position < len(self._text):
            position = self._step(position)
        if self._braces:
            raise Unreadable("a brace is never closed")
        return self._out

    def _step(self, position: int) -> int:
        found = _LEXEME.match(self._text, position)
        assert found is not None, "the last alternative matches anything"
        lexeme, kind = found.group(), str(found.lastgroup)
        self._span = found.span()
        if kind == "grouped" and (self._depth or not self._commas_group):
            lexeme, kind = lexeme.partition(",")[0], "plain"
        if kind != "blank":
            getattr(self, f"_{kind}")(lexeme)
            if kind != "command":
                self._pending = None
        self._glued = kind != "blank"
        return position + len(lexeme)

    def _add(self, kind: Kind, text: str) -> None:
        self._out.append(Token(kind, text))

    def _plain(self, lexeme: str) -> None:
        self._add(Kind.NUMBER, lexeme)

    _repeating = _scientific = _numeral = _plain

    def _spaced(self, lexeme: str) -> None:
        whole, dot, decimals = lexeme.partition(".")
        self._add(Kind.NUMBER, re.sub(r"\D", "", whole) + dot + decimals)

    _grouped = _spaced

    def _degree(self, _: str) -> None:
        self._add(Kind.UNIT, "degree")

    def _ordinal(self, lexeme: str) -> None:
        if not self._after_number():  # x^{th}: not an ordinal, and no power either
            raise Unreadable(f"{lexeme!r} follows no number")

    def _blackboard(self, lexeme: str) -> None:
        self._add(Kind.NAME, f"mathbb{lexeme.rstrip('} ')[-1]}")

    def _environment(self, lexeme: str) -> None:
        command, name = re.findall("[A-Za-z]+", lexeme)[:2]
        if name in _LINES:
            self._layout += 1 if command == "begin" else -1
        elif name in _MATRICES:
            self._add(Kind.MARK, command)
        else:
            raise BeyondGrammar(f"the grammar has no {name!r} environment")

    def _conjugate(self, _: str) -> None:
        self._add(Kind.FUNCTION, "conj")

    def _command(self, lexeme: str) -> None:
        name = lexeme[1:].rstrip("*") or "*"
        if name in words.TEXT:
            self._pending = "text"
        elif name in words.ROMAN:
            self._pending = "roman"
        elif name not in words.LAYOUT:
            self._pending = None
            self._meaningful(name)

    def _meaningful(self, name: str) -> None:
        if name in words.FUNCTION_COMMANDS:
            self._add(Kind.FUNCTION, words.FUNCTION_COMMANDS[name])
        elif name == "\\" and self._layout > 0:  # the lines of aligned equations are a list
            self._add(Kind.MARK, ",")
        elif name == "deg":
            self._add(Kind.UNIT, "degree")
        elif name in words.MARKS:
            self._bracket(words.MARKS[name])
        elif name in words.NAMES:
            self._add(Kind.NAME, words.NAME_ALIASES.get(name, name))
        elif name in {"%", "$"}:
            self._add(Kind.UNIT, "percent" if name == "%" else words.CURRENCY[name])
        elif name != "#":
            raise BeyondGrammar(f"the grammar has no command {name!r}")

    def _letters(self, run: str) -> None:
        mode = self._pending or (self._braces[-1] if self._braces else "group")
        lower = run.casefold()
        if lower in words.ORDINALS and self._after_number():
            return
        if lower in words.AND or lower in words.OR:
            self._add(Kind.MARK, "and" if lower in words.AND else "or")
        elif run in words.WRITTEN_FUNCTIONS:
            self._add(Kind.FUNCTION, run)
        elif self._is_text(run, mode):
            self._add(Kind.WORD, lower)
        else:
            self._bare(run, mode)

    def _is_text(self, run: str, mode: str) -> bool:
        if mode == "group" or self._is_factor(run):
            return False
        if mode == "text":  # 3+4\text{i} is a complex number
            return (run != "i" or not self._out) and not self._is_variable(run)
        return run not in words.FUNCTIONS and run not in _ROMAN_NAMES

    def _is_variable(self, run: str) -> bool:
        r"""Whether a letter that is alone in its wrapper is calculated with, as in \textbf{x}+1, and is no unit."""
        start, end = self._span
        brace = max(self._text.rfind("{", 0, start), 0)
        opened = _OPENED_JUST_BEFORE.fullmatch(self._text, brace, start)
        if len(run) > 1 or not opened or not _CLOSED_BEHIND.match(self._text, end):
            return False
        if run.casefold() in words.UNIT_ALIASES and any(token.kind is Kind.NUMBER for token in self._out):
            return False
        if run in _NEVER_UNITS and not self._only_letters:
            return True
        operated = bool(self._out) and self._out[-1].kind is Kind.MARK and self._out[-1].text in _OPERATORS
        return operated or _OPERATOR_BEHIND.match(self._text, end) is not None

    def _is_factor(self, run: str) -> bool:
        r"""Whether letters in a wrapper are a product with the number they touch: \text{2k} is, \text{2kg} is not."""
        start, _ = self._span
        touched = self._text[max(start - 1, 0) : start].isdigit()
        return touched and run.casefold() not in words.UNIT_ALIASES and not self._is_word(run)

    def _bare(self, run: str, mode: str) -> None:
        """Letters in a formula: a function, a word, or a product of names."""
        split = _FUNCTION_AND_LETTER.fullmatch(run)
        if run in words.PLAIN_FUNCTIONS or (mode == "roman" and run in words.FUNCTIONS):
            self._add(Kind.FUNCTION, run)
        elif run in words.PLAIN_NAMES:
            self._add(Kind.NAME, run)
        elif split:
            self._add(Kind.FUNCTION, split[1])
            self._add(Kind.NAME, split[2])
        elif self._is_word(run):
            self._add(Kind.WORD, run.casefold())
        else:
            for letter in run:
                self._add(Kind.NAME, letter)

    def _is_word(self, run: str) -> bool:
        if len(run) == 1:
            return False
        if run in words.SHORT_WORDS:
            return bool(self._out)
        if not _VOWEL.search(run):
            return False
        if self._after_number() and self._glued:  # 6abcd is a product, 17apples is not
            return len(run) > 4 or run.rstrip("s") in words.UNIT_ALIASES
        return len(run) > 3 or self._only_letters

    def _after_number(self) -> bool:
        return bool(self._out) and self._out[-1].kind is Kind.NUMBER

    def _ideographs(self, run: str) -> None:
        if run in words.AND or run in words.OR:
            self._add(Kind.MARK, "and" if run in words.AND else "or")
        else:
            self._add(Kind.WORD, run)

    def _mark(self, character: str) -> None:
        if character == "{":
            self._open_brace()
        elif character == "}":
            self._close_brace()
        elif character in words.CURRENCY and character not in _SKIPPED_MARKS:
            self._add(Kind.UNIT, words.CURRENCY[character])
        elif character == "%":
            self._add(Kind.UNIT, "percent")
        elif character in _MARKS and not (character == "&" and self._layout > 0):
            self._bracket(character)
        elif character not in _SKIPPED_MARKS and character != "&":
            raise Unreadable(f"{character!r} is no mathematics")

    def _bracket(self, mark: str) -> None:
        self._depth += (mark in _OPEN) - (mark in _CLOSE)
        self._add(Kind.MARK, mark)

    def _open_brace(self) -> None:
        inherited = self._braces[-1] if self._braces else "group"  # a group inside text is still text
        self._braces.append(self._pending or inherited)
        if self._braces[-1] == "group":
            self._add(Kind.MARK, "{")

    def _close_brace(self) -> None:
        if not self._braces:
            raise Unreadable("a brace is closed that was never opened")
        if self._braces.pop() == "group":
            self._add(Kind.MARK, "}")
