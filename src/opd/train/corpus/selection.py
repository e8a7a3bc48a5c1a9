"""The files that a selection of rows leaves: what stays, what was removed and why, and what it was made from.

clean.jsonl                  the rows that stay, as they stood and in their order; .parquet writes parquet
clean.removed.jsonl          a line for each row that went, with the reason
clean.report.json            source files and digests, settings and their digest, counts; written last
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly
from opd.records.files import sha256, write_json
from opd.records.settings import Settings
from opd.train.corpus.problems import Corpus
from opd.train.prompts.rows import write_rows


def beside(out: Path, what: str) -> Path:
    """`clean.removed.jsonl` for `clean.jsonl` and "removed.jsonl"."""
    return out.with_name(f"{out.stem}.{what}")


def check_new(out: Path, *also: str) -> None:
    """Nothing, when neither the file nor what would stand beside it is there; else `AskedWrongly`."""
    for path in (
        out,
        beside(out, "removed.jsonl"),
        beside(out, "report.json"),
        *(beside(out, what) for what in also),
    ):
        if path.exists():
            raise AskedWrongly(f"{path} exists already and is never overwritten; name another --out")


def write_selection(
    out: Path,
    source: Corpus,
    *,
    kept: Sequence[int],
    removed: Sequence[Mapping[str, Any]],
    settings: Settings,
    against: Sequence[Corpus] = (),
    findings: Mapping[str, Any],
) -> None:
    """Writes the three files, each whole or not at all; `kept` are places in the source.

    Raises `AskedWrongly` when one of them is there, or a row does not fit the form.
    """
    check_new(out)
    write_rows(beside(out, "removed.jsonl"), removed)
    write_rows(out, [source.rows[place] for place in kept])
    write_json(
        beside(out, "report.json"),
        {
            "source": provenance(source),
            "against": [provenance(corpus) for corpus in against],
            "settings": settings.resolved(),
            "settings_digest": settings.digest,
            "out": {"file": out.name, "sha256": sha256(out), "rows": len(kept)},
            "removed_rows": len(source.rows) - len(kept),
            **findings,
        },
    )


def provenance(corpus: Corpus) -> dict[str, Any]:
    """A file by name, digest and rows, and where its problems were read from."""
    return {
        "file": corpus.path.name,
        "sha256": sha256(corpus.path),
        "rows": len(corpus.rows),
        "read_from": corpus.fields.resolved(),
    }
