"""An attempt in full: its tries with their receipts, its device second by second, its audits and its reports.

Where it stands is worked out by the install's `opd attempt status`: a view has no rules of the protocol. What an
explorer or a candidate wrote is a claim, and shown as such.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from opd.records.attempts import Stage
from opd.records.files import COMPLETE, PARTIAL
from opd.view.runs.folders import STAGES, Kind
from opd.view.runs.ongoing import Ongoing, ongoing
from opd.view.server.answers import Gone, Unreadable
from opd.view.server.columns import Columns, bucketed, read_columns
from opd.view.server.entries import Entry
from opd.view.server.files import MOST_BYTES, object_or_none, page_of_lines, read_object, shortened
from opd.view.server.index import Index
from opd.view.server.lines import lines_from, object_in, opened
from opd.view.server.places import Place
from opd.view.server.programs import WAITING, Programs, Said
from opd.view.server.rows import Links, row
from opd.view.server.shelf import Shelf

_TRY = re.compile(rf"submission(?:\.partial)?|(?:{'|'.join(STAGES)})/[\w-]+(?:\.partial)?", re.ASCII)
_ROLES = {"explore": "exploration", "formal": "formal", "final": "final"}
_KEPT = 32
_TRIES_KEPT = 1_000
_DESK_SHOWN = 500


class Attempts:
    """What is said of an attempt."""

    def __init__(self, index: Index, programs: Programs) -> None:
        self._index = index
        self._programs = programs
        self._status: Shelf[Said] = Shelf(_KEPT, waiting=WAITING)
        self._devices: Shelf[Columns] = Shelf(_KEPT)
        self._tries: Shelf[dict[str, Any]] = Shelf(_TRIES_KEPT)

    def whole(self, entry: Entry, links: Links) -> dict[str, Any]:
        """The page of an attempt, but for where it stands and what lies in its files."""
        place = entry.place
        names = [name for name in tries_in(place) if _TRY.fullmatch(name)]
        task = (object_or_none(place.at("task.lock.json")) or {}).get("task")
        at_work = _at_work(place)
        reports = [name for name in names if name.startswith("report/") and is_sealed(place.at(name))]
        return {
            "row": row(entry, links),
            "identity": shortened(object_or_none(place.at("run.json"))),
            "task": {name: shortened(task.get(name)) for name in ("name", "description")}
            if isinstance(task, Mapping)
            else None,
            "tries": [_timed(self._try(place, name), at_work) for name in names],
            "parts": [_part(entry, one) for one in self._index.parts(entry)],
            "reports": [_report(entry, name) for name in reports],
            "audits": [name for name in names if name.startswith("audit/") and is_sealed(place.at(name))],
            "events": _head(place),
            "trouble": [why for name in (*STAGES, "events.jsonl") if (why := place.at(name).why_closed())],
        }

    def _try(self, attempt: Place, name: str) -> dict[str, Any]:
        """A try; its receipt, which may name many files, is read again only when it or its mark is another."""
        folder = attempt.at(name)
        state = tuple(folder.at(file).stamp() for file in (COMPLETE, "receipt.json", "outcome.json"))
        return self._tries.get(folder, state, lambda _: _try(attempt, name))

    def status(self, entry: Entry) -> dict[str, Any]:
        """Where it stands, as the install works it out from its files."""
        arguments = ("attempt", "status", "--json", "--", str(entry.place.path))
        state = (entry.signature, entry.summary.state)
        said = self._status.get(entry.id, state, lambda _: self._programs.ask(*arguments))
        return {"status": said.value, "missing": said.missing}

    def log(self, entry: Entry, *, offset: int, limit: int) -> dict[str, Any]:
        """Lines of events.jsonl."""
        return page_of_lines(entry.place.at("events.jsonl"), offset=offset, limit=limit)

    def receipt(self, entry: Entry, name: str, *, offset: int, limit: int) -> dict[str, Any]:
        """The receipt of a try with some of the files that it names."""
        folder = folder_of(entry, name)
        receipt, liveness = _sealed(folder)
        if receipt is None:
            return {"receipt": None, "files": None, "missing": f"{name} is {liveness}: it has no receipt that counts"}
        files = receipt.pop("files")
        return {
            "receipt": shortened(receipt),
            "files": {
                "total": len(files),
                "bytes": _bytes(files),
                "offset": offset,
                "rows": shortened(files[offset : offset + limit]),
            },
            "missing": None,
        }

    def device(self, entry: Entry, name: str, *, points: int) -> dict[str, Any]:
        """What an exploration's device did, second by second, in so many buckets."""
        place = folder_of(entry, name).at("device.jsonl")
        stamp = place.stamp()
        if stamp is None:
            raise Gone(f"{name} has no device.jsonl: only explorations have one")
        columns = self._devices.get(place, stamp, lambda before: read_columns(place, before, key=_second))
        begin = float(columns.keys[0]) if len(columns.keys) else 0.0
        shown = Columns(
            keys=columns.keys - begin, values=columns.values, passed_over=columns.passed_over, mark=columns.mark
        )
        names = [one for one in columns.values if one != "monotonic"]
        return {
            "began_utc": _first_utc(place),
            "seconds": float(shown.keys[-1]) if len(shown.keys) else 0.0,
            **bucketed(shown, names, most=points),
            "passed_over": columns.passed_over,
        }

    def desk(self, entry: Entry, name: str) -> dict[str, Any]:
        """What the explorer asked, and was told."""
        found = page_of_lines(folder_of(entry, name).at("desk.jsonl"), offset=0, limit=_DESK_SHOWN)
        return {"rows": found["rows"], "total": found["total"]}

    def audit(self, entry: Entry, name: str) -> dict[str, Any]:
        """What an audit found."""
        folder = folder_of(entry, name)
        if not is_sealed(folder):
            return {"audit": None, "missing": f"{name} is not sealed: an audit counts when it is"}
        return {"audit": shortened(read_object(folder.at("outcome.json"))), "missing": None}


def tries_in(attempt: Place) -> list[str]:
    """The names of the folders that stages filled or are filling, stage by stage."""
    found: list[str] = []
    for stage in STAGES:
        if stage == Stage.SUBMISSION:
            here = attempt.names()
            found += [name for name in (stage, f"{stage}{PARTIAL}") if name in here]
        else:
            found += [f"{stage}/{name}" for name in attempt.at(stage).names()]
    return found


def folder_of(entry: Entry, name: str) -> Place:
    """The folder of a try; raises `Gone` for a name that is none of this attempt's."""
    if entry.kind is not Kind.ATTEMPT or not _TRY.fullmatch(name) or name not in tries_in(entry.place):
        raise Gone(f"{entry.name} has no try {name[:60]!a}")
    return entry.place.at(name)


def _sealed(folder: Place) -> tuple[dict[str, Any] | None, str]:
    """The receipt of a folder with the word for its state; None where there is none that its mark fits."""
    mark = object_or_none(folder.at(COMPLETE))
    if mark is None and (folder.at(COMPLETE).stamp() or folder.at(COMPLETE).why_closed()):
        return None, "damaged"
    if mark is None:
        return None, "filling" if folder.inside.name.endswith(PARTIAL) else "unmarked"
    try:
        data = folder.at("receipt.json").read(most=MOST_BYTES)
        receipt = read_object(folder.at("receipt.json"))
    except (Gone, Unreadable):
        return None, "damaged"
    fits = mark.get("receipt_sha256") == hashlib.sha256(data).hexdigest()
    return (receipt, "sealed") if fits and isinstance(receipt.get("files"), list) else (None, "damaged")


def is_sealed(folder: Place) -> bool:
    """Whether its mark is there and fits its receipt; the other files are not read."""
    return _sealed(folder)[0] is not None


def _try(attempt: Place, name: str) -> dict[str, Any]:
    folder = attempt.at(name)
    found, liveness = _sealed(folder)
    receipt = found or {}
    files = receipt.get("files", [])
    outcome = shortened(object_or_none(folder.at("outcome.json"))) if receipt else None
    return {
        "name": name.removesuffix(PARTIAL),
        "folder": name,
        "stage": name.partition("/")[0].removesuffix(PARTIAL),
        "liveness": liveness,
        **{
            field: shortened(receipt.get(field))
            for field in ("outcome", "because", "began_utc", "ended_utc", "active_seconds")
        },
        "made_from": shortened(receipt.get("made_from")),
        "files": len(files),
        "bytes": _bytes(files),
        "outcome_json": outcome,
    }


def _at_work(attempt: Place) -> dict[str, Ongoing]:
    """When each try began and how long it was at work, as the events and the lease have it."""
    heard = (object_or_none(attempt.at("lease.json")) or {}).get("heard")
    try:
        with opened(attempt.at("events.jsonl")) as file:
            lines = [value for _, line in lines_from(file, 0) if (value := object_in(line)) is not None]
    except (Gone, Unreadable):
        return {}
    return ongoing(lines, heard if isinstance(heard, Mapping) else None)


def _timed(one: dict[str, Any], at_work: Mapping[str, Ongoing]) -> dict[str, Any]:
    """A try that is being filled with its time so far; what is sealed has it from its receipt."""
    known = at_work.get(one["name"])
    if one["liveness"] != "filling" or known is None:
        return one
    return one | {"began_utc": known.began_utc, "active_seconds": known.seconds}


def _bytes(files: list[Any]) -> int:
    sizes = (one.get("bytes") for one in files if isinstance(one, Mapping))
    return sum(size for size in sizes if isinstance(size, int))


def _part(attempt: Entry, part: Entry) -> dict[str, Any]:
    """A run inside of an attempt, and what it is to it."""
    stage, name, folder, *_ = part.place.inside.relative_to(attempt.place.inside).parts
    line = part.summary
    return {
        "id": part.id,
        "kind": part.kind.value,
        "name": part.name,
        "role": "proxy" if folder == "proxy" else _ROLES[stage],
        "try": f"{stage}/{name}",
        **{field: getattr(line, field) for field in ("said", "step", "asked", "mean", "stderr", "ci95", "seconds")},
        "state": line.state.value,
    }


def _report(entry: Entry, name: str) -> dict[str, Any]:
    folder = entry.place.at(name)
    rendered = object_or_none(folder.at("outcome.json")) or {}
    files = [one for one in rendered.get("files", []) if isinstance(one, str)]
    stamps = [(one, folder.at(one).stamp()) for one in files if ".." not in one and not one.startswith("/")]
    base = f"/reports/{entry.id}/{name}"
    return {
        "try": name,
        "url": f"{base}/index.html" if folder.at("index.html").stamp() else None,
        "files": [{"name": one, "url": f"{base}/{one}", "bytes": stamp.size} for one, stamp in stamps if stamp],
    }


def _head(attempt: Place) -> dict[str, Any]:
    """How many lines the log has, and the digest of the last, which `opd attempt verify --head` takes."""
    count, last = 0, b""
    try:
        with opened(attempt.at("events.jsonl")) as file:
            for _, line in lines_from(file, 0):
                count, last = count + 1, line or b""
    except (Gone, Unreadable):
        pass
    return {"count": count, "head_sha256": hashlib.sha256(last.rstrip(b"\n")).hexdigest() if last else None}


def _first_utc(place: Place) -> str | None:
    rows = page_of_lines(place, offset=0, limit=1)["rows"]
    return rows[0].get("utc") if rows and rows[0] else None


def _second(line: Mapping[str, Any]) -> float | None:
    """When a line was written, by the clock that stands still while the machine sleeps."""
    at = line.get("monotonic")
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at < 1e12 else None
