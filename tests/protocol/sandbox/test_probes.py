"""What each rung is said to prevent is what it was seen to prevent, with every probe's control succeeding outside."""

import os
from pathlib import Path

import pytest

from opd.protocol.sandbox import ladder
from opd.protocol.sandbox.group import Group
from opd.protocol.sandbox.ladder import RUNGS
from opd.protocol.sandbox.probes import Isolation, probe
from opd.protocol.sandbox.view import Guarantee
from opd.records.settings import validated

# An ordinary user can't do these outside either, on most machines, so that their refusal inside says nothing.
ROOTS = {Guarantee.DEVICES, Guarantee.KERNEL_SETTINGS}


@pytest.mark.parametrize("name", [rung.name for rung in RUNGS])
def test_a_rung_prevents_what_it_says_and_not_more(name: str, tmp_path: Path) -> None:
    """faults H42: names, TCP and UDP among it, tried inside with a control outside."""
    rung = ladder.BY_NAME[name]
    if (reason := ladder.lacks(rung)) is not None:
        pytest.skip(f"{name} doesn't work here: {reason}")
    seen = probe(rung, tmp_path / "probe", refused={"better": "not there"})
    told = {probed.name: (probed.outcome, probed.inside, probed.outside) for probed in seen.probes}
    assert set(told) == set(Guarantee)
    unassessed = {probed.name for probed in seen.probes if probed.outcome == "not_assessed"}
    assert unassessed <= (ROOTS if os.geteuid() else set()), told
    assert seen.prevented == rung.prevents - unassessed, told
    assert seen.broken == ()
    assert (seen.rung, seen.refused) == (name, {"better": "not there"})
    assert validated(Isolation, seen.resolved(), source="isolation.json") == seen


class Boaster(Group):
    """A rung that prevents nothing and says that it prevents everything."""

    prevents = frozenset(Guarantee)


def test_what_a_rung_only_says_is_found_out(tmp_path: Path) -> None:
    seen = probe(Boaster(), tmp_path / "probe")
    assert set(seen.broken) >= set(Guarantee) - {Guarantee.DAEMONS} - ROOTS
    assert seen.prevented <= {Guarantee.DAEMONS}


class Broken(Group):
    """A rung in which no program comes to life."""

    def command(self, *arguments: object, **settings: object) -> object:
        launch = super().command(*arguments, **settings)
        object.__setattr__(launch, "argv", ("false", *launch.argv))
        return launch


def test_a_sandbox_in_which_nothing_runs_prevents_nothing(tmp_path: Path) -> None:
    seen = probe(Broken(), tmp_path / "probe")
    assert {probed.outcome for probed in seen.probes} == {"not_assessed"}
    assert all("not_started" in probed.inside for probed in seen.probes)
