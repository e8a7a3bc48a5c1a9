"""Questions of too few letters to be told by them."""

import json

from opd.protocol.contamination.conclusion import conclude
from opd.protocol.contamination.matching import Form
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Source, scan
from opd.protocol.contamination.short import longest_in_order
from opd.records.audits import Control, Verdict


def test_several_short_questions_in_the_finals_order_are_confirmed_and_single_ones_mean_nothing() -> None:
    asked = [Question(wordings=(f"Compute {number}+{number % 7}-3.",), answer="") for number in range(20, 80)]
    needles = Needles(asked)
    assert len(needles.short) == 60

    def said(texts: list[str]) -> tuple[int, Verdict]:
        content = "\n".join(json.dumps({"problem": text, "answer": "5"}) for text in texts)
        found = scan([Source(name="it", content=content.encode())], needles)
        return found.in_order, conclude(found, needles, [Control(name="c", found=True)]).verdict

    texts = [one.wordings[0] for one in asked]
    assert said(texts[10:20]) == (10, Verdict.CONFIRMED)
    assert said(texts[30:10:-3]) == (1, Verdict.NOT_ASSESSED)
    assert said(["Compute 1+1.", "Compute 120+6-3."]) == (0, Verdict.NONE_FOUND)  # the end of one is not one
    assert said([]) == (0, Verdict.NONE_FOUND)


def test_the_longest_row_in_order_by_its_slow_definition() -> None:
    for order in ([], [3], [3, 3, 4, 4, 5, 9], [5, 4, 3], [0, 1, 0, 1, 2, 3, 7], [1, 2, 2, 3]):
        once = [one for at, one in enumerate(order) if at == 0 or order[at - 1] != one]
        rows = [once[a:b] for a in range(len(once)) for b in range(a + 1, len(once) + 1)]
        wanted = max((len(row) for row in rows if row == list(range(row[0], row[0] + len(row)))), default=0)
        assert longest_in_order(order) == wanted


def test_a_short_question_is_counted_once_wherever_a_block_ends() -> None:
    asked = [Question(wordings=("Compute 97-5+3.",), answer="95")]
    for at in ((1 << 18) - 20, (1 << 18) - 8, (1 << 18) - 1, 1 << 18, (1 << 18) + 900):
        content = b"step " * (at // 5) + b" " * (at % 5) + b"Compute 97-5+3." + b" loss" * 20_000
        found = scan([Source(name="it", content=content)], Needles(asked))
        assert found.counts[Form.SHORT] == 1
