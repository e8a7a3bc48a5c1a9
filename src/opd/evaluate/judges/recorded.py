"""Recorded replies: a file that a judge adds to, and the judge that only reads such a file.

    {"key": "5d41…", "judge": {"name": "CompassVerifier-3B", "model_digest": "9a…", …}, "reply": "A",
     "verdict": "correct", "parsed": "strict"}

The reply is what counts: verdict and parsing are read from it again, and a line in which they differ is refused.
Only replies that could be read are recorded, so that a failure is asked again. All lines are of one judge.
"""

from collections.abc import Sequence
from pathlib import Path

from opd.evaluate.judges.exchange import Asked, JudgeModel, NoReply, Reply
from opd.evaluate.judges.reply import Reading, Unread, read_reply, verdict_of
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import append_lines, check_writable, drop_torn_line, read_lines
from opd.records.scores import Parsed, Verdict
from opd.records.settings import Settings, validated

_BEGINS = b'{"key": "'  # every line


class RecordedReply(Settings):
    """A line of a recording."""

    key: str
    """SHA-256 over question, gold, answer part and the template's digest."""
    judge: JudgeModel
    reply: str
    verdict: Verdict
    """What the reply was read as."""
    parsed: Parsed
    """How it was read."""


class Recording:
    """A recording that grows: what stands in it is not asked again."""

    def __init__(self, file: str, *, judge: JudgeModel) -> None:
        self._path = Path(file).expanduser()
        self._judge = judge
        check_writable(self._path.parent)
        _check_is_ours(self._path)
        drop_torn_line(self._path)
        self._replies = read_recording(self._path) if self._path.exists() else {}
        if others := {line.judge.name for line in self._replies.values() if line.judge != judge}:
            raise AskedWrongly(
                f"{file} holds replies of {', '.join(sorted(others))}, which is another judge or the same with other "
                "settings; name a new file"
            )

    def find(self, key: str) -> Reply | None:
        """The reply that is recorded under a key."""
        line = self._replies.get(key)
        return None if line is None else Reply(text=line.reply)

    def add(self, readings: Sequence[tuple[str, Reply, Reading]]) -> None:
        """The replies stand in the file when this returns."""
        lines = [
            RecordedReply(
                key=key,
                judge=self._judge,
                reply=reply.text,
                verdict=verdict_of(reading.label),
                parsed=reading.parsed,
            )
            for key, reply, reading in readings
            if key not in self._replies
        ]
        if lines:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            append_lines(self._path, [line.resolved() for line in lines])
            self._replies |= {line.key: line for line in lines}


class RecordedBackend:
    """Replies out of a file, and nothing else: a turn that was not recorded has no reply."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._replies = read_recording(Path(file).expanduser())
        judges = {line.judge for line in self._replies.values()}
        if len(judges) != 1:
            raise AskedWrongly(f"{file} holds the replies of {len(judges)} judges; a replay needs those of one")
        (self._model,) = judges

    @property
    def model(self) -> JudgeModel:
        """Who replied when this was recorded."""
        return self._model

    def replies(self, turns: Sequence[Asked]) -> list[Reply | NoReply]:
        """What was recorded for each turn."""
        return [
            Reply(text=line.reply)
            if (line := self._replies.get(asked.key))
            else NoReply(reason=f"{self._file} holds no reply to this question, gold, answer and template")
            for asked in turns
        ]

    def close(self) -> None:
        """Nothing is open."""


def read_recording(path: Path) -> dict[str, RecordedReply]:
    """The lines of a recording by their keys.

    Raises `AnswerIsNo` for a line whose reply does not say what its verdict says, `AskedWrongly` for two different
    replies under one key.
    """
    lines: dict[str, RecordedReply] = {}
    for number, values in enumerate(read_lines(path), start=1):
        place = f"{path}, line {number}"
        line = validated(RecordedReply, values, source=place)
        _check(line, place=place)
        if lines.setdefault(line.key, line) != line:
            raise AskedWrongly(f"{place}: another reply to the same question, gold and answer stands before it")
    return lines


def _check_is_ours(path: Path) -> None:
    """Nothing, when a last line without an end can be a torn one of a recording; nobody else's is cut off."""
    if not path.exists():
        return
    if not path.is_file():
        raise AskedWrongly(f"{path} is not a file; name another place for the recording")
    torn = path.read_bytes().rpartition(b"\n")[2]
    if not torn.startswith(_BEGINS[: len(torn)]):
        raise AskedWrongly(f"{path} ends in something that is no recorded reply; name a new file")


def _check(line: RecordedReply, *, place: str) -> None:
    reading = read_reply(Reply(text=line.reply))
    if isinstance(reading, Unread):
        raise AnswerIsNo(f"{place}: {reading.reason}; the line was changed")
    says = (verdict_of(reading.label), reading.parsed)
    if says != (line.verdict, line.parsed):
        raise AnswerIsNo(
            f"{place}: the reply reads as {says[0]} ({says[1]}), the line says {line.verdict} ({line.parsed}); "
            "one of the two was changed"
        )
