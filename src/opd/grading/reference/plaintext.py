r"""LaTeX as plain characters, the way the reference grader's converter writes it.

    7\sqrt{5}              7√(5)          \frac{y-1}{6}      y-1/6, without parentheses
    \mathbf{7}             7              12\mbox{ cm}       12
    \left(1, \pi\right)    (1, π)         \overline{3}       3

A command that the converter does not know vanishes, and what follows it stays: `\dbinom{3}{2}` becomes 32.
"""

import re
import unicodedata

from opd.grading.vocabulary import row

_DEEPEST = 60  # braces in each other

_CHARACTERS = dict(
    pair.split("=", 1)
    for pair in row(
        """alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι
    kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ
    Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω infty=∞ emptyset=∅ varnothing=∅ ell=ℓ
    hbar=ħ angle=∠ cdot=· times=× div=÷ ast=∗ pm=± mp=∓ le=≤ leq=≤ ge=≥ geq=≥ leqslant=⩽ geqslant=⩾ neq=≠ approx=≈
    simeq=≃ equiv=≡ sim=∼ cong=≅ in=∈ notin=∉ subset=⊂ subseteq=⊆ supset=⊃ cup=∪ bigcup=⋃ cap=∩ bigcap=⋂
    setminus=∖ wedge=∧ vee=∨ circ=∘ bullet=∙ mid=| vert=| lvert=| rvert=| Vert=‖ lVert=‖ rVert=‖ langle=⟨ rangle=⟩
    lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lbrace={ rbrace=} ldots=… dots=… cdots=⋯ vdots=⋮ int=∫ sum=∑ prod=∏
    partial=∂ nabla=∇ forall=∀ exists=∃ perp=⊥ parallel=∥ to=→ rightarrow=→ Rightarrow=⇒ prime=' backslash=\\ sin=sin
    cos=cos tan=tan arcsin=arcsin arccos=arccos arctan=arctan sinh=sinh cosh=cosh tanh=tanh ln=ln log=log exp=exp
    max=max min=min sup=sup inf=inf lim=lim wp=℘ {={ }=} $=$ %=% &=& #=# _=_"""
    )
) | {",": " ", ";": " ", ":": " ", " ": " ", "\n": " ", "quad": "  ", "qquad": "    ", "\\": "\n", "-": "\u00ad"}
_ACCENTS = {  # the mark that goes on each character of the argument
    "bar": "\u0305",
    "hat": "\u0302",
    "tilde": "\u0303",
    "vec": "\u20d7",
    "dot": "\u0307",
    "ddot": "\u0308",
    "not": "\u0338",
    ".": "\u0307",
    "'": "\u0301",
    "`": "\u0300",
    "^": "\u0302",
    '"': "\u0308",
    "=": "\u0304",
    "~": "\u0303",
}
_STYLES = {
    "mathbf": "BOLD",
    "mathit": "ITALIC",
    "mathsf": "SANS-SERIF",
    "mathbb": "DOUBLE-STRUCK",
    "mathtt": "MONOSPACE",
    "mathcal": "SCRIPT",
    "mathscr": "SCRIPT",
    "mathfrak": "FRAKTUR",
}
_WITH_THEIR_ARGUMENT = frozenset(row("mbox texttt textsf textup ensuremath hspace vspace"))  # gone
_MATRICES = frozenset(row("array pmatrix bmatrix smallmatrix psmallmatrix bsmallmatrix"))
_TOKEN = re.compile(r"\\(?:[hv]space\*?|[A-Za-z]+)\s*|\\.|---?|``|''|.", re.DOTALL)
_SPECIALS = {"--": "–", "---": "—", "``": "“", "''": "”", "~": "\u00a0", "&": "   "}


class Unplain(Exception):
    """The converter stumbles over this text; the reference grader then goes on with the LaTeX as it is."""


def plain(latex: str) -> str:
    """The text in plain characters. Raises `Unplain` where an argument is missing or braces nest too deeply."""
    return _Reader(_TOKEN.findall(latex)).everything()


class _Reader:
    """Takes lexemes from left to right; the text of each group is whole before it is used."""

    def __init__(self, lexemes: list[str]) -> None:
        self._lexemes = lexemes
        self._position = 0
        self._depth = 0

    def everything(self) -> str:
        parts = []
        while self._position < len(self._lexemes):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        lexeme = self._take()
        if lexeme == "{":
            return self._group()
        if lexeme in {"}", "\\"}:  # never opened, or nothing behind it: passed over
            return ""
        if lexeme.startswith("\\"):
            return self._command(lexeme[1:].rstrip(" \n*") or " ")
        return _SPECIALS.get(lexeme, lexeme)

    def _take(self) -> str:
        if self._position == len(self._lexemes):
            raise Unplain("an argument is missing")
        self._position += 1
        return self._lexemes[self._position - 1]

    def _group(self) -> str:
        """The text up to the brace that closes this group, or up to the end."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unplain(f"braces nest deeper than {_DEEPEST} levels")
        parts = []
        while self._position < len(self._lexemes) and self._lexemes[self._position] != "}":
            parts.append(self._next())
        self._position += 1
        self._depth -= 1
        return "".join(parts)

    def _argument(self) -> str:
        """The text of the next group, character or command."""
        while self._position < len(self._lexemes) and self._lexemes[self._position].isspace():
            self._position += 1
        if self._position < len(self._lexemes) and self._lexemes[self._position] == "}":
            raise Unplain("an argument is missing")
        if self._position < len(self._lexemes) and self._lexemes[self._position].startswith("\\"):
            return self._command(self._take()[1:].rstrip(), alone=True)
        lexeme = self._take()
        return self._group() if lexeme == "{" else lexeme

    def _command(self, name: str, *, alone: bool = False) -> str:  # noqa: PLR0911  # one return for each kind
        """What a command comes to; `alone`: as an argument, where it takes none itself."""
        if name in _CHARACTERS:
            return _CHARACTERS[name]
        if alone:
            return ""
        if name in {"frac", "nicefrac"}:
            above = self._argument()
            return f"{above}/{self._argument()}"
        if name == "sqrt":
            self._drop_option()
            return f"√({self._argument()})"
        if name in _ACCENTS:
            return self._accented(_ACCENTS[name])
        if name in _STYLES:
            return "".join(_styled(letter, _STYLES[name]) for letter in self._argument())
        if name in _WITH_THEIR_ARGUMENT:
            self._argument()
            return "\n" if name == "vspace" else ""
        if name == "begin":
            return self._environment(self._argument())
        if name in {"end", "color", "textcolor"}:
            self._argument()
        return ""

    def _accented(self, mark: str) -> str:
        letters = self._argument() if self._position < len(self._lexemes) else " "
        return unicodedata.normalize("NFC", "".join(letter + mark for letter in letters))

    def _drop_option(self) -> None:
        if self._position < len(self._lexemes) and self._lexemes[self._position] == "[":
            while self._take() != "]":
                pass

    def _environment(self, name: str) -> str:
        """A matrix as [ a b; c d ]; of any other environment only the text, which is still to come."""
        if name not in _MATRICES:
            return ""
        if name == "array":
            self._argument()  # how the columns are set
        lines: list[list[str]] = []
        line: list[str] = []
        cell = ""
        while self._position < len(self._lexemes):
            lexeme = self._lexemes[self._position]
            if lexeme.startswith("\\end"):
                self._take()
                if not re.fullmatch(r"[\w*]+", self._argument()):
                    raise Unplain(f"{name} is closed by what can't be a name")
                break
            self._position += lexeme in {"&", "\\\\"}
            if lexeme == "&":
                line, cell = [*line, cell.strip()], ""
            elif lexeme == "\\\\":
                lines, line, cell = [*lines, [*line, cell.strip()]], [], ""
            else:
                cell += self._next()
        lines.append([*line, cell.strip()])
        return f"[ {'; '.join(' '.join(line) for line in lines)} ]"


def _styled(letter: str, style: str) -> str:
    """A Latin letter in bold, script and so on, as Unicode has it; other characters as they are."""
    if not (letter.isascii() and letter.isalpha()):
        return letter
    name = f"{style} {'CAPITAL' if letter.isupper() else 'SMALL'} {letter.upper()}"
    for prefix in ("MATHEMATICAL ", ""):
        try:
            return unicodedata.lookup(prefix + name)
        except KeyError:
            continue
    return {"FRAKTUR": unicodedata.lookup(f"BLACK-LETTER CAPITAL {letter.upper()}")}.get(style, letter)
