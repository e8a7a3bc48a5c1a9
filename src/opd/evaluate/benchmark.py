"""What a benchmark is: questions, a prompt, a way of sampling, and how many of each there have to be.

`evaluate/benchmarks/<name>.py` with `BENCHMARK = Benchmark(…)` *is* the benchmark `<name>`. The counts and the
digest are declared, and data that differ are refused: a denominator that is counted moves when a row is lost.
"""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from opd.evaluate import benchmarks
from opd.grading.grader import check_gold
from opd.models.chat import check_template
from opd.models.interfaces import Sampling
from opd.records.errors import AskedWrongly
from opd.records.files import read_lines, sha256
from opd.records.places import SHIPPED, locate
from opd.records.scores import Protocol
from opd.records.settings import Settings


class Benchmark(Settings):
    """A benchmark's declaration. A changed copy is another protocol, and its scores don't compare."""

    name: str
    data: str
    """`opd:<task>/<file>`, or the name of a JSON Lines file that is looked for in `data/`."""
    sha256: str
    """Of the file's bytes."""
    questions: PositiveInt
    """The first so many of the file; a benchmark declares all of them."""
    rows: PositiveInt
    """How many the file has."""
    seeds: tuple[NonNegativeInt, ...]
    """One for each sample of a question."""
    prompt: str = "{problem}"
    """The user's turn; the chat template of the model's tokenizer goes around it."""
    temperature: PositiveFloat = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    limit_tokens: Annotated[int, Field(gt=0, le=1 << 20)]
    """Cap on new tokens."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_template(self.prompt)
        if self.questions > self.rows:
            raise AskedWrongly(f"questions = {self.questions}, but {self.name} has {self.rows}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise AskedWrongly(f"seeds = {self.seeds}: at least one, and no two alike, or samples would repeat")
        return self

    @property
    def sampling(self) -> Sampling:
        """How answers are drawn."""
        return Sampling(
            temperature=self.temperature, top_p=self.top_p, top_k=self.top_k, limit_tokens=self.limit_tokens
        )

    def smaller(self, *, questions: int | None, samples: int | None) -> Self:
        """The same with fewer questions or samples: another protocol, which its digest says."""
        if samples is not None and not 1 <= samples <= len(self.seeds):
            raise AskedWrongly(f"samples = {samples}: {self.name} has between 1 and {len(self.seeds)}")
        if questions is not None and not 1 <= questions <= self.rows:
            raise AskedWrongly(f"questions = {questions}: {self.name} has between 1 and {self.rows}")
        return self.model_copy(
            update={"questions": questions or self.questions, "seeds": self.seeds[: samples or len(self.seeds)]}
        )

    def protocol(self, *, grader: str) -> Protocol:
        """Everything that a score of this benchmark depends on beside the model."""
        return Protocol(
            benchmark=self.name,
            questions=self.questions,
            samples_per_question=len(self.seeds),
            data_sha256=self.sha256,
            prompt=self.prompt,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            limit_tokens=self.limit_tokens,
            seeds=self.seeds,
            grader=grader,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A row of a benchmark's file."""

    row: int
    id: str
    problem: str
    gold: str


def names() -> list[str]:
    """The benchmarks there are: the files of the folder."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))


def find(name: str) -> Benchmark:
    """The benchmark of that name; an unknown one is answered with those there are."""
    if name not in names():
        raise AskedWrongly(f"no benchmark {name!r}; there are: {', '.join(names())}")
    found: Benchmark = importlib.import_module(f"{benchmarks.__name__}.{name}").BENCHMARK
    return found


def instructions() -> dict[str, tuple[str, str]]:
    """By name, the data and the prompt of each benchmark: what a model that is trained will be asked."""
    return {name: (one.data, one.prompt) for name in names() for one in [find(name)]}


def read_questions(benchmark: Benchmark, data: Path | None = None) -> list[Question]:
    """The questions, in the order of the file; `data` says where the file is when it is elsewhere.

    Raises `AskedWrongly` when the file is missing, is another one, or has a gold answer that can't be used.
    """
    path = data or _find_file(benchmark)
    if not path.is_file():
        raise AskedWrongly(f"{path} does not exist; {benchmark.name} needs the file with SHA-256 {benchmark.sha256}")
    if (found := sha256(path)) != benchmark.sha256:
        raise AskedWrongly(f"{path} has SHA-256 {found}; {benchmark.name} is the file with {benchmark.sha256}")
    questions = [_question(values, row=row, path=path) for row, values in enumerate(read_lines(path))]
    if len(questions) != benchmark.rows:
        raise AskedWrongly(f"{path} has {len(questions)} questions, {benchmark.name} has {benchmark.rows}")
    twice = [name for name, times in Counter(question.id for question in questions).items() if times > 1]
    if twice:
        raise AskedWrongly(
            f"{path}: {len(twice)} ids stand there more than once, {twice[0]} first; each names a question"
        )
    return questions[: benchmark.questions]


def _question(values: Mapping[str, Any], *, row: int, path: Path) -> Question:
    for field in ("id", "problem", "answer"):
        if not isinstance(values.get(field), str):
            raise AskedWrongly(f"row {row} of {path}: no text in field {field!r}; it has {sorted(values)}")
    check_gold(values["answer"])
    return Question(row=row, id=values["id"], problem=values["problem"], gold=values["answer"])


def _find_file(benchmark: Benchmark) -> Path:
    if benchmark.data.startswith(SHIPPED):
        return locate(benchmark.data)
    found = Path("data") / benchmark.data
    if not found.is_file():
        raise AskedWrongly(f"{benchmark.data} is not in data/; give --data FILE (SHA-256 {benchmark.sha256})")
    return found
