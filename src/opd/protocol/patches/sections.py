"""A patch as the list of what it says it does: for each path the modes and the ids of before and after.

Only the form that `git diff --binary --full-index --no-renames` writes is read, to the last byte; what git would
forgive (text in between, other line ends, short ids, renames) is refused. Whether the patch does what it says is then
seen by applying it: see `patch.apply`.

    diff --git a/src/a.py b/src/a.py     the path, twice the same
    old mode 100644                      modes, when they change; or `new file mode`, or `deleted file mode`
    new mode 100755
    index 4c1f…9c..9ae0…17               full ids, when the content changes; then the mode, when it does not
    --- a/src/a.py                       and hunks, or `GIT binary patch`
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from opd.protocol.patches.objects import NO_MODE, Change
from opd.protocol.patches.refusals import Refusal, Refused, Rule

_BEGINNING = re.compile(rb"^diff --git ", re.MULTILINE)  # a line of a hunk has a mark before it, base 85 no blank
_HEADER = re.compile(
    rb"""diff\ --git\ (?P<names>[^\n]*)\n
    (?: old\ mode\ (?P<old>\d{6})\n new\ mode\ (?P<new>\d{6})\n
      | new\ file\ mode\ (?P<added>\d{6})\n
      | deleted\ file\ mode\ (?P<deleted>\d{6})\n )?
    (?: index\ (?P<old_id>[0-9a-f]{40})\.\.(?P<new_id>[0-9a-f]{40}) (?:\ (?P<kept>\d{6}))? \n )?
    (?: ---\ [^\n]*\n \+\+\+\ [^\n]*\n (?=@@\ ) | (?P<binary>GIT\ binary\ patch\n) | \Z )""",
    re.VERBOSE,
)
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")
_NO_END = b"\\ No newline at end of file"
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_MAKE_IT = "make it with git diff --binary --full-index --no-renames, and hand on the bytes that git wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What a patch says about one path."""

    change: Change
    """Ids are empty where the content stays."""
    is_binary: bool


def sections_of(patch: bytes) -> tuple[Section, ...]:
    """What a patch says, path by path; raises `Refused` for one that is not in git's own form."""
    starts = [found.start() for found in _BEGINNING.finditer(patch)]
    if b"\r\n" in patch[: patch.find(b"\n") + 1]:
        _refuse(Rule.TRANSPORT, "its own lines end with CR LF, so that it was sent as text and not as bytes")
    if not starts or starts[0] != 0:
        _refuse(Rule.FORM, f"it begins with {patch[:40]!r}, and not with `diff --git`")
    if not patch.endswith(b"\n"):
        _refuse(Rule.TRANSPORT, "its last line has no end, so that it was cut off, or stripped as a text")
    return tuple(_section(patch[start:end]) for start, end in zip(starts, [*starts[1:], len(patch)], strict=True))


def _section(text: bytes) -> Section:
    found = _HEADER.match(text)
    first = text[: text.find(b"\n")].decode("utf-8", "backslashreplace")
    if found is None:
        _refuse(Rule.FORM, f"behind `{first}` there are not the lines that git writes")
    path = _path(found["names"])
    if path is None:
        _refuse(Rule.FORM, f"`{first}` names two paths; a file that moves is one that goes and one that comes")
    if not found["binary"]:
        _check_hunks(text[found.end() :], first)
    old_mode, new_mode = _modes(found)
    change = Change(
        path=path,
        old_mode=old_mode,
        new_mode=new_mode,
        old_id=(found["old_id"] or b"").decode(),
        new_id=(found["new_id"] or b"").decode(),
    )
    return Section(change=change, is_binary=found["binary"] is not None)


def _check_hunks(body: bytes, first: str) -> None:
    """Nothing, when every hunk has as many lines as it says, and there are no others."""
    old = new = 0  # lines that the hunk at hand still has of before and of after
    for line in body.split(b"\n")[:-1]:
        mark = line[:1]
        if (old and mark in {b" ", b"-"}) or (new and mark in {b" ", b"+"}):
            old, new = old - (mark != b"+"), new - (mark != b"-")
        elif not old and not new and (hunk := _HUNK.fullmatch(line)):
            old, new = (int(count or 1) for count in hunk.groups())
        elif line != _NO_END:
            _refuse(Rule.FORM, f"behind `{first}` there is a line of no hunk: {line[:40]!r}")
    if old or new:
        short = f"a hunk ends {max(old, new)} lines too early"
        _refuse(Rule.TRANSPORT, f"behind `{first}` {short}, so that it was cut off")


def _modes(found: re.Match[bytes]) -> tuple[str, str]:
    """Before and after; both `NO_MODE` where the section says none, which no change has."""
    if found["added"]:
        return NO_MODE, found["added"].decode()
    if found["deleted"]:
        return found["deleted"].decode(), NO_MODE
    none = NO_MODE.encode()
    old, new = found["old"] or found["kept"] or none, found["new"] or found["kept"] or none
    return old.decode(), new.decode()


def _path(names: bytes) -> bytes | None:
    """The path of `a/x b/x` or `"a/x" "b/x"`; none where there are two."""
    middle = len(names) // 2
    old, blank, new = names[:middle], names[middle : middle + 1], names[middle + 1 :]
    if old.startswith(b'"') and old.endswith(b'"') and new.startswith(b'"') and new.endswith(b'"'):
        old, new = (_ESCAPE.sub(_unescaped, name[1:-1]) for name in (old, new))
    if blank != b" " or not old.startswith(b"a/") or not new.startswith(b"b/") or old[2:] != new[2:]:
        return None
    return old[2:]


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPES.get(code, code)


def _refuse(rule: Rule, found: str) -> NoReturn:
    raise Refused([Refusal(path="", rule=rule, found=f"the patch: {found}", remedy=_MAKE_IT)])
