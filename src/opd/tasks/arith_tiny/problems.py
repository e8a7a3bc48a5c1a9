r"""Chain arithmetic from a seed: problems, their written-out solutions, and the three sets. No tensors.

    Compute 73-9+7.          the problem: a start, then two to four steps, every value from 0 to 99
    73-9=64                  the solution: a line for each step ...
    64+7=71
    </think>                 ... the end of the reasoning, which the chat template has opened ...

    \boxed{71}                ... and the answer

The evaluation sets come first: `final` is drawn before `proxy`, `proxy` before `train`, and a problem that
was drawn is not drawn again. `unseen` leaves both evaluation sets out of whatever else is made later.
"""

import json
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from opd.records.files import write_text

LARGEST_START = 99
LARGEST_VALUE = 99  # two digits: as long as a third of a million parameters can learn to add in a minute
OPERANDS = range(2, 10)
STEPS = range(2, 5)
SLIPS = (-10, -2, -1, 1, 2, 10)  # what a sloppy step is off by: a lost carry, or one finger too many

FINAL_PROBLEMS = 500
PROXY_PROBLEMS = 500
TRAIN_PROBLEMS = 2_000
SETS_SEED = 1
SOURCE = f"opd arith_tiny, seed {SETS_SEED}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A start and the signed steps from it; equal chains are the same problem."""

    start: int
    steps: tuple[int, ...]  # +7 adds seven, -9 takes nine away

    @property
    def problem(self) -> str:
        """The question, as `Compute 73-9+7.`."""
        return f"Compute {self.start}{''.join(f'{step:+d}' for step in self.steps)}."

    @property
    def answer(self) -> int:
        """The value after the last step, from 0 to 99."""
        return self.start + sum(self.steps)

    @property
    def solution(self) -> str:
        """The exact response to the problem, without the end-of-sequence token."""
        return _written_out(self, slips=(0,) * len(self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """The problems of the three sets, in the order of their files; no chain stands in two of them."""

    final: tuple[Chain, ...]
    proxy: tuple[Chain, ...]
    train: tuple[Chain, ...]


def sloppy_solution(chain: Chain, *, rng: random.Random, slip_share: float) -> str:
    """A response whose steps are each wrong with this probability, the error being carried on to the end.

    A slip that would take a later value out of 0 to 99 is not made, so that every line stays of the kind
    that exact solutions have.
    """
    slips = []
    offset = 0
    for place in range(len(chain.steps)):
        slip = 0
        if rng.random() < slip_share:
            rest = _values(chain)[place:]
            fitting = [s for s in SLIPS if all(0 <= v + offset + s <= LARGEST_VALUE for v in rest)]
            slip = _pick(rng, fitting) if fitting else 0
        slips.append(slip)
        offset += slip
    return _written_out(chain, slips=slips)


def chains(rng: random.Random, *, without: Collection[Chain] = ()) -> Iterator[Chain]:
    """Problems without end, each drawn independently; those in `without` are passed over."""
    while True:
        chain = _chain(rng)
        if chain not in without:
            yield chain


def stream(name: str) -> random.Random:
    """The random numbers that belong to a name: the same on every machine and version of Python."""
    return random.Random(f"arith_tiny/{name}")  # noqa: S311  problems are no secrets


def sets(seed: int = SETS_SEED) -> Sets:
    """The three sets of a seed; the default's are the files that ship."""
    distinct = _distinct(chains(stream(f"sets/{seed}")))
    final, proxy, train = (
        tuple(islice(distinct, count)) for count in (FINAL_PROBLEMS, PROXY_PROBLEMS, TRAIN_PROBLEMS)
    )
    return Sets(final=final, proxy=proxy, train=train)


def unseen(name: str) -> Iterator[Chain]:
    """Problems without end from the stream of this name, none of them in the final or the proxy set."""
    evaluated = sets()
    return chains(stream(name), without=frozenset(evaluated.final + evaluated.proxy))


def write_sets(folder: Path) -> None:
    """`final.jsonl`, `proxy.jsonl` and `train.jsonl` stand in the folder: id, problem, answer, source."""
    made = sets()
    for name, problems in (("final", made.final), ("proxy", made.proxy), ("train", made.train)):
        rows = (
            {
                "id": f"arith-{name}-{number:04d}",
                "problem": chain.problem,
                "answer": str(chain.answer),
                "source": SOURCE,
            }
            for number, chain in enumerate(problems, start=1)
        )
        write_text(folder / f"{name}.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def _chain(rng: random.Random) -> Chain:
    start = value = 1 + int(rng.random() * LARGEST_START)
    steps: list[int] = []
    length = _pick(rng, STEPS)
    while len(steps) < length:
        step = _pick(rng, (-1, 1)) * _pick(rng, OPERANDS)
        if 0 <= value + step <= LARGEST_VALUE:
            steps.append(step)
            value += step
    return Chain(start=start, steps=tuple(steps))


def _values(chain: Chain) -> list[int]:
    """The value after each step."""
    return [chain.start + sum(chain.steps[: place + 1]) for place in range(len(chain.steps))]


def _written_out(chain: Chain, *, slips: Sequence[int]) -> str:
    lines = []
    value = chain.start
    for step, slip in zip(chain.steps, slips, strict=True):
        result = value + step + slip
        lines.append(f"{value}{step:+d}={result}\n")
        value = result
    return f"{''.join(lines)}</think>\n\n\\boxed{{{value}}}"


def _pick(rng: random.Random, options: Sequence[int]) -> int:
    """One of the options, by `random()` alone: the only draw that Python promises never to change."""
    return options[int(rng.random() * len(options))]


def _distinct(drawn: Iterator[Chain]) -> Iterator[Chain]:
    seen: set[Chain] = set()
    for chain in drawn:
        if chain not in seen:
            seen.add(chain)
            yield chain
