"""On a Ray cluster an evaluation draws what it draws alone; what is lost, missing or other there is named."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.fanout.clusters import await_end, environment, started, workers_now

from opd.cli.main import run
from opd.evaluate.benchmark import find
from opd.evaluate.fanout import Spread
from opd.evaluate.run import evaluate
from opd.evaluate.settings import asked_of
from opd.models.load import find_model
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.generation_table import read_generations
from opd.records.scores import Sample

pytestmark = [
    pytest.mark.patient,
    pytest.mark.filterwarnings(
        "ignore::FutureWarning:ray.*", "ignore::ResourceWarning", "ignore::DeprecationWarning"
    ),
]

STUDENT = "opd:arith_tiny/student"
SETS = ["machine.largest_batch=8", "machine.device=cpu"]
ASKED = asked_of(find("arith_tiny"), questions=30, samples=2, sets=SETS)
COMMAND = ["evaluate", "arith_tiny", "--questions", "30", "--samples", "2", *(f"--set={one}" for one in SETS)]
TWO = Spread(workers=2)


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """A cluster of two CPUs that was there before."""
    with started() as joining, environment(joining):
        yield joining


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes of it."""
    out: Path = tmp_path_factory.mktemp("alone") / "out"
    evaluate(ASKED, STUDENT, out)
    return out


def assert_same(out: Path, alone: Path) -> None:
    """The samples to the last byte, the tokens with their log-probabilities, and the score but for its seconds."""
    assert (out / "samples.jsonl").read_bytes() == (alone / "samples.jsonl").read_bytes()
    files = [path.name for path in sorted((alone / "generations").iterdir())]
    assert [path.name for path in sorted((out / "generations").iterdir())] == files
    for name in files:
        assert read_generations(out / "generations" / name) == read_generations(alone / "generations" / name)
    here, there = (json.loads((folder / "score.json").read_text()) for folder in (out, alone))
    assert here | {"seconds": 0} == there | {"seconds": 0}


def test_two_workers_of_a_cluster_write_what_one_process_does(
    cluster: dict[str, str], alone: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    counts: list[int] = []
    at_work: set[int] = set()

    def look(samples: Sequence[Sample], *, found: bool) -> None:
        at_work.update(workers_now())

    evaluate(
        ASKED, STUDENT, tmp_path / "out", report=look, say=said.append, spread=Spread(workers=2, count=counts.append)
    )
    assert_same(tmp_path / "out", alone)
    assert len(at_work) == 2
    assert os.getpid() not in at_work
    assert counts[-1] == 2
    assert said == ["2 workers on 1 machine of a Ray cluster"]
    await_end(list(at_work))  # and the cluster, which was there before, has its places back


def test_a_worker_that_is_killed_is_named_and_its_group_is_drawn_by_another(
    cluster: dict[str, str], alone: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    counts: list[int] = []
    killed: list[int] = []

    def kill_one(samples: Sequence[Sample], *, found: bool) -> None:
        if not found and not killed:
            killed.extend(workers_now()[:1])
            os.kill(killed[0], signal.SIGKILL)

    evaluate(
        ASKED,
        STUDENT,
        tmp_path / "out",
        report=kill_one,
        say=said.append,
        spread=Spread(workers=2, count=counts.append),
    )
    assert_same(tmp_path / "out", alone)
    assert any(f"process {killed[0]}) was lost" in line for line in said), said
    assert 1 in counts[2:]


def test_after_the_driver_is_killed_its_workers_end_and_what_stood_is_not_drawn_again(
    cluster: dict[str, str], alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = [*COMMAND, "--model", STUDENT, "--out", str(out), "--on", "ray:2", "--quiet"]
    driver = subprocess.Popen([sys.executable, "-m", "opd", *words])
    deadline = time.monotonic() + 120
    while len(list(out.glob("generations/*.parquet"))) < 2:
        assert time.monotonic() < deadline
        assert driver.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)
    workers = workers_now()
    driver.kill()
    driver.wait()
    await_end(workers)
    stood = {path: path.stat() for path in out.glob("generations/*.parquet")}
    assert not (out / "score.json").exists()
    assert run(words) == 0
    assert_same(out, alone)
    again = {path: path.stat() for path in stood}
    assert [(one.st_ino, one.st_mtime_ns) for one in again.values()] == [
        (one.st_ino, one.st_mtime_ns) for one in stood.values()
    ]


def test_an_interrupt_ends_it_after_the_groups_at_hand_and_the_command_goes_on_without_ray(
    cluster: dict[str, str], alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = [*COMMAND, "--model", STUDENT, "--out", str(out)]
    driver = subprocess.Popen(
        [sys.executable, "-m", "opd", *words, "--on", "ray:2"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(out.glob("generations/*.parquet")):
        assert driver.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.002)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
    _, said = driver.communicate(timeout=120)
    assert driver.returncode == 1, said
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    assert not list(out.glob("generations/*.partial"))
    assert run([*words, "--quiet"]) == 0
    assert_same(out, alone)


def test_a_group_that_fails_twice_is_named_with_its_last_error(cluster: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"

    def put_in_the_way(samples: Sequence[Sample], *, found: bool) -> None:
        if not found and (out / "generations").is_dir():
            (out / "generations").rename(tmp_path / "aside")
            (out / "generations").write_text("in the way")

    with pytest.raises(
        AnswerIsNo, match=r"group \d+-000 failed 2 times; the last time worker \d .*: \w+Error: .*the"
    ):
        evaluate(ASKED, STUDENT, out, report=put_in_the_way, spread=TWO)
    assert not (out / "score.json").exists()


def test_a_folder_that_vanishes_is_made_anew_by_nobody_and_gets_no_score(
    cluster: dict[str, str], alone: Path, tmp_path: Path
) -> None:
    """Workers are in the midst of their groups; brought back, it is completed."""
    out = tmp_path / "out"

    def move(samples: Sequence[Sample], *, found: bool) -> None:
        if not found and out.exists():
            out.rename(tmp_path / "moved")

    with pytest.raises(AnswerIsNo, match="out has gone since the evaluation began"):
        evaluate(ASKED, STUDENT, out, report=move, spread=TWO)
    time.sleep(1)  # for whoever were to write still
    assert not out.exists()
    assert not (tmp_path / "moved/score.json").exists()
    (tmp_path / "moved").rename(out)
    evaluate(ASKED, STUDENT, out)
    assert_same(out, alone)


def test_a_cluster_of_its_own_ends_with_the_command(alone: Path, tmp_path: Path) -> None:
    """And its ports, which Ray opens to all, need a token that only its own processes have."""
    out = tmp_path / "out"
    words = [*COMMAND, "--model", STUDENT, "--out", str(out), "--on", "ray:2", "--log", "json"]
    driver = subprocess.run(
        [sys.executable, "-m", "opd", *words],
        env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert_same(out, alone)
    told = [json.loads(line) for line in driver.stdout.splitlines()]
    assert {"event": "workers", "workers": 2} in told
    assert {"event": "note", "message": "2 workers on this machine, with a Ray of its own"} in told


def test_another_install_is_refused_with_both_versions(tmp_path: Path) -> None:
    import opd

    other = tmp_path / "other"
    shutil.copytree(Path(opd.__file__).parent, other / "opd", ignore=shutil.ignore_patterns("__pycache__"))
    (other / "opd/__init__.py").write_text((other / "opd/__init__.py").read_text() + '\n__version__ = "0.0.7"\n')
    out = tmp_path / "out"
    with started(PYTHONPATH=str(other)) as joining, environment(joining):
        differs = rf"opd 0\.0\.7 \(\w+\) there and {opd.__version__} \(\w+\) here"
        with pytest.raises(AnswerIsNo, match=differs):
            evaluate(ASKED, STUDENT, out, spread=TWO)
    assert not out.exists()


APART = """
set -e
mount --bind {read_only} {read_only}
mount -o remount,ro,bind {read_only}
mount -t tmpfs none {gone}
mount --bind {other} {model}
exec "$@"
"""


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster that sees a folder read-only, another not at all, and under the model's name another model."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs a mount namespace, which this user can't make")
    place: Path = tmp_path_factory.mktemp("apart")
    for name in ("read_only", "gone"):
        (place / name).mkdir()
    for name in ("model", "other"):
        shutil.copytree(find_model(STUDENT), place / name)
    (place / "other/README.md").write_text("another")
    script = APART.format(**{name: place / name for name in ("read_only", "gone", "model", "other")})
    with started(before=("unshare", "--mount", "sh", "-c", script, "sh")) as joining, environment(joining):
        yield place


@pytest.mark.parametrize(
    ("name", "fault"),
    [("read_only", r"it is read-only there \(EROFS\)"), ("gone", "it is not there, or it is another")],
)
def test_a_folder_that_a_worker_can_not_use_is_refused_before_anything_is_run(
    apart: Path, name: str, fault: str
) -> None:
    out = apart / name / "out"
    out.mkdir(exist_ok=True)
    with pytest.raises(AnswerIsNo, match=rf"can't be used by worker \d \(.*\): {fault}.*No work was given out"):
        evaluate(ASKED, STUDENT, out, spread=TWO)
    assert list(out.iterdir()) == []


def test_another_model_under_the_same_name_is_refused_with_both_digests(apart: Path) -> None:
    with pytest.raises(
        AnswerIsNo, match=r"model has digest \w{12}… on .* and \w{12}… where the evaluation was started"
    ):
        evaluate(ASKED, str(apart / "model"), apart / "out", spread=TWO)
    assert not (apart / "out").exists()


@pytest.mark.parametrize("on", ["rays", "ray:", "ray:0", "ray:-1", "ray:two", "slurm", "ray:8 "])
def test_another_place_is_asked_wrongly(on: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "--model", STUDENT, "--out", str(tmp_path / "out"), "--on", on]) == 2
    assert "write ray, or ray:8" in capsys.readouterr().err


def test_more_workers_than_places_and_those_of_one_machine_are_asked_wrongly(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(AskedWrongly, match=r"9 workers of 1 CPU each, and the cluster has places for 2"):
        evaluate(ASKED, STUDENT, tmp_path / "out", spread=Spread(workers=9))
    with pytest.raises(AskedWrongly, match=r"on Ray write --on ray:3"):
        evaluate(ASKED.changed(["machine.workers=3"]), STUDENT, tmp_path / "out", spread=Spread())


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with (
        environment({"RAY_ADDRESS": "127.0.0.2:9"}),
        pytest.raises(AnswerIsNo, match=r"127\.0\.0\.2:9 can't be joined"),
    ):
        evaluate(ASKED, STUDENT, tmp_path / "out", spread=Spread())
    assert not (tmp_path / "out").exists()
