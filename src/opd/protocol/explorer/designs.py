"""What a further pair of measurements could find: `opd power` of the install, asked after each measurement.

designs/002.json     after proxy 002: the answer, from its samples and those of the best other one

The statistics are the install's own, run as a program, so that an advice and a report can't differ in a formula; and
their answer lies beside the measurements as evidence. It is asked after the explorer has its score, in a thread of
its own: the explorer waits for nothing.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import PositiveInt

from opd.protocol.explorer.proxy import Proxy
from opd.protocol.words import one_line
from opd.records.errors import OpdError
from opd.records.files import write_json
from opd.records.power_report import PowerReport
from opd.records.settings import Settings, validated

FOLDER = "designs"
LIMIT_SECONDS = 120.0  # for the program; it takes about one

Ask = Callable[[Path, Path | None], str]
"""What `opd power --json` says of the evaluations in one folder or two; raises `OpdError` when it says nothing."""


class Design(Settings):
    """A line of what the explorer is advised by."""

    after: PositiveInt
    """The number of a proxy."""
    beside: PositiveInt | None
    """Of the other of the pair: the best of those before it; null after the first."""
    power: PowerReport | None
    missing: str | None
    """Why there is no answer."""

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that one more pair like this finds four times in five, paired by question.

        (z(1 - α/2) + z(power)) × √((ω² + W_A/K_A + W_B/K_B) / Q), with W and ω² of the pair's per-question records
        (`opd.evaluate.statistics.power`; Miller, "Adding Error Bars to Evals", 2024, section 5). None before there is
        a pair: one score does not show how much true differences vary from question to question.
        """
        return self.power.rows[0].detectable if self.power and self.beside is not None else None

    @property
    def unpaired_detectable(self) -> float | None:
        """The same from the clustered errors alone, as if the two were scored on different questions."""
        return self.power.unpaired_detectable if self.power else None


class Designs:
    """Asks after each measurement, one at a time, and keeps the last answer."""

    def __init__(self, folder: Path, *, proxies: Path, ask: Ask, rank: Callable[[float], float]) -> None:
        self._folder = folder
        self._proxies = proxies
        self._ask = ask
        self._rank = rank  # of a score: the better, the greater
        self._threads: list[threading.Thread] = []
        self._one_at_a_time = threading.Lock()
        self.latest: Design | None = None
        self.over = threading.Event()

    def after(self, done: Sequence[Proxy]) -> None:
        """The last of these measurements has a score: what a pair with it could find is being worked out."""
        if self.over.is_set():
            return
        thread = threading.Thread(target=self._work, args=(done,), name="designs", daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Until nothing is being worked out."""
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        """Nothing more is asked; what is under way is told to end, and waited for."""
        self.over.set()
        self.wait()

    def _work(self, done: Sequence[Proxy]) -> None:
        with self._one_at_a_time:
            design = self._design(done[-1], self._best(done[:-1]))
            write_json(self._folder / f"{design.after:03d}.json", design.resolved())
            self.latest = design

    def _design(self, one: Proxy, other: Proxy | None) -> Design:
        power, missing = None, None
        try:
            said = self._ask(self._evaluation(one), self._evaluation(other) if other else None)
            power = validated(PowerReport, json.loads(said), source="opd power")
        except (OpdError, OSError, ValueError, RecursionError) as error:  # an advice less; the measurement stands
            missing = one_line(str(error), most=500)
        return Design(after=one.number, beside=other.number if other else None, power=power, missing=missing)

    def _best(self, others: Sequence[Proxy]) -> Proxy | None:
        scored = [(self._rank(one.mean), one) for one in others if one.mean is not None]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    def _evaluation(self, proxy: Proxy) -> Path:
        return self._proxies / f"{proxy.number:03d}" / "evaluation"
