"""A place in a row of tokens: what comes next, and how deep the reading is."""

from collections.abc import Callable

from opd.grading.tokens import Kind, Token
from opd.grading.trees import Node, Unreadable

DEEPEST = 32  # brackets, powers and functions in each other; no real answer comes near


class Cursor:
    """Reads tokens one after the other; the only thing in the grammar that changes."""

    def __init__(self, tokens: tuple[Token, ...], *, inside: Callable[["Cursor"], Node]) -> None:
        self._tokens = list(tokens)
        self.position = 0
        self.depth = 0  # how many levels deep the reading is
        self.bar_closes = False  # in |x| and {x | x > 2} a bar ends what came before, and is no factor
        self._inside = inside  # reads what stands between brackets

    def inside(self, *, bar_closes: bool = False) -> Node:
        """What stands between brackets, read as an answer of its own."""
        before, self.bar_closes = self.bar_closes, bar_closes
        node = self._inside(self)
        self.bar_closes = before
        return node

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or one further on; None behind the end."""
        position = self.position + ahead
        return self._tokens[position] if 0 <= position < len(self._tokens) else None

    def span(self, start: int) -> tuple[Token, ...]:
        """The tokens from a position up to here."""
        return tuple(self._tokens[start : self.position])

    def take(self) -> Token:
        """The next token, which is then behind; `Unreadable` at the end."""
        token = self.peek()
        if token is None:
            raise Unreadable("it ends in the middle of a formula")
        self.position += 1
        return token

    def is_kind(self, *kinds: Kind) -> bool:
        """Whether the next token is of one of these kinds."""
        token = self.peek()
        return token is not None and token.kind in kinds

    def at(self, *marks: str) -> bool:
        """Whether the next token is one of these marks."""
        token = self.peek()
        return token is not None and token.kind is Kind.MARK and token.text in marks

    def at_function(self, name: str) -> bool:
        """Whether the next token is this function."""
        token = self.peek()
        return token is not None and token.kind is Kind.FUNCTION and token.text == name

    def take_if(self, mark: str) -> bool:
        """Whether the next token was this mark; if so it is behind now."""
        if self.at(mark):
            self.position += 1
            return True
        return False

    def expect(self, *marks: str) -> str:
        """The mark that comes next, which must be one of these."""
        if not self.at(*marks):
            found = self.peek()
            shown = "the end" if found is None else repr(found.text)
            raise Unreadable(f"{' or '.join(map(repr, marks))} should come where {shown} is")
        return self.take().text

    def take_digit(self) -> str:
        """The first digit of the number that comes next; TeX takes one digit where braces are left out."""
        digits = self.take().text
        if not digits.isdecimal():
            raise Unreadable(f"{digits} needs braces where it stands")
        if len(digits) > 1:
            self.position -= 1
            self._tokens[self.position] = Token(Kind.NUMBER, digits[1:])
        return digits[0]

    def descend(self) -> None:
        """One level deeper; `Unreadable` when that is too deep."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable(f"it is nested deeper than {DEEPEST} levels")

    def ascend(self) -> None:
        """One level up again."""
        self.depth -= 1
