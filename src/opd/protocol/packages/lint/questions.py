"""What the files at hand say of a task: whether they are the pinned ones, and whether a question of the final stands
where the explorer can read it.

A question is looked for as its letters and digits alone, so that line breaks, spacing and mark-up hide nothing; one
that is too short for that, such as a sum, by its characters without the blanks.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opd.protocol.packages.lint.findings import Finding, Rule
from opd.protocol.packages.lint.lines import Place
from opd.protocol.packages.lint.rules import Finder
from opd.protocol.packages.problems import chosen
from opd.records.errors import AskedWrongly
from opd.records.fields import users_turn, value_in
from opd.records.files import digest, sha256, tree
from opd.records.places import SHIPPED, locate
from opd.records.tasks import Contract

SHORTEST_FOLDED = 60  # characters; what is shorter is also a phrase of other problems
_NO_WORD = re.compile(r"[\W_]+")
_FIELDS = ("problem", "question", "prompt")


def at_hand(source: str, data: Path | None = None) -> Path | None:
    """Where a file or folder lies: in the package, below `data`, as its path says, or below `data/`; or None."""
    if source.startswith(SHIPPED):
        try:
            return locate(source)
        except AskedWrongly:
            return None
    name = Path(source).name
    places = [*([data / name] if data else []), Path(source).expanduser(), Path("data") / name]
    return next((place for place in places if place.exists()), None)


def judge_inputs(contract: Contract, finder: Finder, data: Path | None) -> Iterator[Finding | str]:
    """A finding for each input at hand that is not the pinned one, and a sentence for each that is not at hand."""
    for role in ("student", "teacher", "verifier"):
        one = getattr(contract, role)
        if one is None or one.files_sha256 is None:
            continue
        path = at_hand(one.source, data)
        if path is None:
            yield f"the {role} {one.source} is not at hand: its digest was not checked"
        elif (found := digest(tree(path))) != one.files_sha256:
            message = f"the {role} {one.source} has digest {found[:12]}…, and the task pins {one.files_sha256[:12]}…"
            yield finder.about(Rule.ANOTHER_INPUT, message, role, "files_sha256")
    files: dict[Place, tuple[str, str]] = {("data",): (contract.data.source, contract.data.sha256)}
    for role in ("proxy", "final"):
        for number, file in enumerate(getattr(contract, role).files):
            files[role, "files", number] = (file.source, file.sha256)
    for place, (source, pinned) in files.items():
        path = at_hand(source, data)
        if path is None:
            yield f"{source} is not at hand: neither its digest nor what it asks was checked"
        elif (found := sha256(path)) != pinned:
            message = f"{path} has SHA-256 {found[:12]}…, and the task pins {pinned[:12]}…; bring that file"
            yield finder.about(Rule.ANOTHER_INPUT, message, *place, "sha256")


def judge_leaks(contract: Contract, texts: Mapping[str, str], finder: Finder, data: Path | None) -> Iterator[Finding]:
    """A finding for each text, by its path, that holds questions of the final, and for proxy and data that do."""
    final = {_needle(problem) for file in contract.final.files for problem in _problems(file.source, {}, data)}
    if not final:
        return
    everything = _Text("\n".join(texts.values()))
    suspects = [needle for needle in final if everything.holds(needle)]  # one look at all, since most hold nothing
    for path, text in texts.items() if suspects else ():
        looked_at = _Text(text)
        if held := sum(map(looked_at.holds, suspects)):
            yield Finding(rule=Rule.HOLDS_FINAL_QUESTIONS, path=path, message=_message(held, len(final)))
    others: dict[Place, list[tuple[str, dict[str, str]]]] = {
        ("proxy", "files"): [(file.source, {}) for file in contract.proxy.files],
        ("data", "source"): [(contract.data.source, contract.data.where)],
    }
    for place, files in others.items():
        asked = {_needle(problem) for source, where in files for problem in _problems(source, where, data)}
        if held := len(asked & final):
            rule = Rule.SAME_QUESTIONS if place[0] == "proxy" else Rule.HOLDS_FINAL_QUESTIONS
            yield finder.about(rule, _message(held, len(final)), *place)


@dataclass(frozen=True, slots=True)
class _Needle:
    """A problem as it is looked for."""

    text: str
    is_folded: bool


class _Text:
    """A text in the two forms in which needles are looked for."""

    def __init__(self, text: str) -> None:
        plain = _plain(text)
        self._folded, self._squeezed = _NO_WORD.sub("", plain), "".join(plain.split())

    def holds(self, needle: _Needle) -> bool:
        """Whether the needle stands in it."""
        return needle.text in (self._folded if needle.is_folded else self._squeezed)


def _needle(problem: str) -> _Needle:
    plain = _plain(problem)
    folded = _NO_WORD.sub("", plain)
    is_folded = len(folded) >= SHORTEST_FOLDED
    return _Needle(folded if is_folded else "".join(plain.split()), is_folded)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _message(held: int, of: int) -> str:
    return f"{held:,} of the final's {of:,} questions stand in it; take them out, or ask others"


def _problems(source: str, where: Mapping[str, str], data: Path | None) -> Iterator[str]:
    """The problems of a JSON Lines file, where it is at hand; nothing of other files."""
    path = at_hand(source, data)
    if path is None or not path.is_file() or path.suffix != ".jsonl":
        return
    for line in chosen(path, where):
        row = json.loads(line) if line.strip() else {}
        found = next((text for name in _FIELDS if (text := users_turn(value_in(row, name)))), None)
        if found is not None:
            yield found
