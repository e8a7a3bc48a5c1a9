"""TensorBoard: event files in the run's own folder, so that `tensorboard --logdir runs` names each run by it.

Written by TensorBoard's own package, without torch. It keeps numbers in float32.
"""

import json
import time
from collections.abc import Mapping
from typing import ClassVar

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

from opd.train.sink import Shown


class TensorBoard:
    """An event file for each try of the run; the later one takes back what it makes again."""

    takes_back: ClassVar[bool] = True

    def __init__(self, run: Shown) -> None:
        self._file = EventFileWriter(str(run.out))
        if run.after_step:  # readers drop what earlier files have from this step on
            begin = SessionLog(status=SessionLog.START)
            self._file.add_event(Event(wall_time=time.time(), step=run.after_step + 1, session_log=begin))
        recipe = Summary()
        recipe.value.add(
            tag="recipe",
            tensor=make_tensor_proto(f"```json\n{json.dumps(run.recipe, indent=2)}\n```"),
            metadata=create_summary_metadata("recipe", "the resolved recipe"),
        )
        self._file.add_event(Event(wall_time=time.time(), step=run.after_step, summary=recipe))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """One event for the step, with a scalar for each number."""
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._file.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def flush(self) -> None:
        """The file holds all that was written."""
        self._file.flush()

    def close(self, *, whole: bool) -> None:  # noqa: ARG002  # an event file has no word for it
        """The file is complete."""
        self._file.close()


SINK = TensorBoard
