"""`note`: the explorer's own words, for the record. Why it tries something, and what it makes of a result.

A report quotes them, marked as quotes; nothing is decided by them. They cost no time of the device, and their line of
desk.jsonl is all that is kept.
"""

from opd.protocol.explorer.desk import Question, Say
from opd.records.errors import AskedWrongly

LONGEST = 4_000  # characters of a note: a paragraph or two, not a log
LONGEST_NAME = 1_000  # of the run that it is about


def take_note(question: Question, say: Say) -> int:
    """0: it stands in the record. Raises `AskedWrongly` for one that says nothing, or too much."""
    text, about = question.arguments.get("text"), question.arguments.get("about")
    if not isinstance(text, str) or not text.strip():
        raise AskedWrongly('say what is to be noted: note "TEXT"')
    if len(text) > LONGEST:
        raise AskedWrongly(f"a note has at most {LONGEST:,} characters, and this one {len(text):,}: divide it")
    if about is not None and (not isinstance(about, str) or not about.strip() or len(about) > LONGEST_NAME):
        raise AskedWrongly(
            f"--about names a run, in at most {LONGEST_NAME:,} characters: a folder, or a proxy's number"
        )
    say("noted")
    return 0
