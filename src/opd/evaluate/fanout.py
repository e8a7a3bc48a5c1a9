"""Drawing on the machines of a Ray cluster, one device a worker.

The questions are handed out in the groups of a local evaluation, and a group is the same whoever draws it. A worker
writes its file beside the others, under a name that nobody reads, and this process gives it its own name once it has
seen all of its bytes. So a worker that was taken for lost and still writes changes nothing, and what is done is what
stands in the folder: an evaluation that lost this process goes on as a local one does, here or on Ray.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from opd.evaluate.drawing import Drawing, DrawingSettings, Job, Opening, longest_prompts
from opd.evaluate.folder import PROTOCOL
from opd.evaluate.worker import job_of, loaded, start_values, values_of
from opd.fanout.calls import MOST_TRIES, Call
from opd.fanout.cluster import joined
from opd.fanout.comparing import shared
from opd.fanout.pool import Pool, Work
from opd.fanout.seen import unlike
from opd.models.load import find_model, model_digest
from opd.records.errors import AnswerIsNo
from opd.records.files import PARTIAL, sha256
from opd.records.places import SHIPPED

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """That an evaluation is drawn on Ray: by how many workers, and who is told of them."""

    workers: int | None = None
    """None: one for each device of the cluster that is free."""
    count: Callable[[int], None] = lambda _: None
    """Is told how many workers there are, whenever that changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as every machine finds it, and what it has to be there."""

    reference: str
    revision: str | None
    digest: str

    @classmethod
    def of(cls, reference: str, revision: str | None, path: Path, *, digest: str) -> "Model":
        """A directory by its whole name; what ships, and what comes from the hub, by the name it has everywhere."""
        named = reference if reference.startswith(SHIPPED) or not Path(reference).is_dir() else str(path.absolute())
        return cls(reference=named, revision=revision, digest=digest)


class RayDrawing:
    """Draws by the workers of a pool."""

    def __init__(self, workers: Pool) -> None:
        self._workers = workers

    def draw(self, jobs: Sequence[Job], *, interrupted: Callable[[], bool]) -> Iterator[Path]:
        """See `Drawing`. Raises `AnswerIsNo` for a group that failed twice, once those at hand have ended."""
        by_call = {Call(name=f"group {job.path.stem}", values=_values(job)): job for job in jobs}
        failed: list[str] = []
        outcomes = self._workers.work(
            list(by_call),
            interrupted=lambda: bool(failed) or interrupted(),
            fault=lambda call, answer: publish(by_call[call].path, answer),
        )
        for outcome in outcomes:
            if outcome.error is None:
                yield by_call[outcome.call].path
            else:
                failed.append(f"{outcome.call.name} failed {MOST_TRIES} times; the last time {outcome.error}")
        if failed:
            raise AnswerIsNo(f"{'; '.join(failed)}. What stands is kept; the same command goes on from there")


class Drawer:
    """On a worker: holds the model, and draws what it is given. Raises `AnswerIsNo` when it is another model here."""

    def __init__(self, values: dict[str, Any]) -> None:
        model = values["model"]
        path = find_model(model["reference"], model["revision"])
        if (found := model_digest(path)) != model["digest"]:
            raise AnswerIsNo(
                f"{path} has digest {found[:12]}… on {os.uname().nodename} and {model['digest'][:12]}… where the "
                "evaluation was started. It was given no work; bring the same model to every machine"
            )
        start = values["start"]
        self._drawing = loaded({**start, "settings": start["settings"] | {"model": str(path)}})

    def __call__(self, values: dict[str, Any]) -> dict[str, str]:
        """The file that was written, under a name of its own, and its digest."""
        job = job_of(values)
        out = job.path.parent.parent
        if not (out / PROTOCOL).is_file():
            raise FileNotFoundError(f"{out} is gone on {os.uname().nodename}: is it still mounted?")
        mine = job.path.with_name(f"{job.path.name}.{token_hex(4)}{PARTIAL}")
        self._drawing.draw_one(replace(job, path=mine))
        return {"path": str(mine), "sha256": sha256(mine)}


def opening(model: Model, settings_on: Callable[[str], DrawingSettings], spread: Spread, *, say: Say) -> Opening:
    """Draws on the cluster. `settings_on` says what is drawn with on `cuda` or on `cpu`."""
    return lambda jobs: _open(jobs, model, settings_on, spread, say=say)


@contextmanager
def _open(
    jobs: Sequence[Job], model: Model, settings_on: Callable[[str], DrawingSettings], spread: Spread, *, say: Say
) -> Iterator[Drawing]:
    out = jobs[0].path.parent.parent
    with shared(out) as folder, joined() as cluster:
        settings = settings_on("cuda" if cluster.has_gpus else "cpu")
        needs = {"CPU": float(settings.threads)} | ({"GPU": 1.0} if settings.device == "cuda" else {})
        values = {"model": asdict(model), "start": start_values(settings, longest_prompts(jobs))}
        work = Work(target=f"{__name__}:{Drawer.__name__}", values=values, needs=needs, folder=folder)
        with Pool(cluster, work, say=say, count=spread.count) as workers:
            workers.start(cluster.workers(needs, asked=spread.workers, at_most=len(jobs)))
            yield RayDrawing(workers)


def publish(path: Path, answer: Mapping[str, str]) -> str | None:
    """None, and the file stands under its own name; or why what a worker wrote is not what is here, at this look."""
    written = Path(answer["path"])
    if (other := unlike(written, answer["sha256"])) is not None:
        return f"{other}, where a worker wrote it: is it the same folder on both machines?"
    try:
        flushed = os.open(written.parent, os.O_RDONLY)
        try:
            written.replace(path)
            os.fsync(flushed)
        finally:
            os.close(flushed)
    except OSError as error:
        return f"{written} can't be given its name here ({error.strerror})"
    return None


def _values(job: Job) -> dict[str, Any]:
    return values_of(replace(job, path=job.path.absolute()))
