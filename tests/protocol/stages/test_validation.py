"""A program that loads nothing says nothing of the checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from opd.protocol.attempts.lease import held
from opd.protocol.sandbox.bubblewrap import Bubblewrap
from opd.protocol.sandbox.ladder import Chosen
from opd.protocol.sandbox.launch import Launch
from opd.protocol.sandbox.view import View, Word
from opd.protocol.stages.validation import CONTROL, validate
from opd.records.attempts import Stage
from opd.records.errors import AnswerIsNo


class Deaf(Bubblewrap):
    """A sandbox in which every program ends at once, as where an install can't start."""

    def command(self, view: View, argv: Sequence[Word], *, mark: str) -> Launch:
        assert argv
        return super().command(view, ["false"], mark=mark)


@pytest.mark.patient
@pytest.mark.skipif(Bubblewrap().missing() is not None, reason=f"bubblewrap: {Bubblewrap().missing()}")
def test_where_the_start_does_not_load_either_no_checkpoint_is_called_invalid(new_toy: Callable[..., Any]) -> None:
    toy = new_toy()
    toy.submit()
    _, formal = toy.replay()
    step = formal.artifacts[0].step
    with (
        held(toy.attempt.folder) as holder,
        pytest.raises(AnswerIsNo, match="does not load the start either: it did not load: the program ended by"),
    ):
        validate(
            toy.attempt,
            holder,
            replace(toy.machine, sandbox=Chosen(rung=Deaf(), refused={})),
            formal=toy.file("formal/attempt-001"),
            step=step,
            cancelled=lambda: False,
        )
    assert (toy.file(f"validation/step-{step:06d}.partial") / CONTROL / "stderr.log").exists()
    assert not any(one.outcome == "invalid" for one in toy.status.tries)
    assert any(due.stage is Stage.VALIDATION for due in toy.status.due)
