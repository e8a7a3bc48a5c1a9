"""What a benchmark is: questions, a prompt, a way of sampling, and how many of each there have to be.

`evaluate/benchmarks/<name>.py` with `BENCHMARK = Benchmark(…)` *is* the benchmark `<name>`; a TOML file with the
same keys is one as well. Counts and digests are declared, and data that differ are refused: a denominator that is
counted moves when a row is lost. A file without a declared digest is open: `questions.pinned` takes down the one that
is used, which is then part of the protocol like any other.
"""

import importlib
import pkgutil
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from opd.evaluate import benchmarks
from opd.evaluate.hub import HubFile
from opd.models.chat import check_template
from opd.models.interfaces import Sampling
from opd.records.errors import AskedWrongly
from opd.records.files import digest
from opd.records.scores import Protocol
from opd.records.settings import Settings, read


class QuestionFile(Settings):
    """A JSON Lines file with a question a line, and which of its fields say what."""

    data: Annotated[str, Field(min_length=1)]
    """`opd:<task>/<file>`, or a path: as it is, or below `data/`."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of the file's bytes; null: taken down from the file that is used, so that scores of two files don't compare."""
    rows: PositiveInt
    """How many questions it has."""
    hub: HubFile | None = None
    """Where the hub has this very file, for when it is not at hand."""
    id: str = "id"
    """Field that names a question; empty: the number of its row in the benchmark does. `id|`, and so with the other
    two: the first of several that the rows have.
    """
    problem: str = "problem"
    """Field with the problem."""
    answer: str = "answer"
    """Field with the gold answer, a text or a number."""
    answer_after: str = ""
    """The gold is what follows the last of these marks, `####` in GSM8K; empty: all of the field."""

    @property
    def is_open(self) -> bool:
        """Whether something of it is only known from the file that is used: its digest, or which field says what."""
        return self.sha256 is None or any("|" in field for field in (self.id, self.problem, self.answer))

    @property
    def reading(self) -> dict[str, str | None]:
        """What the questions depend on: the bytes, and how they are read."""
        return {name: getattr(self, name) for name in ("sha256", "id", "problem", "answer", "answer_after")}

    @property
    def is_plain(self) -> bool:
        """Whether it is read in the usual way, so that its digest says everything."""
        return all(
            getattr(self, name) == QuestionFile.model_fields[name].default
            for name in self.reading
            if name != "sha256"
        )


class Benchmark(Settings):
    """A benchmark's declaration. A changed copy is another protocol, and its scores don't compare."""

    name: Annotated[str, Field(min_length=1)]
    files: tuple[QuestionFile, ...]
    """One after the other."""
    questions: PositiveInt
    """The first so many of the files; a benchmark declares all of them."""
    seeds: tuple[NonNegativeInt, ...]
    """One for each sample of a question."""
    prompt: str = "{problem}"
    """The user's turn; the chat template of the model's tokenizer goes around it."""
    temperature: PositiveFloat = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    limit_tokens: Annotated[int, Field(gt=0, le=1 << 20)]
    """Cap on new tokens."""
    context_tokens: PositiveInt | None = None
    """Most tokens of prompt and answer together: a prompt that leaves no room for `limit_tokens` is refused."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_template(self.prompt)
        if not self.files:
            raise AskedWrongly(f"{self.name} has no files; a benchmark has at least one")
        if self.questions > self.rows:
            raise AskedWrongly(f"questions = {self.questions}, but {self.name} has {self.rows}")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise AskedWrongly(f"seeds = {self.seeds}: at least one, and no two alike, or samples would repeat")
        if self.context_tokens is not None and self.context_tokens <= self.limit_tokens:
            raise AskedWrongly(
                f"context_tokens = {self.context_tokens} leaves no room for a prompt beside limit_tokens = "
                f"{self.limit_tokens}"
            )
        return self

    @property
    def rows(self) -> int:
        """How many questions the files have."""
        return sum(file.rows for file in self.files)

    @property
    def sampling(self) -> Sampling:
        """How answers are drawn."""
        return Sampling(
            temperature=self.temperature, top_p=self.top_p, top_k=self.top_k, limit_tokens=self.limit_tokens
        )

    @property
    def data_sha256(self) -> str:
        """The digest of the data: that of the file, or one over several files and fields of other names.

        Raises `ValueError` while a file is open: a protocol names the data that were used.
        """
        if left_open := [file.data for file in self.files if file.is_open]:
            raise ValueError(f"{self.name}: {', '.join(left_open)} is open; pin the benchmark to its file first")
        if len(self.files) == 1 and self.files[0].is_plain:
            return str(self.files[0].sha256)
        return digest([file.reading for file in self.files])

    def on(self, *, name: str, files: tuple[QuestionFile, ...], questions: int) -> Self:
        """Another benchmark, of these questions, that is asked and sampled as this one is."""
        return type(self)(**(dict(self) | {"name": name, "files": files, "questions": questions}))

    def smaller(self, *, questions: int | None, samples: int | None, declared: Self | None = None) -> Self:
        """The same with fewer questions or samples: another protocol, as its name and its digest say.

        `declared` is what the name compares with, when this is a changed copy already.
        """
        if samples is not None and not 1 <= samples <= len(self.seeds):
            raise AskedWrongly(f"samples = {samples}: {self.name} has between 1 and {len(self.seeds)}")
        if questions is not None and not 1 <= questions <= self.rows:
            raise AskedWrongly(f"questions = {questions}: {self.name} has between 1 and {self.rows}")
        fewer = {"questions": questions or self.questions, "seeds": self.seeds[: samples or len(self.seeds)]}
        return self.model_copy(update=fewer).named_after(declared or self)

    def named_after(self, declared: Self) -> Self:
        """The same under a name that says what differs from the declaration: `math500 (50 × 1 of 500 × 4)`."""
        if self.name != declared.name:
            raise AskedWrongly(
                f"benchmark.name = {self.name!r}: the name is the declaration's, {declared.name}; "
                "what was changed is added to it"
            )
        differences = ", ".join(_differences(self, declared))
        return self.model_copy(update={"name": f"{self.name} ({differences})"}) if differences else self

    def protocol(self, *, grader: str, second_grader: str | None = None, judge: str | None = None) -> Protocol:
        """Everything that a score of this benchmark depends on beside the model."""
        return Protocol(
            benchmark=self.name,
            questions=self.questions,
            samples_per_question=len(self.seeds),
            data_sha256=self.data_sha256,
            prompt=self.prompt,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            limit_tokens=self.limit_tokens,
            seeds=self.seeds,
            grader=grader,
            second_grader=second_grader,
            judge=judge,
        )


_NUMBERS = ("temperature", "top_p", "top_k", "limit_tokens")


def _differences(changed: Benchmark, declared: Benchmark) -> list[str]:
    """What a changed benchmark's name says: counts and numbers with their values, texts and lists by their kind."""
    counts = [f"{one.questions} × {len(one.seeds)}" for one in (changed, declared)]
    said = [] if counts[0] == counts[1] else [" of ".join(counts)]
    if changed.seeds != declared.seeds[: len(changed.seeds)]:
        said.append("other seeds")
    if [file.reading for file in changed.files] != [file.reading for file in declared.files]:
        said.append("other data")
    if changed.prompt != declared.prompt:
        said.append("another prompt")
    numbers = [field for field in _NUMBERS if getattr(changed, field) != getattr(declared, field)]
    return said + [f"{field} = {getattr(changed, field)}" for field in numbers]


def names() -> list[str]:
    """The benchmarks there are: the files of the folder."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))


def find(name: str) -> Benchmark:
    """The benchmark of that name, or that a `.toml` or `.json` file declares.

    An unknown one is answered with those there are.
    """
    if name.endswith((".toml", ".json")):
        return _read(Path(name).expanduser())
    if name.endswith((".jsonl", ".parquet")):
        raise AskedWrongly(
            f"{name} holds questions, and a benchmark says how they are asked; `opd show benchmark {name}` writes "
            "such a declaration for a .jsonl file"
        )
    if name not in names():
        raise AskedWrongly(f"no benchmark {name!r}: give a .toml file, or one of {', '.join(names())}")
    found: Benchmark = importlib.import_module(f"{benchmarks.__name__}.{name}").BENCHMARK
    return found


def instructions() -> dict[str, tuple[str, str]]:
    """By name, the data and the prompt of each benchmark: what a model that is trained will be asked."""
    return {name: (one.files[0].data, one.prompt) for name in names() for one in [find(name)]}


def _read(path: Path) -> Benchmark:
    """The benchmark that a file declares; its data may lie beside it."""
    found = read(Benchmark, path)
    beside = [
        file.model_copy(update={"data": str(path.parent / file.data)})
        if (path.parent / file.data).is_file()
        else file
        for file in found.files
    ]
    return found.model_copy(update={"files": tuple(beside)})
