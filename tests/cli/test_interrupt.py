"""What each Ctrl-C does, and says before it does it."""

import os
import signal
import time

import pytest

from opd.cli.interrupt import Interrupt


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_lets_the_unit_end_and_the_second_ends_all(capsys: pytest.CaptureFixture[str]) -> None:
    with Interrupt(unit="step") as interrupt:
        assert not interrupt.asked()
        press()
        assert interrupt.asked()
        assert not interrupt.insisted()
        with pytest.raises(KeyboardInterrupt):
            press()
    assert capsys.readouterr().err == "stopping after this step; once more to stop at once\n"


def test_of_a_long_unit_the_second_ends_it_and_the_third_ends_all(capsys: pytest.CaptureFixture[str]) -> None:
    with Interrupt(unit="stage", second="end it, too") as interrupt:
        press()
        assert (interrupt.asked(), interrupt.insisted()) == (True, False)
        press()
        assert (interrupt.asked(), interrupt.insisted()) == (True, True)
        with pytest.raises(KeyboardInterrupt):
            press()
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "stopping after this stage; once more to end it, too",
        "ending this stage; once more to stop at once",
    ]


def test_afterwards_it_is_the_systems_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt(unit="step"):
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_what_comes_again_at_once_is_the_same_request(capsys: pytest.CaptureFixture[str]) -> None:
    """torchrun hands on to its processes the Ctrl-C that the terminal has sent them already."""
    with Interrupt(unit="step", settle_seconds=0.3) as interrupt:
        press()
        press()
        assert interrupt.asked()
        time.sleep(0.4)
        with pytest.raises(KeyboardInterrupt):
            press()
    assert capsys.readouterr().err.count("stopping after this step") == 1


def test_a_quiet_one_hears_and_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Interrupt(unit="step", quiet=True) as interrupt:
        press()
        assert interrupt.asked()
    assert capsys.readouterr().err == ""
