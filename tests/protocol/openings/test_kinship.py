"""Whose a process is, with real ones: asked before and after what tells it is gone."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from opd.protocol.openings.kinship import Kinship
from opd.protocol.supervision.processes import MARK


@pytest.fixture
def kinship() -> Kinship:
    return Kinship("m" * 32)


@pytest.fixture
def tree(kinship: Kinship, tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Starts a script below a marked program that is known already, and gives the number that it wrote."""
    programs, told_of = [], []

    def start(script: str) -> int:
        told = tmp_path / "told"
        environment = {**os.environ, MARK: "m" * 32, "TOLD": str(told)}
        waits = f"read line; {script}; exec sleep 60"
        program = subprocess.Popen(["bash", "-c", waits], env=environment, stdin=subprocess.PIPE)
        programs.append(program)
        while b"m" * 32 not in Path(f"/proc/{program.pid}/environ").read_bytes():
            time.sleep(0.001)  # it is started before its environment can be read
        root = kinship.of(program.pid)
        assert root is not None
        assert kinship.belongs(root) is True
        assert program.stdin is not None
        program.stdin.write(b"go\n")
        program.stdin.close()
        while not (told.exists() and told.read_text().endswith("\n")):
            time.sleep(0.01)
        told_of.append(int(told.read_text()))
        return told_of[-1]

    yield start
    for pid in told_of:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    for program in programs:
        program.kill()
        program.wait()


ORPHAN = "(env -i setsid sleep 60 & echo $! > $TOLD.part) ; sleep 0.1; mv $TOLD.part $TOLD"


def test_a_child_that_wiped_the_mark_belongs_by_its_parent(kinship: Kinship, tree: Callable[[str], int]) -> None:
    kin = kinship.of(tree("env -i sleep 60 & echo $! > $TOLD"))
    assert kin is not None
    assert kinship.belongs(kin) is True


def test_of_an_orphan_that_wiped_the_mark_nobody_can_tell(kinship: Kinship, tree: Callable[[str], int]) -> None:
    """First: the bad thing happens. It is of the tree, and neither its mark nor its parents are left to say so."""
    pid = tree(ORPHAN)
    assert b"m" * 32 not in Path(f"/proc/{pid}/environ").read_bytes()
    kin = kinship.of(pid)
    assert kin is not None
    assert kinship.root not in kin.lineage()
    assert kinship.belongs(kin) is None


def test_what_this_process_starts_besides_is_not_the_trees(kinship: Kinship, tree: Callable[[str], int]) -> None:
    tree("echo $$ > $TOLD")
    with subprocess.Popen(["sleep", "60"]) as beside:
        kin = kinship.of(beside.pid)
        assert kin is not None
        assert kinship.belongs(kin) is False
        beside.kill()


def test_who_was_there_before_is_not_the_trees(kinship: Kinship, tree: Callable[[str], int]) -> None:
    with subprocess.Popen(["bash", "-c", "(setsid sleep 60 & echo $!)"], stdout=subprocess.PIPE, text=True) as before:
        assert before.stdout is not None
        orphan = int(before.stdout.readline())
        try:
            time.sleep(0.05)  # the kernel counts a start in hundredths of a second
            tree("echo $$ > $TOLD")
            kin = kinship.of(orphan)
            assert kin is not None
            assert kinship.belongs(kin) is False
        finally:
            os.kill(orphan, 9)
