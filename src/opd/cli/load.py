"""`opd load`: does a directory load, for everybody, as the model that it should be?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.records.checkpoints import Loaded


@click.command(
    epilog=examples(
        "opd load runs/first/checkpoint-120 --like models/student",
        "opd load runs/first/checkpoint-120 --json | jq .valid",
    )
)
@click.argument("directory", type=UserPath())
@click.option("--like", type=UserPath(), metavar="DIR", help="A model of the same shape, such as the start.")
@JSON
@click.option("--out", type=UserPath(), metavar="FILE", help="Write the JSON object to this new file, too.")
def load(directory: Path, like: Path | None, as_json: bool, out: Path | None) -> None:
    """Load DIRECTORY as everybody does, and make one forward pass.

    Parameters, tensors that are missing or not used, finite weights and logits, the tokenizer there and back; no
    code of the directory is run. Exit code 1: it is not what it should be, and each fault is named.
    """
    from opd.models.validation import validate
    from opd.records.errors import AnswerIsNo, AskedWrongly
    from opd.records.files import canonical_json, check_writable, write_json

    if out is not None:
        if out.exists():
            raise AskedWrongly(f"{out} exists already and is never overwritten; name another --out")
        check_writable(out.parent)
    loaded = validate(directory, like=like)
    if out is not None:
        write_json(out, loaded.resolved())
    click.echo(canonical_json(loaded.resolved()) if as_json else _said(loaded))
    if not loaded.valid:
        raise AnswerIsNo(f"{directory} is not what it should be: {'; '.join(loaded.faults)}")


def _said(loaded: "Loaded") -> str:
    if loaded.parameters is None:
        return "no model"
    finite = "finite logits" if loaded.finite_logits else "no finite logits"
    return (
        f"{loaded.parameters:,} parameters, {loaded.dtype}; {finite} of {loaded.vocabulary or 0:,} ids over "
        f"{loaded.tokens} tokens; {loaded.seconds:.1f} s"
    )
