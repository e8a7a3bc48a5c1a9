"""`opd task`: which tasks there are, what one says, whether it is sound, and the package that it renders to."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.names import TASK
from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.protocol.packages.explain.explanation import Explanation
    from opd.protocol.packages.lint.findings import Finding

_NAME_WIDTH = 24


@click.group()
def task() -> None:
    """Tasks: list them, explain one, look for faults in it, render its package, begin a new one."""


@task.command(
    "list",
    epilog=examples(
        "opd task list",
        "opd task list --json | jq -r 'keys[]'",
    ),
)
@JSON
def list_tasks(as_json: bool) -> None:
    """The tasks that ship, with what each is about."""
    from opd.protocol.packages.catalogue import find, names
    from opd.records.files import canonical_json

    found = {name: find(name)[0].task.description for name in names()}
    if as_json:
        click.echo(canonical_json(found))
        return
    for name, description in found.items():
        click.echo(f"{name:{_NAME_WIDTH}}{description}")


@task.command(
    epilog=examples(
        "opd task show arith_tiny",
        "opd task show arith_tiny --json | jq '.sections[].title'",
    )
)
@click.argument("name", metavar="TASK", type=TASK)
@JSON
def show(name: str, as_json: bool) -> None:
    """The contract of TASK: inputs, editable surface, budgets, metrics, artifacts, what each phase sees.

    TASK is the name of one that ships, or a folder: of a task of ours, of a package of the public AI4AI-Bench layout,
    or of any Harbor task. Nothing in the folder is run.
    """
    from opd.protocol.packages.catalogue import place
    from opd.protocol.packages.explain.folder import explain

    explanation = explain(place(name))
    click.echo(explanation.model_dump_json(indent=2) if as_json else _laid_out(explanation))


@task.command(
    epilog=examples(
        "opd task lint arith_tiny",
        "opd task lint tasks/mine --data files --json",
    )
)
@click.argument("name", metavar="TASK", type=TASK)
@click.option("--data", type=UserPath(), help="Folder where files of problems and questions lie.")
@JSON
def lint(name: str, data: Path | None, as_json: bool) -> None:
    """What is wrong with TASK, a name or a folder; exit code 1: something is.

    Digests and questions are compared where the files are at hand, and what could not be compared is said. A rendered
    package is rendered again, and every file that differs is named.
    """
    from opd.evaluate import benchmark
    from opd.protocol.packages.catalogue import place
    from opd.protocol.packages.lint.check import check
    from opd.records.errors import AnswerIsNo

    folder = place(name)
    benchmarks = {one: benchmark.find(one).resolved() for one in benchmark.names()}
    report = check(folder, benchmarks=benchmarks, data=data)
    if as_json:
        click.echo(report.model_dump_json(indent=2))
    else:
        for finding in report.findings:
            click.echo(_on_a_line(finding))
        for sentence in report.unchecked:
            click.echo(f"not checked: {sentence}", err=True)
    if report.findings:
        raise AnswerIsNo(f"{len(report.findings)} findings in {folder}")
    click.echo(f"nothing found in {folder}", err=True)


@task.command(
    epilog=examples(
        "opd task build arith_tiny --out packages/arith_tiny",
    )
)
@click.argument("name", metavar="TASK", type=TASK)
@click.option("--out", required=True, type=UserPath(), help="Folder of the package; a new one.")
def build(name: str, out: Path) -> None:
    """Render TASK, a name or a folder, to a package that Harbor can read; the same task gives the same bytes."""
    from opd.protocol.packages.catalogue import find
    from opd.protocol.packages.package import build as render

    digest = render(*find(name), out)
    click.echo(f"{out}\ndigest {digest}")


@task.command(
    epilog=examples(
        "opd task new me/mine --from arith_tiny --out tasks/mine",
    )
)
@click.argument("name", metavar="ORGANISATION/NAME")
@click.option("--from", "source", default="arith_tiny", show_default=True, help="The task to begin with.")
@click.option("--out", type=UserPath(), help="Folder of the new task; by default the name.")
def new(name: str, source: str, out: Path | None) -> None:
    """Begin a task as a copy of another one under a name of its own."""
    from opd.protocol.packages.catalogue import begin, place

    folder = begin(name, like=place(source), out=out or Path(name.rpartition("/")[2]))
    click.echo(f"{folder}/task.toml is yours to change; `opd task lint {folder}` says what is wrong with it")


@task.command(
    epilog=examples(
        "opd task make-models arith_tiny --out models",
    )
)
@click.argument("name", type=click.Choice(["arith_tiny"]))
@click.option("--out", required=True, type=UserPath(), help="Folder of the models; a new one.")
@click.option("--seed", type=int, help="Another seed makes other models; the shipped ones have the default.")
def make_models(name: str, out: Path, seed: int | None) -> None:
    """Train the models of NAME as the shipped ones were trained; about two minutes on one CPU thread.

    OUT then holds arith_tiny/student, arith_tiny/teacher, arith_gap/student and provenance.json with their scores.
    """
    from opd.tasks.arith_tiny.models import SEED
    from opd.tasks.arith_tiny.models import make_models as make

    make(out, seed=SEED if seed is None else seed, report=lambda line: click.echo(line, err=True))
    click.echo(f"the models of {name} are in {out}")


def _on_a_line(finding: "Finding") -> str:
    line = "" if finding.line is None else f":{finding.line}"
    return f"{finding.path}{line}: {finding.rule}: {finding.message}"


def _laid_out(explanation: "Explanation") -> str:
    """Sections under their titles, names in a column, long values below themselves."""
    lines = [f"{explanation.name} ({explanation.kind})"]
    for section in explanation.sections:
        if section.rows:
            lines += ["", section.title]
        for row in section.rows:
            first, *more = row.value.splitlines() or [""]
            name = f"  {row.name:{_NAME_WIDTH}}" if len(row.name) < _NAME_WIDTH else f"  {row.name}  "
            lines += [f"{name}{first}", *(f"  {'':{_NAME_WIDTH}}{line}" for line in more)]
    return "\n".join(lines)
