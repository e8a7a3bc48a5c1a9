"""Between two things that are due one may leave; what is at work is let to its end."""

from typing import Any

from opd.protocol.attempts.lease import held
from opd.protocol.attempts.running import run
from opd.protocol.sandbox.group import Group
from opd.protocol.sandbox.ladder import Chosen
from opd.records.attempts import Stage


def test_who_leaves_begins_nothing_more(lab: Any) -> None:
    assert [due.stage for due in lab.status.due] == [Stage.EXPLORE]
    said: list[str] = []
    with held(lab.folder) as holder:
        here = run(
            lab.attempt,
            holder,
            Chosen(rung=Group(), refused={}),
            say=said.append,
            cancelled=lambda: False,
            leaving=lambda: True,
        )
    assert [due.stage for due in here.due] == [Stage.EXPLORE]
    assert not said
    assert not lab.attempt.places(Stage.EXPLORE)
