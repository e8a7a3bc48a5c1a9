"""`opd`: the group of verbs, and what an error looks like to a person.

Exit 0: done; 1: the answer is no, or the work could not be finished; 2: asked wrongly.
"""

import os
import signal
import sys
import time

import click

from opd import __version__
from opd.cli import BEGAN
from opd.cli.attempt import attempt
from opd.cli.cases import cases
from opd.cli.compare import compare
from opd.cli.data import data
from opd.cli.demo import demo
from opd.cli.doctor import doctor
from opd.cli.evaluate import evaluate
from opd.cli.grade import grade
from opd.cli.judge import judge
from opd.cli.load import load
from opd.cli.plan import plan
from opd.cli.plot import plot
from opd.cli.power import power
from opd.cli.runs import runs
from opd.cli.score import score
from opd.cli.show import show
from opd.cli.task import task
from opd.cli.top import top
from opd.cli.train import train
from opd.cli.view import view
from opd.records.errors import OpdError

# Several CPU threads that wait by spinning slow each other down many times over when another program runs
# beside them; torch reads this when it is first imported. It changes no result.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="opd")
def opd() -> None:
    """On-policy distillation of math reasoners, with the discipline of a formal experiment around it.

    Start with `opd demo`: the whole story on the embedded models, a few minutes on a CPU. `opd VERB --help` ends with
    examples. Every verb that only reads and prints has --json; what `opd grade` prints is JSON in any case.

    Exit codes: 0 done; 1 the answer is no, or the work could not be finished; 2 asked wrongly. Why stands on standard
    error, in a line.
    """


for verb in (
    *(demo, plan, train, evaluate, grade, judge, compare, score, power),
    *(runs, top, plot, view, load, data, show, task, attempt, cases, doctor),
):
    opd.add_command(verb)


def main() -> None:
    """Runs the command line and exits."""
    code = run(sys.argv[1:], began=BEGAN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: a late Ctrl-C has nothing left to end
    if code and os.environ.get("WORLD_SIZE", "1") != "1":
        leave_at_once(code)
    sys.exit(code)


def leave_at_once(code: int) -> None:
    """The process ends here: one of several ranks, which others may have left alone, and whose libraries would wait
    for them at a usual exit. What it has published is on the disk.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(arguments: list[str], *, began: float | None = None) -> int:
    """The exit code of a command line; errors that a person can act on are one line without a traceback.

    `began` is when the process was started, by `time.monotonic`: a verb that has a wall clock counts from there.
    """
    began = time.monotonic() if began is None else began
    try:
        opd.main(arguments, prog_name="opd", standalone_mode=False, obj=began)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted; what was published before is whole", code=1)
    except (OpdError, FloatingPointError, OSError) as error:
        return _failed(error)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opd."):
            raise
        return _say(f"this copy has no {error.name}: an attempt's workspace holds what trains, no judge", code=2)
    return 0


def _failed(error: Exception) -> int:
    if isinstance(error, OpdError):
        if error.said_elsewhere:
            return error.exit_code
        return _say(str(error), code=error.exit_code)
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()  # the reader has gone: nobody is there to be told
        return 1
    what = "the machine failed: " if isinstance(error, OSError) else ""
    return _say(f"{what}{error}; what was published before is whole", code=1)


def _say(message: str, *, code: int) -> int:
    click.echo(f"opd: {message}", err=True)
    return code
