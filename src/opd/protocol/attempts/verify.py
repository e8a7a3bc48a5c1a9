"""An attempt read again from its first byte to its last, offline, and held against what was written down.

    sealed folders    every file: path, kind, mode, size, SHA-256; the mark fits the receipt, the log knows it
    the log           every line holds the digest of the one before; the first those of the attempt's own files
    lineage           task → base → explore → patch → checkout → formal → artifact → validation → final
    the rest          nothing lies in an attempt that belongs to nothing

What this can't find: somebody who changes a file and then writes receipt, mark, log, and whatever was made from them,
anew and consistently. Digests that lie beside what they are of say that it is one piece, not who made it. So write
down the log's head elsewhere, on paper or in a report, and give it to `verify(…, head=…)`: then every line up to
there is what it was, and with the lines the receipts, and with the receipts the files.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.protocol.attempts.attempt import BASE, EVENTS, RULINGS, RUN, TASK_LOCK, Attempt
from opd.protocol.attempts.contradictions import contradictions
from opd.protocol.attempts.evidence import Evidence, Log
from opd.protocol.attempts.lease import LEASE, LOCK
from opd.protocol.attempts.lineage import Link, lineage
from opd.protocol.clock import Instant, now
from opd.protocol.inputs import INPUTS_LOCK, MADE
from opd.records.attempts import Stage
from opd.records.errors import AskedWrongly
from opd.records.files import COMPLETE, PARTIAL, sha256
from opd.records.receipts import RECEIPT, Head, Sealed, faults, read_receipt
from opd.records.settings import Settings

CREATED = "created"  # the first event; its `files` hold the digests of what is no sealed folder
_LIVE = frozenset({EVENTS, LEASE, LOCK})  # not founded: the log is its own witness, the lease is of the moment
_SHELVES = frozenset({RULINGS, *(stage.value for stage in Stage if stage is not Stage.SUBMISSION)})
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Checked(Settings):
    """A sealed folder, after every file in it was read."""

    name: str
    """Relative to the attempt."""
    outcome: str | None
    """Null where there is no receipt that can be read."""
    files: NonNegativeInt
    bytes: NonNegativeInt
    faults: tuple[str, ...]


class Verification(Settings):
    """What came of reading everything again."""

    case: str
    folders: tuple[Checked, ...]
    unsealed: tuple[str, ...]
    """What was begun and is not sealed: no fault, and not vouched for."""
    faults: tuple[str, ...]
    """Of what is no sealed folder: the attempt's own files, the log, the head, what belongs to nothing."""
    lineage: tuple[Link, ...]
    contradictions: tuple[str, ...]
    head: Head
    """Of the log, as far as it is whole. Write it down elsewhere: see `verify --head`."""
    bytes: NonNegativeInt
    """Of the files of sealed folders."""
    seconds: NonNegativeFloat

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.all_faults())

    def all_faults(self) -> Iterator[str]:
        """A sentence for whatever is wrong: in sealed folders, in the rest, and between them."""
        for one in self.folders:
            yield from one.faults
        yield from self.faults
        yield from self.contradictions
        yield from (f"{link.name}: {_shown(link)}" for link in self.lineage if not link.holds)

    def text(self) -> str:
        """A line for each folder and link, then all that is wrong, then the head; for people."""
        lines = [_line(one) for one in self.folders]
        lines += [f"{'holds' if link.holds else 'BROKEN':6s}  {link.name}" for link in self.lineage]
        lines += [f"open    {name}: begun, not sealed" for name in self.unsealed]
        lines += [f"WRONG   {fault}" for fault in self.all_faults()]
        speed = self.bytes / self.seconds / 1e6 if self.seconds else 0.0
        lines.append(f"{self.bytes:,} bytes in {self.seconds:.1f} s ({speed:,.0f} MB/s)")
        lines.append(f"log: line {self.head.seq}, {self.head.sha256}")
        lines.append("all holds" if self.holds else "it does not hold")
        return "\n".join(lines)


def founding(folder: Path) -> dict[str, str]:
    """The digests of a new attempt's own files, for its first event: nothing else of them is sealed."""
    names = [RUN, TASK_LOCK, INPUTS_LOCK, f"{BASE}/{RECEIPT}"]
    made = sorted(path for path in (folder / MADE).glob("*") if path.is_file())
    return {name: sha256(folder / name) for name in (*names, *(f"{MADE}/{path.name}" for path in made))}


def verify(attempt: Attempt, *, head: str | None = None) -> Verification:
    """What came of it. Reads every byte once, and holds one file's block and one folder's list in memory.

    `head` is the digest of a line of the log that was written down elsewhere. Raises `AskedWrongly` for one that is
    no digest; whatever is wrong with the attempt itself is said in what comes back.
    """
    if head is not None and not _SHA256.fullmatch(head):
        raise AskedWrongly(f"--head {head!r}: give the 64 hexadecimal digits that `opd attempt verify` printed")
    began, at = time.monotonic(), now()
    evidence = Evidence(attempt, at)
    sealed, unsealed, strays = _shelved(attempt.folder, evidence.log)
    folders = tuple(checked(attempt.folder, name, evidence.log) for name in sealed)
    found = _of_all(attempt, evidence, at)
    return Verification(
        case=found.case,
        folders=folders,
        unsealed=tuple(unsealed),
        faults=(
            *strays,
            *_own_files(attempt.folder, evidence.log),
            *_log(attempt, evidence.log, head),
            *found.faults,
        ),
        lineage=found.lineage,
        contradictions=found.contradictions,
        head=max(evidence.log.heads, key=lambda one: one.seq, default=Head(seq=0, sha256="0" * 64)),
        bytes=sum(one.bytes for one in folders),
        seconds=round(time.monotonic() - began, 3),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfAll:
    """What can be said only of all of it together."""

    case: str
    lineage: tuple[Link, ...] = ()
    contradictions: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def _of_all(attempt: Attempt, evidence: Evidence, at: Instant) -> _OfAll:
    """The case, the links and the contradictions; where the attempt's own files can't be read, that is the fault."""
    try:
        return _OfAll(
            case=attempt.identity.case,
            lineage=tuple(lineage(evidence)),
            contradictions=tuple(contradictions(evidence, at)),
        )
    except AskedWrongly as error:
        return _OfAll(
            case=attempt.folder.name, faults=(f"{error}; so neither lineage nor contradictions can be worked out",)
        )


def _shelved(folder: Path, log: Log) -> tuple[list[str], list[str], list[str]]:
    """The sealed folders and what was begun, by name, and a sentence for all else that lies there."""
    sealed, unsealed, strays = [], [], []
    founded = {*_founded(log), *_LIVE}
    for path in _places(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            strays.append(f"{name} is a link: an attempt holds what it is made of")
        elif name in founded and path.is_file():
            continue
        elif path.name.endswith(PARTIAL) and path.is_dir():
            unsealed.append(name.removesuffix(PARTIAL))
        elif path.is_dir() and name != MADE and (path.parent != folder or (path / RECEIPT).exists() or name == BASE):
            sealed.append(name)
        else:
            strays.append(f"{name} belongs to nothing: the log does not know it, and it is no sealed folder")
    return sealed, unsealed, strays


def _places(folder: Path) -> Iterator[Path]:
    """What lies in the attempt, and in place of a shelf what lies on it."""
    for path in sorted(folder.iterdir()):
        is_shelf = path.name in _SHELVES or (path.name == MADE and any(path.iterdir()))
        if is_shelf and path.is_dir() and not path.is_symlink():
            yield from sorted(path.iterdir())
        else:
            yield path


def checked(folder: Path, name: str, log: Log) -> Checked:
    """One sealed folder of the attempt in `folder`: every byte read again, the receipt one that the log knows."""
    found = list(faults(folder / name, called=name))
    try:
        receipt = read_receipt(folder / name)
    except (AskedWrongly, OSError) as error:
        return Checked(name=name, outcome=None, files=0, bytes=0, faults=(*found, str(error)))
    found += _plain(folder / name, name)
    known = log.sealed | {path.removesuffix(f"/{RECEIPT}"): digest for path, digest in _founded(log).items()}
    if known.get(name) != sha256(folder / name / RECEIPT):
        found.append(f"{name}/{RECEIPT} is not one that the log says was sealed there")
    return Checked(
        name=name,
        outcome=receipt.outcome,
        files=len(receipt.files),
        bytes=sum(entry.bytes for entry in receipt.files),
        faults=tuple(found),
    )


def _plain(folder: Path, called: str) -> Iterator[str]:
    """What no receipt can say of itself and of its mark: that they are plain files, byte for byte as written."""
    for name in (RECEIPT, COMPLETE):
        if (folder / name).is_symlink() or not (folder / name).is_file():
            yield f"{called}/{name} is no plain file"
            return
    mark = Sealed(kind=read_receipt(folder).kind, receipt_sha256=sha256(folder / RECEIPT))
    as_written = json.dumps(mark.resolved(), indent=2, ensure_ascii=False) + "\n"
    if (folder / COMPLETE).read_text(encoding="utf-8", errors="replace") != as_written:
        yield f"{called}/{COMPLETE} is not as it was written"


def _founded(log: Log) -> dict[str, str]:
    """The digests that the first event holds."""
    first = log.events[0] if log.events else None
    files = first.data.get("files") if first and first.kind == CREATED else None
    return {str(name): str(digest) for name, digest in files.items()} if isinstance(files, dict) else {}


def _own_files(folder: Path, log: Log) -> Iterator[str]:
    founded = _founded(log)
    for name in (RUN, TASK_LOCK, INPUTS_LOCK, f"{BASE}/{RECEIPT}"):
        if name not in founded:
            yield f"{name}: the log's first line does not say its digest"
    for name, digest in founded.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            yield f"{name} is gone, or no plain file"
        elif sha256(path) != digest:
            yield f"{name} is not as it was when the attempt was made"


def _log(attempt: Attempt, log: Log, head: str | None) -> Iterator[str]:
    path = attempt.folder / EVENTS
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        yield f"{EVENTS} ends in the midst of a line; a crash leaves that, and `opd attempt resume` mends it"
    if head is not None and head not in {one.sha256 for one in log.heads}:
        yield f"the log does not pass through {head[:12]}…, which was written down elsewhere: it is another log"


def _line(one: Checked) -> str:
    word = "WRONG" if one.faults else "whole"
    return f"{word:6s}  {one.name}: {one.outcome or 'no receipt'}, {one.files:,} entries, {one.bytes:,} bytes"


def _shown(link: Link) -> str:
    return f"{link.said[:12]}… was said, {f'{link.found[:12]}…' if link.found else 'nothing'} is there"
