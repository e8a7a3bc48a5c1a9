"""What `opd evaluate` is asked: a benchmark, as declared or changed, who grades, and where it runs."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from opd.evaluate.benchmark import Benchmark
from opd.evaluate.judges.settings import JudgeSettings
from opd.grading.pool import Limits
from opd.models.engine.sampler import DraftsChoice
from opd.models.samplers import EngineChoice
from opd.records.errors import AskedWrongly
from opd.records.settings import Settings


class EvaluationMachine(Settings):
    """Where an evaluation runs; none of this is part of the protocol."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    """`auto` is bfloat16 on a GPU and float32 on a CPU; the score's `machine` says which it was."""
    threads: Annotated[int, Field(gt=0, le=1_024)] = 1
    """CPU threads of each worker."""
    largest_batch: Annotated[int, Field(gt=0, le=65_536)] = 256
    """Most sequences that are sampled at once."""
    engine: EngineChoice = "auto"
    """What samples: `engine`, `plain` (transformers' own forward, slow), `vllm` (where nothing is cut from what is
    drawn from), or `auto`: the engine where it fits."""
    drafts: DraftsChoice = "off"
    """`history`: while up to 4 sequences run, the engine checks guesses of what follows; the tokens are the same."""
    workers: Annotated[int, Field(gt=0, le=1_024)] = 1
    """Processes that sample side by side, each with the whole model: one a GPU, or so many on the CPU."""
    grader_seconds: Annotated[float, Field(gt=0, le=86_400)] = 5.0
    """Wall time of one comparison; more of it turns a grader that failed into one that decides, and changes no
    other verdict.
    """
    grader_gib: Annotated[float, Field(gt=0, le=1_024)] = 1.0
    """Memory of one comparison, in GiB; the same holds."""

    @property
    def grader_limits(self) -> Limits:
        """What a comparison may cost."""
        return Limits(seconds=self.grader_seconds, memory_bytes=int(self.grader_gib * (1 << 30)))


class Evaluation(Settings):
    """`--set benchmark.key=value` changes the protocol, and so do the graders; `machine.key=value` only where it
    runs.
    """

    benchmark: Benchmark
    grader: str = "house"
    """Who decides: `house`, `reference` (the public rule grader's behaviour), or anyone's own `module:function`."""
    second_grader: str | None = None
    """Another of these, whose opinion of each sample is kept beside the verdict and decides nothing."""
    judge: JudgeSettings | None = None
    """Who settles what the grader rejects; null: nobody, and rejected is rejected."""
    machine: EvaluationMachine = EvaluationMachine()

    @model_validator(mode="after")
    def _two_graders(self) -> Self:
        if self.second_grader == self.grader:
            raise AskedWrongly(f"second_grader = {self.second_grader!r} is the grader; name another, or none")
        return self


def asked_of(
    declared: Benchmark, *, questions: int | None = None, samples: int | None = None, sets: Sequence[str] = ()
) -> Evaluation:
    """The evaluation of a declared benchmark after every change, under a name that says what was changed."""
    changed = Evaluation(benchmark=declared).changed(sets)
    smaller = changed.benchmark.smaller(questions=questions, samples=samples, declared=declared)
    return changed.model_copy(update={"benchmark": smaller})
