"""A process that draws: started by `workers.py`, one group of questions after the other, until its connection closes.

    parent → worker     what to draw with, then a job, and after each the next
    worker → parent     {"ready": true}, then {"drawn": …} for each job once its file stands;
                        {"refused": why} instead, when the model can't be used as it was asked

Messages are JSON. A worker whose parent is gone ends at once, in the middle of a group: nobody waits for it, and it
would hold its GPU's memory.
"""

import json
import os
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from opd.evaluate.drawing import DrawingSettings, Job, OwnDrawing
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt
from opd.records.settings import validated


def serve(*, descriptor: int) -> None:
    """Draws jobs until the other end closes."""
    connection = Connection(descriptor)
    inbox: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    start = json.loads(inbox.get())
    try:
        drawing = loaded(start)
    except AskedWrongly as error:
        _send(connection, {"refused": str(error)})
        return
    _send(connection, {"ready": True})
    while True:
        job = job_of(json.loads(inbox.get()))
        drawing.draw_one(job)
        _send(connection, {"drawn": str(job.path)})


def start_values(settings: DrawingSettings, longest: Sequence[Prompt]) -> dict[str, Any]:
    """The first message to a worker: what it draws with, and the prompt that has to fit."""
    return {"settings": settings.resolved(), "longest": [_prompt_values(prompt) for prompt in longest]}


def loaded(start: Mapping[str, Any]) -> OwnDrawing:
    """What draws by these values; `AskedWrongly` when the model can't be loaded, or the prompt doesn't fit it."""
    settings = validated(DrawingSettings, start["settings"], source="worker")
    return settings.load([_prompt(values) for values in start["longest"]])


def values_of(job: Job) -> dict[str, Any]:
    """A job as JSON values."""
    return {
        "path": str(job.path),
        "questions": job.questions,
        "prompts": [_prompt_values(prompt) for prompt in job.prompts],
        "missing": sorted(job.missing),
    }


def job_of(values: dict[str, Any]) -> Job:
    """The job that was sent as these values."""
    return Job(
        path=Path(values["path"]),
        questions=tuple(values["questions"]),
        prompts=tuple(_prompt(one) for one in values["prompts"]),
        missing=frozenset((question, sample) for question, sample in values["missing"]),
    )


def _prompt_values(prompt: Prompt) -> dict[str, Any]:
    return {
        "row": prompt.row,
        "problem": prompt.problem,
        "answer": prompt.answer,
        "token_ids": prompt.token_ids,
        "epoch": prompt.epoch,
    }


def _prompt(values: dict[str, Any]) -> Prompt:
    return Prompt(**(values | {"token_ids": tuple(values["token_ids"])}))


def _listen(connection: Connection, inbox: "SimpleQueue[bytes]") -> None:
    """Takes in jobs while one is being drawn, so that the end of the parent is noticed then as well."""
    while True:
        try:
            inbox.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _send(connection: Connection, message: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(message).encode())
