"""Whether the leading case can be told from the others: one run of `opd compare`, paired by question, with Holm.

The statistics are the install's own, run as a program of its own: here no score and no p value is computed.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opd.protocol.install import program
from opd.protocol.supervision.asking import ask
from opd.protocol.words import one_line
from opd.records.errors import AnswerIsNo
from opd.records.scores import Comparison
from opd.records.settings import validated

MOST = 25  # cases that are compared with the leading one: `opd compare` has a letter for each
LIMIT_SECONDS = 600.0


def comparisons(leading: Path, others: Sequence[Path]) -> tuple[Comparison, ...]:
    """Each of these evaluations against the leading one, p adjusted for their number.

    Raises `AnswerIsNo` with what `opd compare` says where they don't compare.
    """
    folders = [str(path.resolve()) for path in (leading, *others)]
    answer = ask(program("compare", *folders, "--json"), limit_seconds=LIMIT_SECONDS, complaints=True)
    if answer is None:
        raise AnswerIsNo(f"`opd compare` was not done after {LIMIT_SECONDS:.0f} s")
    if answer.code != 0:
        raise AnswerIsNo(one_line(answer.text.removeprefix("opd: "), most=500))
    said = next(line for line in answer.text.splitlines() if line.startswith("{"))  # a warning may stand before it
    values: dict[str, Any] = json.loads(said)
    several = values.get("comparisons", [values])  # a single one is printed as it is
    return tuple(validated(Comparison, one, source="opd compare") for one in several)
