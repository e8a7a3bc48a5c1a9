"""What `opd evaluate` is asked: a benchmark, as declared or changed, and where it runs."""

from typing import Annotated, Literal

from pydantic import Field

from opd.evaluate.benchmark import Benchmark
from opd.records.settings import Settings


class EvaluationMachine(Settings):
    """Where an evaluation runs; none of this is part of the protocol."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    """`auto` is bfloat16 on a GPU and float32 on a CPU; the score's `machine` says which it was."""
    threads: Annotated[int, Field(gt=0, le=1_024)] = 1
    """CPU threads."""
    largest_batch: Annotated[int, Field(gt=0, le=65_536)] = 256
    """Most sequences that are sampled at once."""

    def dtype_on(self, device: str) -> str:
        """The dtype that `auto` stands for on this device."""
        if self.dtype != "auto":
            return self.dtype
        return "bfloat16" if device == "cuda" else "float32"


class Evaluation(Settings):
    """`--set benchmark.key=value` changes the protocol, `--set machine.key=value` only where it runs."""

    benchmark: Benchmark
    machine: EvaluationMachine = EvaluationMachine()
