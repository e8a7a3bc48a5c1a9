"""What each phase of an attempt is given: how long, which command, which mounts, which variables.

            student  teacher  data  proxy questions  final questions  artifact
explore        ●        ●      ●      through fast-eval only
formal         ●        ●      ●
validation                                                              ●
final                                                      ●            ●
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from opd.records.tasks import Contract

WORKSPACE = PurePosixPath("/workspace")
INPUTS = PurePosixPath("/inputs")
STUDENT = INPUTS / "student"
TEACHER = INPUTS / "teacher"
RUNS = PurePosixPath("/runs")
COMMANDS = PurePosixPath("/opd/bin")
STATE = PurePosixPath("/opd/state")
BUDGET = STATE / "budget.json"
ARTIFACT = PurePosixPath("/artifact")
QUESTIONS = PurePosixPath("/questions")
VERIFIER = INPUTS / "verifier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Something that a phase sees."""

    what: str
    place: PurePosixPath
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase."""

    name: str
    seconds: float
    command: str
    given: tuple[Given, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()  # what it can't see, in words


def data_place(contract: Contract) -> PurePosixPath:
    """Where the training problems lie inside."""
    return INPUTS / f"train{PurePosixPath(contract.data.source).suffix}"


def input_places(contract: Contract) -> dict[str, PurePosixPath]:
    """Where the fixed inputs lie inside, by role."""
    places = {"student": STUDENT, "teacher": TEACHER, "data": data_place(contract), "verifier": VERIFIER}
    return {role: places[role] for role in contract.fixed_inputs}


def variables(contract: Contract) -> dict[str, str]:
    """What formal replay sets for `run.sh`, beside PATH, HOME and LANG."""
    return {
        "STUDENT_MODEL": str(STUDENT),
        "TEACHER_MODEL": str(TEACHER),
        "TRAIN_DATA": str(data_place(contract)),
        "MAX_WALL_TIME_SECONDS": f"{contract.budgets.formal_seconds:g}",
        "DEADLINE_RESERVE_SECONDS": f"{contract.budgets.reserve_seconds:g}",
    }


def phases(contract: Contract) -> tuple[Phase, ...]:
    """The phases of an attempt on this task, in order."""
    budgets, final = contract.budgets, contract.final
    inputs = (
        Given(what="student", place=STUDENT),
        Given(what="teacher", place=TEACHER),
        Given(what="training problems", place=data_place(contract)),
    )
    questions = f"the questions of {final.metric}"
    return (
        Phase(
            name="explore",
            seconds=budgets.explore_seconds,
            command="the explorer",
            given=(
                Given(what="workspace", place=WORKSPACE, writable=True),
                Given(what="a place for what runs write, which is not handed in", place=RUNS, writable=True),
                *inputs,
                Given(what=f"commands: {', '.join(contract.tools)}", place=COMMANDS),
                Given(what="what is left of the budget", place=BUDGET),
            ),
            withheld=(questions, f"the questions of {contract.proxy.metric}, which fast-eval asks", "the network"),
        ),
        Phase(
            name="formal",
            seconds=budgets.formal_seconds,
            command="bash run.sh",
            given=(Given(what="fresh checkout of base and patch", place=WORKSPACE, writable=True), *inputs),
            variables=variables(contract),
            withheld=(questions, "everything of exploration but the patch", "the network"),
        ),
        Phase(
            name="validation",
            seconds=budgets.validation_seconds,
            command="opd load",
            given=(Given(what="one artifact", place=ARTIFACT),),
            withheld=("the workspace", "the network"),
        ),
        Phase(
            name="final",
            seconds=budgets.final_seconds,
            command=f"opd evaluate {final.benchmark}",
            given=(
                Given(what="one artifact", place=ARTIFACT),
                Given(what=questions, place=QUESTIONS),
                *([Given(what="verifier", place=VERIFIER)] if final.judged else []),
            ),
            withheld=("the workspace", "the network"),
        ),
    )
