"""Whether the leading case can be told from the others: one run of `opd compare`, paired by question, with Holm."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opd.protocol.comparison import by_program
from opd.records.scores import Comparison
from opd.records.settings import validated

MOST = 25  # cases that are compared with the leading one: `opd compare` has a letter for each


def comparisons(leading: Path, others: Sequence[Path]) -> tuple[Comparison, ...]:
    """Each of these evaluations against the leading one, p adjusted for their number.

    Raises `AnswerIsNo` with what `opd compare` says where they don't compare.
    """
    values: Any = by_program(Path("/"), [str(path.resolve()) for path in (leading, *others)])
    several = values.get("comparisons", [values])  # a single one is printed as it is
    return tuple(validated(Comparison, one, source="opd compare") for one in several)
