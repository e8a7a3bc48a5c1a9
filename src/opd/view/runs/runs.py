"""Runs as text: a table of many, one in words, two side by side. What a stranger wrote stays on its line."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from opd.records.errors import AskedWrongly, OpdError
from opd.records.files import canonical_json
from opd.view.growing import last_line
from opd.view.plain import shown
from opd.view.runs.differences import ABSENT, differing, flat
from opd.view.runs.folders import Folder, Kind, by_number, read_object
from opd.view.runs.summaries import Summary, checkpoints
from opd.view.words import duration, interval, number, small

HEADER = ("run", "kind", "state", "steps", "score", "time", "what differs")
_NONE = "–"
_COUNTED = {Kind.TRAIN: "steps", Kind.SCORE: "samples", Kind.ATTEMPT: "best checkpoint"}
_LONGEST_DIFFERENCE = 70  # characters; `opd runs diff` says them all


class Order(StrEnum):
    """By what a table of runs is sorted."""

    NAME = "name"
    CHANGED = "changed"  # the newest first
    SCORE = "score"  # the best first, those without one last
    STEPS = "steps"  # the furthest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not the same in two runs; None where one has no such key at all."""

    part: str  # recipe, inputs, machine, protocol, …
    key: str
    a: Any
    b: Any


def ordered(runs: Sequence[Summary], order: Order) -> list[Summary]:
    """The runs in this order; of equals the one whose path comes first."""
    by_path = sorted(runs, key=lambda one: by_number(str(one.folder.path)))
    if order is Order.CHANGED:
        return sorted(by_path, key=lambda one: -one.changed)
    if order is Order.SCORE:
        return sorted(by_path, key=lambda one: (one.mean is None, -(one.mean or 0.0)))
    if order is Order.STEPS:
        return sorted(by_path, key=lambda one: (one.step is None, -(one.step or 0)))
    return by_path


def rows(runs: Sequence[Summary]) -> list[tuple[str, ...]]:
    """The cells of each run, in the order of `HEADER`."""
    keys = differing([one.recipe for one in runs if one.folder.kind is Kind.TRAIN and one.recipe])
    return [
        (
            shown(str(one.folder.path), longest=400),
            one.folder.kind.value,
            one.state.value,
            steps(one),
            score_in_words(one),
            _NONE if one.seconds is None else duration(one.seconds),
            shown(_what_differs(one, keys), longest=_LONGEST_DIFFERENCE),
        )
        for one in runs
    ]


def lines(header: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Columns of even width, two blanks between; the last is as long as it is."""
    widths = [max(cell_len(row[at]) for row in (header, *cells)) for at in range(len(header))]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in (header, *cells)]


def steps(run: Summary) -> str:
    """`74/120`, or what is known of it."""
    if run.step is None:
        return _NONE
    return f"{run.step:,}" if run.asked is None else f"{run.step:,}/{run.asked:,}"


def score_in_words(run: Summary) -> str:
    """`0.864 ± 0.009`: the mean with its clustered standard error."""
    if run.mean is None:
        return _NONE
    return number(run.mean) if run.stderr is None else f"{number(run.mean)} ± {number(run.stderr)}"


def values(run: Summary) -> dict[str, Any]:
    """The run as a JSON object."""
    return {
        "path": str(run.folder.path),
        "kind": run.folder.kind.value,
        "name": run.name,
        "state": run.state.value,
        "step": run.step,
        "asked": run.asked,
        "mean": run.mean,
        "stderr": run.stderr,
        "ci95": None if run.ci95 is None else list(run.ci95),
        "scored": run.scored,
        "seconds": run.seconds,
        "changed": run.changed,
        "said": run.said,
        "recipe": dict(run.recipe),
        "trouble": run.trouble,
    }


def in_words(run: Summary) -> str:
    """One run in a few lines."""
    said = [
        ("what", f"{run.folder.kind.value}, {run.state.value}"),
        ("came to", run.said),
        (_COUNTED[run.folder.kind], steps(run)),
        ("score", f"{score_in_words(run)}, {run.scored}" if run.scored else _NONE),
        ("95 % interval", interval(run.ci95) if run.ci95 else _NONE),
        ("time", _NONE if run.seconds is None else duration(run.seconds)),
        *(_of_training(run.folder.path) if run.folder.kind is Kind.TRAIN else []),
        ("can't be read", run.trouble or _NONE),
    ]
    told = [(name, value) for name, value in said if value != _NONE]
    facts = [f"  {name:<17}{shown(value, longest=400)}" for name, value in told]
    recipe = [f"  {shown(key)} = {shown(canonical_json(value), longest=120)}" for key, value in run.recipe.items()]
    return "\n".join([shown(str(run.folder.path), longest=400), *facts, *(["", "recipe", *recipe] if recipe else [])])


def differences(a: Folder, b: Folder) -> list[Difference]:
    """What is not the same in two runs of one kind; raises `AskedWrongly` for two kinds, and for a damaged one."""
    if a.kind is not b.kind:
        raise AskedWrongly(f"{a.path} is a {a.kind.value} run and {b.path} is a {b.kind.value}: name two of one kind")
    of_a, of_b = _PARTS[a.kind](a.path), _PARTS[b.kind](b.path)
    return [
        Difference(part=part, key=key, a=_known(of_a[part], key), b=_known(of_b[part], key))
        for part in of_a
        for key in differing([of_a[part], of_b[part]])
    ]


def difference_lines(found: Sequence[Difference], a: Folder, b: Folder) -> list[str]:
    """The differences as a table."""
    if not found:
        return ["the two differ in nothing that they say of themselves"]
    header = ("", "", f"A  {shown(str(a.path), longest=400)}", f"B  {shown(str(b.path), longest=400)}")
    cells = [(one.part, shown(one.key), _value(one.a), _value(one.b)) for one in found]
    return lines(header, cells)


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cell_len(cell))


def _what_differs(run: Summary, keys: Sequence[str]) -> str:
    if run.folder.kind is Kind.SCORE:
        return run.scored or run.said
    if run.folder.kind is Kind.ATTEMPT:
        return run.said
    return " ".join(f"{key}={_value(run.recipe.get(key, ABSENT))}" for key in keys)


def _value(value: Any) -> str:
    return _NONE if value is ABSENT else shown(value if isinstance(value, str) else canonical_json(value), longest=80)


def _known(values: Mapping[str, Any], key: str) -> Any:
    return values.get(key, ABSENT)


def _of_training(path: Path) -> list[tuple[str, str]]:
    """What only a training run has: its last step, its checkpoints, what it was made of, what it was warned of."""
    told: list[tuple[str, str]] = []
    last = None
    with suppress(OSError):  # said with the run
        last = last_line(path / "metrics.jsonl")
    if last:
        kl, loss = (small(last[name]) if isinstance(last.get(name), float) else _NONE for name in ("kl", "loss"))
        told.append(("last step", f"KL {kl} nats/token, loss {loss}"))
        told += [("warned", warning) for warning in last.get("warnings", ())]
    told.append(("checkpoints", ", ".join(folder.name for _, folder in checkpoints(path)) or _NONE))
    with suppress(OpdError):
        done = read_object(path / "run.json")
        told.append(("machine", ", ".join(f"{key} {value}" for key, value in done["machine"].items())))
        told += [("said", note) for note in done.get("notes", ())]
    return told


def _train_parts(path: Path) -> dict[str, dict[str, Any]]:
    """What a training run was asked, what went in, and what it ran on."""
    done = read_object(path / "run.json") if (path / "run.json").is_file() else {}
    began = read_object(path / "began.json") if (path / "began.json").is_file() else {}
    inputs = {"data": began.get("data", done.get("data")), **flat(began.get("models", {}))}
    return {
        "recipe": flat(read_object(path / "recipe.json")),
        "inputs": {key: value for key, value in inputs.items() if value is not None},
        "machine": flat(done.get("machine", {})),
    }


def _score_parts(path: Path) -> dict[str, dict[str, Any]]:
    """What an evaluation asked, of which model, and what it ran on."""
    name = "score.json" if (path / "score.json").is_file() else "protocol.json"
    said = read_object(path / name)
    return {
        "protocol": flat(said["protocol"]),
        "model": {key: said[key] for key in ("model", "model_digest") if key in said},
        "machine": flat(said.get("machine", {})),
    }


def _attempt_parts(path: Path) -> dict[str, dict[str, Any]]:
    """Who attempted what, and by which install it is judged."""
    return {"identity": flat(read_object(path / "run.json")), "inputs": flat(read_object(path / "inputs.lock.json"))}


_PARTS = {Kind.TRAIN: _train_parts, Kind.SCORE: _score_parts, Kind.ATTEMPT: _attempt_parts}
