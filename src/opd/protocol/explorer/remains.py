"""What an exploration's runs left behind: digested, and of the weights nothing kept.

A formal run starts from the fixed student. So that nothing else can get into it, weights of exploration end with the
exploration; their digests stay, and can be looked for.
"""

import shutil
from pathlib import Path

from opd.protocol.attempts.taming import tame
from opd.protocol.patches.contents import names_weights
from opd.records.files import append_lines
from opd.records.trees import Kind, entries, meant

KEPT_BYTES = 1 << 20  # of one file


def close(runs: Path, listing: Path) -> None:
    """`listing` has a line for everything that lay in `runs`; there only small files that are no weights are left."""
    tame(runs)
    found = entries(runs)
    lines = []
    for one in found:
        path = runs / meant(one.path)
        gone = (
            one.kind is Kind.OTHER
            or one.kind is Kind.LINK
            or (one.kind is Kind.FILE and (one.bytes > KEPT_BYTES or names_weights(one.path)))
        )
        if gone:
            path.unlink(missing_ok=True)
        lines.append({**one.resolved(), "kept": not gone})
    append_lines(listing, lines)
    if not any(line["kept"] and line["kind"] == Kind.FILE for line in lines):
        shutil.rmtree(runs)
