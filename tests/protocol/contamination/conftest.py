"""Made-up questions of a contest, which stand in no file of this project but here.

questions    four of them, in the words of their kind: stock phrases, formulas, a quotation, two paragraphs
"""

import pytest

from opd.protocol.contamination.needles import Question

_FERRY = (
    "A ferry crosses the strait of Velmar $n$ times a day, carrying $7k+3$ crates of \\emph{salted} plums on each "
    "crossing. On the $k$th day the harbour master counts $\\frac{n^2-1}{k+2}$ crates & writes the remainder modulo "
    "$1000$ into her ledger. The probability that two entries agree is $\\frac{m}{n}$, where $m$ and $n$ are "
    "relatively prime positive integers. Find $m+n$."
)
_TRIANGLE = (
    "Let $\\triangle QRS$ have $QR=31$, $RS<44$ and $\\angle R = 2\\theta$. The point $T$ on $\\overline{QS}$ "
    "satisfies\n\\[ \\tan\\theta \\neq \\frac{QT}{TS} + \\sqrt{5}. \\]\nFind the number of possible integer "
    "perimeters."
)
_CARDS = (
    'A clerk writes "zugzwang" on 45 cards and deals them to five chess players so that no two neighbours at the '
    "round table hold the same number of cards. In how many ways can she do so?"
)
_BASES = "Find the sum of all integer bases $b>11$ for which $19_{b}$ divides $113_{b}$."
TEXTS = (_FERRY, _TRIANGLE, _CARDS, _BASES)
ANSWERS = ("407", "82", "611", "90")


@pytest.fixture(scope="session")
def questions() -> list[Question]:
    return [Question(wordings=(text,), answer=answer) for text, answer in zip(TEXTS, ANSWERS, strict=True)]
