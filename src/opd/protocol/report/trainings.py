"""What made a measured checkpoint: its recipe, its steps, its source; and in what two such trainings differ.

A matched control differs from what it controls in one thing, and has as many steps. Recipes and steps are what the
explorer's own run folders say; the source is what stood in the workspace when the measurement began, by our own look.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from opd.protocol.report.sources import Fact, Sources

RUNS = "/runs/"
_NOT_THE_METHOD = frozenset({"budget", "save", "machine", "sinks"})  # of a recipe: how long, where, for whom
_SWITCHES = "name"  # a table with this key is another table when it changes
_PATHS = frozenset({"student.model", "teacher.model", "data.path"})  # inputs, held against their digests
_SEED = "seed"
_PLAIN = re.compile(r"[\w./+-]+")
_HUNK = re.compile(r"^@@[^\n]*\n", re.MULTILINE)
_CHANGED = re.compile(r"^[-+].*$", re.MULTILINE)
_FILE = re.compile(r"^diff --git [^\n]*\n(?:(?!@@)[^\n]*\n)*", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training, as its run folder and the workspace tell of it."""

    folder: str  # as the explorer names it
    recipe: Fact | None = None
    summary: Fact | None = None  # run.json
    step: Fact | None = None
    rows_seen: Fact | None = None  # by its own count, up to this step
    metrics: str | None = None  # file
    tree_sha256: Fact | None = None  # of the source
    patch: Fact | None = None  # what the source differs in from the base; None where it is the base, or isn't known

    @property
    def seed(self) -> Fact | None:
        """Of its recipe."""
        return self.recipe.whole(_SEED) if self.recipe else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key of two recipes, or a whole table of them where it is another table."""

    key: str
    a: Fact | None
    b: Fact | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How two trainings compare: what the second has otherwise."""

    recipe: tuple[Difference, ...] = ()
    hunks: tuple[str, ...] = ()  # of source, that only one of them has
    same_steps: bool = False
    unknown: str | None = None  # why it can't be said

    @property
    def names(self) -> tuple[str, ...]:
        """What differs, in words and keys."""
        return (*(one.key for one in self.recipe), *(["the source"] if self.hunks else []))

    @property
    def is_control(self) -> bool:
        """Whether one thing alone differs, at as many steps. A hunk of source and one key that it sets are one."""
        named = [one for one in self.recipe if any(_sets(hunk, one.key) for hunk in self.hunks)]
        things = len(self.hunks) + len(self.recipe) - min(len(named), len(self.hunks))
        return self.unknown is None and self.same_steps and things == 1 and not self.is_repetition

    @property
    def is_repetition(self) -> bool:
        """Whether nothing differs but the seed."""
        return self.unknown is None and not self.hunks and [one.key for one in self.recipe] == [_SEED]


def training_of(sources: Sources, exploration: str, proxy: Fact) -> Training | None:
    """What made the checkpoint of a measurement; None where nothing says it."""
    folder = f"{exploration}/proxy/{proxy.value['number']:03d}"
    said = proxy.get("training")
    checkpoint = str(proxy.value["checkpoint"])
    inside = f"{folder}/training" if said else _in_runs(exploration, checkpoint.rpartition("/")[0])
    if inside is None:
        return None
    recipe, summary = (sources.object(f"{inside}/{name}.json") for name in ("recipe", "run"))
    metrics = f"{inside}/metrics.jsonl"
    if recipe is None and not sources.has(metrics):
        return None
    patch = f"{folder}/{proxy.value['workspace']['patch']}" if proxy.get("workspace", "patch") else ""
    return Training(
        folder=checkpoint.rpartition("/")[0],
        recipe=recipe,
        summary=summary,
        step=said.whole("step") if said else summary and summary.whole("steps"),
        rows_seen=said.whole("rows_seen") if said else summary and summary.whole("rows_seen"),
        metrics=metrics if sources.has(metrics) else None,
        tree_sha256=proxy.get("workspace", "tree_sha256"),
        patch=sources.fact(patch) if patch and sources.has(patch) else None,
    )


def unmeasured(sources: Sources, exploration: str, measured: set[str]) -> Iterator[Training]:
    """The trainings that left a run folder of which no checkpoint was measured."""
    runs = sources.attempt / exploration / "runs"
    for path in sorted(runs.rglob("metrics.jsonl")) if runs.is_dir() else ():
        inside = path.parent.relative_to(sources.attempt).as_posix()
        folder = f"{RUNS}{path.parent.relative_to(runs).as_posix()}"
        if folder in measured or not _PLAIN.fullmatch(inside):
            continue  # a name that a text can't hold as it is
        last = last_line(sources, f"{inside}/metrics.jsonl")
        yield Training(
            folder=folder,
            recipe=sources.object(f"{inside}/recipe.json"),
            summary=sources.object(f"{inside}/run.json"),
            step=last.whole("step") if last else None,
            rows_seen=last.whole("rows_seen") if last else None,
            metrics=f"{inside}/metrics.jsonl",
        )


def last_line(sources: Sources, file: str) -> Fact | None:
    """The last object of a JSON Lines file; None where there is none."""
    *_, last = (None, *sources.lines(file))
    return last


def match(a: Training | None, b: Training | None) -> Match:
    """In what B differs from A."""
    if a is None or b is None:
        return Match(unknown="nothing beside a checkpoint says how it was trained")
    if a.tree_sha256 is None or b.tree_sha256 is None:
        return Match(unknown="the source at the time of a measurement was not recorded")
    if a.recipe is None or b.recipe is None:
        return Match(unknown="a training left no recipe")
    if a.step is None or b.step is None:
        return Match(unknown="the number of steps behind a checkpoint is not known")
    return Match(
        recipe=tuple(differences(a.recipe, b.recipe)),
        hunks=_hunks_apart(a, b),
        same_steps=a.step.value == b.step.value,
    )


def differences(a: Fact, b: Fact) -> Iterator[Difference]:
    """What differs of the method in two recipes, in the order of the keys."""
    for key in sorted({*a.value, *b.value} - _NOT_THE_METHOD):
        yield from _below(key, a.get(key), b.get(key))


def _below(key: str, a: Fact | None, b: Fact | None) -> Iterator[Difference]:
    if (a.value if a else None) == (b.value if b else None) or key in _PATHS:
        return
    if a is None or b is None or not _are_one_table(a.value, b.value):
        yield Difference(key=key, a=a, b=b)
        return
    for name in sorted({*a.value, *b.value}):
        yield from _below(f"{key}.{name}", a.get(name), b.get(name))


def _are_one_table(a: object, b: object) -> bool:
    """Whether two values are tables that are compared key by key."""
    return isinstance(a, dict) and isinstance(b, dict) and a.get(_SWITCHES) == b.get(_SWITCHES)


def _hunks_apart(a: Training, b: Training) -> tuple[str, ...]:
    """The changed lines of each hunk that only one of the two has; one at least where the sources differ at all."""
    digests = {one.tree_sha256.value for one in (a, b) if one.tree_sha256 is not None}
    if len(digests) == 1:
        return ()
    apart = sorted(_hunks(a.patch) ^ _hunks(b.patch))
    return tuple("\n".join(_CHANGED.findall(body)) for _, body in apart) or ("",)


def _hunks(patch: Fact | None) -> set[tuple[str, str]]:
    """Each by its file and its lines, wherever in the file it stands."""
    if patch is None:
        return set()
    text = str(patch.value)
    heads = [*_FILE.finditer(text)]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {
        (head[0].partition("\n")[0], body)
        for head, end in zip(heads, ends, strict=True)
        for body in _HUNK.split(text[head.end() : end])[1:] or [""]
    }


def _sets(hunk: str, key: str) -> bool:
    """Whether the changed lines of a hunk give a key a value: `shuffle = true`, `data.shuffle=true`, `[reward]`."""
    lines = (line[1:].partition("#")[0] for line in hunk.split("\n"))
    name = re.escape(key.rpartition(".")[2])
    given = re.compile(rf"(?<!\w)(?:{name}(?:\.\w+)*\s*=(?!=)|\[{name}[\].])")
    return any(map(given.search, lines))


def _in_runs(exploration: str, folder: str) -> str | None:
    """Where a folder of runs, as the explorer names it, lies in the attempt."""
    name = folder.removeprefix(RUNS)
    return f"{exploration}/runs/{name}" if folder.startswith(RUNS) and ".." not in name.split("/") else None
