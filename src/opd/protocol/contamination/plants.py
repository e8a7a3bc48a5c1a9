r"""What the scanner has to find before its silence counts: a made-up question in every view and every carrier.

Each plant is bytes as a program would have left them, with the question somewhere in them, and the forms in which it
may be found. They go through the same `scan` as an attempt's files. What can't be opened is planted too: it has to be
named as unread.
"""

import base64
import csv
import html
import io
import json
import random
import textwrap
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from opd.protocol.contamination.containers import CONTAINERS, UNOPENABLE
from opd.protocol.contamination.matching import ESCAPED, Form
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Scan, Source, scan
from opd.records.audits import Control

PLANTED = (
    "A lighthouse keeper of Orvanne’s café, at ∠KLM = 27° − π/9 ≤ 9° from Čadež, owns $n$ lamps, each of which is "
    "either amber or violet. Every evening she turns over the lamps whose number divides $\\binom{n}{2}+3^k$, and "
    "she rests on the first evening on which\n\\[\\sum_{k=1}^{n} \\frac{a_k}{k(k+1)} \\neq \\sqrt{5} - \\tau\\]\n"
    'holds for the number $a_k$ of amber lamps. Given that "rest" comes after exactly $4,821$ evenings & that '
    "$n < 900$, how many does she own?"
)
"""With signs and letters beyond ASCII, by which one encoding is not the other."""
_SIGNS = str.maketrans({"∠": "", "π": "p", "−": "-", "≤": "<", "Č": "C", "ž": "z"})
WESTERN = PLANTED.translate(_SIGNS).replace("’", "'")
"""The same with none that Latin-1 lacks, for the encodings that have one byte for each."""
ANSWER = "743"
_BEFORE = "Reading the notes of yesterday's run: loss 0.2512, grad norm 1.37, 40 steps in 812 s.\n"
_BEHIND = f"\nThe answer is {ANSWER}.\nNext: look at the learning rate, then shuffle the rows with seed 42.\n"
_COLUMNS = 80
_DELTA = 7
_CHANGED = 14  # every so many words one is another, in a rewording
_EXACT = frozenset({Form.EXACT})
_WHOLE = frozenset({Form.EXACT, *ESCAPED, Form.WHITESPACE, Form.FOLDED})
_NOT_SIGNS = _WHOLE | {Form.LETTERS}
_NEAR = frozenset({Form.NEAR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """Bytes that hold the question, and the forms of which one has to be found; none: it has to be unread."""

    name: str
    content: bytes
    forms: frozenset[Form]


def planted() -> tuple[Plant, ...]:
    """Every view and every carrier."""
    text = _BEFORE + PLANTED + _BEHIND
    views = [Plant(name=name, content=view(text), forms=forms) for name, (view, forms) in VIEWS.items()]
    carriers = [
        Plant(name=f"in {name}", content=pack(text.encode()), forms=_NOT_SIGNS) for name, pack in CONTAINERS.items()
    ]
    closed = [
        Plant(name=f"{name}, named as unread", content=begins, forms=frozenset()) for name, begins in UNOPENABLE
    ]
    return (*views, *carriers, *closed)


def controls(needles: Needles) -> tuple[Control, ...]:
    """Whether each plant was found, and each of the real questions, in two forms, in memory."""
    plants = planted()
    question = Needles([Question(wordings=(PLANTED, WESTERN), answer=ANSWER)])
    found = scan((Source(name=plant.name, content=plant.content) for plant in plants), question)
    made_up = [Control(name=plant.name, found=_is_found(plant, found)) for plant in plants]
    return (*made_up, *_real(needles))


def _is_found(plant: Plant, found: Scan) -> bool:
    if not plant.forms:
        return any(unread.name == plant.name for unread in found.unread)
    forms = {hit.form for hit in found.hits if hit.source == plant.name}
    paired = any(hit.paired for hit in found.hits if hit.source == plant.name)
    return bool(forms & plant.forms) and (paired or Form.EXACT not in plant.forms)


def _real(needles: Needles) -> Iterator[Control]:
    """The final's own questions, which nothing but this process sees: each has to be found where it is planted."""
    for name, view in (
        ("as they are", str),
        ("numbered, in JSON, twice", lambda text: _json(_json(_numbered(text)))),
    ):
        wanted = {needle.question for needle in (*needles.long, *needles.short)}
        if name != "as they are":
            wanted = {needle.question for needle in needles.long}
        texts = [needle.exact.decode() for needle in (*needles.long, *needles.short)]
        content = "\n\n".join(view(_BEFORE + text + _BEHIND) for text in texts).encode()
        found = scan([Source(name=name, content=content)], needles)
        yield Control(
            name=f"the final's {len(wanted)} questions, {name}", found=wanted <= {hit.question for hit in found.hits}
        )


def _json(text: str) -> str:
    return json.dumps({"content": text}, ensure_ascii=False)


def _numbered(text: str) -> str:
    return "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(text.split("\n"), start=1))


def _wrapped(text: str, columns: int = _COLUMNS) -> str:
    return "\n".join(textwrap.fill(line, columns) for line in text.split("\n"))


def _lines(mark: Callable[[int, str], str]) -> Callable[[str], str]:
    """A way to mark each line of a text that is wrapped."""
    return lambda text: "\n".join(
        mark(number, line) for number, line in enumerate(_wrapped(text).split("\n"), start=1)
    )


def _coloured(text: str) -> str:
    words = (f"\x1b[{31 + number % 7}m{word}\x1b[0m" for number, word in enumerate(text.split(" ")))
    return " ".join(words)


def _reworded(text: str) -> str:
    words = text.split(" ")
    return " ".join("indeed" if number % _CHANGED == _CHANGED - 1 else word for number, word in enumerate(words))


def _tagged(text: str) -> str:
    return " ".join(
        f'<span class="w{number}">{html.escape(word)}</span>' for number, word in enumerate(text.split(" "))
    )


def _escaped_all(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def _wide(text: str) -> str:
    """The letters of ASCII in the width of an ideograph."""
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text)


def _invisible(text: str) -> str:
    rng = random.Random(0)  # noqa: S311  places, not secrets
    return "".join(letter + rng.choice(("", "", "\u200b", "\u00ad", "\u2060")) for letter in text)


def _hex_lines(text: str, digits: int) -> bytes:
    """As `xxd -p` leaves it, with 60."""
    return "\n".join(textwrap.wrap(text.encode().hex(), digits)).encode() + b"\n"


def _deltas(text: str) -> str:
    """As a model's endpoint streams it, seven letters at a time, with what else it says between them."""
    parts = (text[at : at + _DELTA] for at in range(0, len(text), _DELTA))
    lines = ({"type": "delta", "index": 0, "delta": {"type": "text_delta", "text": part}} for part in parts)
    return "".join(f'{json.dumps(line)}\n{{"type": "ping"}}\n' for line in lines)


def _word_a_line(text: str) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(enumerate(text.split()))
    return out.getvalue()


def _base64_lines(text: str) -> bytes:
    return b"decoded it:\n" + base64.encodebytes(text.encode()) + b"done\n"


def _western(view: Callable[[str], bytes]) -> Callable[[str], bytes]:
    return lambda text: view(text.replace(PLANTED, WESTERN))


def _utf8(view: Callable[[str], str]) -> Callable[[str], bytes]:
    return lambda text: view(text).encode()


VIEWS: Mapping[str, tuple[Callable[[str], bytes], frozenset[Form]]] = {
    "as it is": (_utf8(str), _EXACT),
    "in JSON": (_utf8(_json), frozenset({Form.ESCAPED_1})),
    "in JSON, twice": (_utf8(lambda text: _json(_json(text))), frozenset({Form.ESCAPED_2})),
    "in JSON, three times": (_utf8(lambda text: _json(_json(_json(text)))), frozenset({Form.ESCAPED_3})),
    "in JSON, five times": (_utf8(lambda text: _json(_json(_json(_json(_json(text)))))), _WHOLE),
    "in JSON, every character escaped": (_utf8(_escaped_all), _WHOLE),
    "wrapped": (_utf8(_wrapped), frozenset({Form.WHITESPACE})),
    "wrapped at 40 columns, numbered": (_utf8(lambda text: _numbered(_wrapped(text, 40))), _WHOLE),
    "cat -n": (_utf8(_numbered), _WHOLE),
    "cat -n, in JSON, twice": (_utf8(lambda text: _json(_json(_numbered(text)))), _WHOLE),
    "nl": (_utf8(_lines(lambda number, line: f"{number:6d}  {line}")), _WHOLE),
    "grep -n": (_utf8(_lines(lambda number, line: f"{number}:{line}")), _WHOLE),
    "grep -rn": (_utf8(_lines(lambda number, line: f"notes/day-2.md:{number}:{line}")), _WHOLE),
    "an editor's view": (_utf8(_lines(lambda number, line: f"{number:>6}→{line}")), _WHOLE),
    "a log": (_utf8(_lines(lambda number, line: f"2026-01-02 03:04:{number:02d},123 INFO {line}")), _WHOLE),
    "added in a diff": (_utf8(_lines(lambda _, line: f"+{line}")), _WHOLE),
    "quoted": (_utf8(_lines(lambda _, line: f"> {line}")), _WHOLE),
    "in a terminal's colours": (_utf8(_coloured), _WHOLE),
    "in a terminal's colours, in JSON": (lambda text: json.dumps(_coloured(text)).encode(), _WHOLE),
    "HTML": (_utf8(html.escape), _WHOLE),
    "HTML, twice": (_utf8(lambda text: html.escape(html.escape(text))), _WHOLE),
    "HTML, every word in a tag": (_utf8(_tagged), _WHOLE),
    "in an address": (_utf8(urllib.parse.quote), _WHOLE),
    "in an address, twice": (_utf8(lambda text: urllib.parse.quote(urllib.parse.quote(text))), _WHOLE),
    "in a form": (_utf8(urllib.parse.quote_plus), _NOT_SIGNS),
    "UTF-16": (lambda text: text.encode("utf-16"), _WHOLE),
    "UTF-16, the other order, from an odd byte": (lambda text: b"x" + text.encode("utf-16-be"), _WHOLE),
    "UTF-16 amid other bytes": (lambda text: bytes(range(128, 255)) * 99 + text.encode("utf-16-le"), _WHOLE),
    "UTF-16, in JSON": (lambda text: _json(text).encode("utf-16"), _WHOLE),
    "UTF-16, in base64": (lambda text: base64.b64encode(text.encode("utf-16-le")), _WHOLE),
    "UTF-16, around base64": (lambda text: _base64_lines(text).decode().encode("utf-16"), _WHOLE),
    "UTF-32": (lambda text: text.encode("utf-32"), _WHOLE),
    "UTF-32, the other order, without a mark": (lambda text: text.encode("utf-32-be"), _WHOLE),
    "Latin-1": (_western(lambda text: text.encode("latin-1")), _WHOLE),
    "Windows-1252, in JSON": (_western(lambda text: _json(text).encode("cp1252")), _WHOLE),
    "Latin-1, in base64": (_western(lambda text: base64.b64encode(text.encode("latin-1"))), _WHOLE),
    "Latin-1, byte by byte": (
        _western(lambda text: text.encode("latin-1").decode("ascii", "backslashreplace").encode()),
        _WHOLE,
    ),
    "Latin-1, in an address": (_western(lambda text: urllib.parse.quote(text, encoding="latin-1").encode()), _WHOLE),
    "HTML, what is beyond ASCII by its number": (lambda text: text.encode("ascii", "xmlcharrefreplace"), _WHOLE),
    "in wide letters": (_utf8(_wide), _WHOLE),
    "with invisible characters": (_utf8(_invisible), _WHOLE),
    "base64": (lambda text: b"data:text/plain;base64," + base64.b64encode(text.encode()), _WHOLE),
    "base64, for addresses": (lambda text: base64.urlsafe_b64encode(text.encode()), _WHOLE),
    "base64, in lines": (_base64_lines, _WHOLE),
    "base64, in lines, in JSON": (lambda text: _json(_base64_lines(text).decode()).encode(), _WHOLE),
    "base64, twice": (lambda text: base64.b64encode(base64.b64encode(text.encode())), _WHOLE),
    "hexadecimal": (lambda text: text.encode().hex().encode(), _WHOLE),
    "hexadecimal, in lines of 60": (lambda text: _hex_lines(text, 60), _WHOLE),
    "hexadecimal, in lines of 16, in capitals, in JSON": (
        lambda text: _json(_hex_lines(text, 16).decode().upper()).encode(),
        _WHOLE,
    ),
    "hexadecimal, behind 0x": (lambda text: b"0x" + text.encode().hex().encode(), _WHOLE),
    "hexadecimal, in pairs": (lambda text: text.encode().hex(" ").encode(), _WHOLE),
    "hexadecimal, as an array of C": (
        lambda text: ", ".join(f"0x{one:02x}" for one in text.encode()).encode(),
        _WHOLE,
    ),
    "octal": (lambda text: "".join(f"\\{one:03o}" for one in text.encode()).encode(), _WHOLE),
    "in the deltas of a stream": (_utf8(_deltas), _WHOLE),
    "in the deltas of a stream, in JSON": (_utf8(lambda text: _json(_deltas(text))), _WHOLE),
    "one word a line, in a table": (_utf8(_word_a_line), _WHOLE),
    "one word a line, in a table, in JSON": (_utf8(lambda text: _json(_word_a_line(text))), _WHOLE),
    "reworded": (_utf8(_reworded), _NEAR),
    "a half of it": (lambda text: text[: len(_BEFORE) + len(PLANTED) // 2].encode(), _NEAR),
}
