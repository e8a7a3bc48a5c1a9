"""What the program of a formal try may open, and what it must not: beside this, its opened files are held."""

from pathlib import Path, PurePosixPath

from opd.protocol.inputs import Inputs
from opd.protocol.openings.opened import Kind, Place, system_places
from opd.protocol.phases import STUDENT, TEACHER, WORKSPACE, data_place
from opd.protocol.sandbox.view import View
from opd.protocol.views import SCRATCH
from opd.records.attempts import Stage
from opd.records.tasks import Contract


def declared_places(
    contract: Contract, inputs: Inputs, view: View, *, attempt: Path, checkout: Path, output: PurePosixPath
) -> list[Place]:
    """The places, of which the inner says what a file is; `output` is where checkpoints go, below the checkout."""
    shown = {"student": STUDENT, "teacher": TEACHER, "data": data_place(contract)}
    return [
        *system_places(),
        *(Place(kind=Kind.INPUT, role=role, host=inputs.path(role), inside=at) for role, at in shown.items()),
        Place(kind=Kind.FORBIDDEN, role="home", host=Path.home()),
        Place(kind=Kind.FORBIDDEN, role="other attempts", host=attempt.parent),
        Place(kind=Kind.FORBIDDEN, role="exploration", host=attempt / Stage.EXPLORE),
        Place(kind=Kind.CHECKOUT, role="checkout", host=checkout, inside=WORKSPACE),
        Place(kind=Kind.OUTPUT, role="checkpoints", host=checkout / output, inside=WORKSPACE / output),
        *(Place(kind=Kind.SCRATCH, role="scratch", host=Path(view.unmoved(at)), inside=at) for at in SCRATCH),
    ]
