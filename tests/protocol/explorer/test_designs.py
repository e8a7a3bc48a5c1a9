"""What a further pair could find: the install's own program asked, and its answer held against the closed form."""

import math
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.explorer.designs import Design, Designs
from opd.protocol.explorer.outlook import rank
from opd.protocol.explorer.proxy import Proxy
from opd.protocol.install import program
from opd.protocol.packages import catalogue
from opd.records.errors import AnswerIsNo
from opd.records.settings import read

TINY = catalogue.find("arith_tiny")[0].contract.proxy.model_copy(update={"questions": 8})
REACH = statistics.NormalDist().inv_cdf(0.975) + statistics.NormalDist().inv_cdf(0.8)
FIRST, SECOND, THIRD = [3, 4, 2, 3, 4, 1, 0, 4], [4, 4, 3, 3, 4, 3, 1, 4], [0, 1, 0, 2, 1, 0, 0, 1]


def proxy(number: int, mean: float | None) -> Proxy:
    return Proxy(
        number=number, checkpoint="/runs/a/checkpoint-1", note=None, sha256=None, benchmark=TINY.benchmark,
        protocol_sha256=None, correct=None, samples=None, mean=mean, stderr=None, cut_short=None, seconds=1.0,
        began_at_seconds=1.0, ended_at_seconds=2.0, missing=None if mean is not None else "it broke",
    )  # fmt: skip


def ask(one: Path, other: Path | None) -> str:
    """The program itself, as a user would run it."""
    folders = [str(path) for path in (other, one) if path]
    ran = subprocess.run(program("power", *folders, "--json"), capture_output=True, text=True, check=True, cwd="/")
    return ran.stdout


@pytest.fixture
def proxies(tmp_path: Path, evaluated: Callable[..., Any]) -> Path:
    for number, hits in enumerate((FIRST, SECOND), start=1):
        evaluated(tmp_path / "proxy" / f"{number:03d}" / "evaluation", hits)
    return tmp_path / "proxy"


def test_the_answer_is_the_closed_form_of_the_two_designs(proxies: Path, tmp_path: Path) -> None:
    """By hand: unpaired from the two scores' clustered errors; paired from W of each and the spread between them."""
    designs = Designs(tmp_path / "designs", proxies=proxies, ask=ask, rank=rank(TINY))
    designs.after([proxy(1, 0.6), proxy(2, 0.8)])
    designs.wait()
    design = read(Design, tmp_path / "designs" / "002.json")
    assert design == designs.latest
    assert (design.after, design.beside, design.missing) == (2, 1, None)
    first, second = ([hits / 4 for hits in counts] for counts in (FIRST, SECOND))
    within = [statistics.fmean(4 / 3 * p * (1 - p) for p in means) for means in (first, second)]
    spread = statistics.variance([b - a for a, b in zip(first, second, strict=True)]) - sum(within) / 4
    paired = REACH * math.sqrt((max(0.0, spread) + sum(within) / 4) / 8)
    assert design.detectable == pytest.approx(paired, rel=1e-9)
    clustered = [statistics.variance(means) / 8 for means in (first, second)]
    assert design.unpaired_detectable == pytest.approx(REACH * math.sqrt(sum(clustered)), rel=1e-9)
    assert design.detectable < design.unpaired_detectable


def test_a_single_score_does_not_show_what_pairing_gains(proxies: Path, tmp_path: Path) -> None:
    designs = Designs(tmp_path / "designs", proxies=proxies, ask=ask, rank=rank(TINY))
    designs.after([proxy(1, 0.6)])
    designs.wait()
    assert designs.latest is not None
    assert (designs.latest.beside, designs.latest.detectable) == (None, None)
    means = [hits / 4 for hits in FIRST]
    alone = REACH * math.sqrt(2 * statistics.variance(means) / 8)
    assert designs.latest.unpaired_detectable == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(("direction", "best"), [("maximize", 2), ("minimize", 3)])
def test_the_other_of_the_pair_is_the_best_of_those_before(tmp_path: Path, direction: str, best: int) -> None:
    asked: list[Path | None] = []

    def hears(one: Path, other: Path | None) -> str:
        asked.append(other)
        raise AnswerIsNo("not now")

    measure = TINY.model_copy(update={"direction": direction})
    designs = Designs(tmp_path / "designs", proxies=tmp_path / "proxy", ask=hears, rank=rank(measure))
    designs.after([proxy(1, None), proxy(2, 0.8), proxy(3, 0.2), proxy(4, 0.5)])
    designs.wait()
    assert asked == [tmp_path / "proxy" / f"{best:03d}" / "evaluation"]


@pytest.mark.parametrize("answer", ["", "{}", "[" * 100_000, '{"rows": []}', None])
def test_an_answer_that_is_none_is_an_advice_less_and_said(tmp_path: Path, answer: str | None) -> None:
    def hears(one: Path, other: Path | None) -> str:
        if answer is None:
            raise AnswerIsNo("opd power ended by deadline")
        return answer

    designs = Designs(tmp_path / "designs", proxies=tmp_path / "proxy", ask=hears, rank=rank(TINY))
    designs.after([proxy(7, 0.5)])
    designs.close()
    design = read(Design, tmp_path / "designs" / "007.json")
    assert design.missing
    assert (design.power, design.detectable, design.unpaired_detectable) == (None, None, None)


def test_when_the_exploration_is_over_nothing_more_is_asked(tmp_path: Path) -> None:
    asked: list[Path] = []
    designs = Designs(
        tmp_path / "designs", proxies=tmp_path, ask=lambda one, _: str(asked.append(one)), rank=rank(TINY)
    )
    designs.close()
    designs.after([proxy(1, 0.5)])
    designs.wait()
    assert asked == []
    assert not (tmp_path / "designs").exists()
