"""A task: everything that `task.toml` says, with one digest over all of it.

    schema_version, [task], [agent], [verifier], [environment] …    Harbor's own keys, kept as they are
    [metadata.opd]                                                  the contract of the task: this file

Harbor's tables are its own business and may hold what it likes; the contract is strict. What follows from the
contract, such as Harbor's time limits, is not typed a second time: `opd task build` renders it.
"""

import re
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Text = Annotated[str, Field(min_length=1)]


def _inside(path: str) -> str:
    """The glob, when it is relative, leads nowhere but down, and has `**` only between slashes."""
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts:
        raise AskedWrongly(f"{path!r}: write a path that is relative and has no .. in it")
    if any("**" in part and part != "**" for part in parts):
        raise AskedWrongly(f"{path!r}: ** stands for folders, between slashes; write * for letters of a name")
    return path


Glob = Annotated[str, AfterValidator(_inside)]

NAME = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9._-]+/(?!\.)[A-Za-z0-9._-]+")


class ModelInput(Settings):
    """A model that is given and stays as it is."""

    source: Text
    """`opd:<task>/<name>`, or `owner/name` on the hub."""
    revision: Commit | None = None
    """Commit on the hub; null for what ships with the package."""
    files_sha256: Sha256 | None = None
    """Over the digests of the directory's files, like `Score.model_digest`; null where nobody has taken it."""
    parameters: PositiveInt | None = None
    architecture: Text | None = None
    """As in the model's config.json."""

    @property
    def is_pinned(self) -> bool:
        """Whether another model of that name would be noticed."""
        return self.revision is not None or self.files_sha256 is not None


class DataInput(Settings):
    """The training problems."""

    source: Text
    """`opd:<task>/<file>`, or a path: as it is, or below `data/`."""
    sha256: Sha256
    """Of the file's bytes."""
    rows: PositiveInt
    """How many take part, after `where`."""
    where: dict[str, str] = {}
    """Only the rows whose fields have these values take part; the phases get a file of nothing but them."""
    chosen_sha256: Sha256 | None = None
    """Of that file: the chosen rows' lines as they are. Null where all rows take part."""
    description: str = ""
    """What it is, and which other forms of it go around with which digests."""

    @model_validator(mode="after")
    def _chosen(self) -> Self:
        if bool(self.where) != (self.chosen_sha256 is not None):
            raise AskedWrongly("where and chosen_sha256 go together: the digest is that of the rows that are chosen")
        return self

    @property
    def given_sha256(self) -> str:
        """Of the file that the phases get."""
        return self.chosen_sha256 or self.sha256


class Surface(Settings):
    """What a patch may touch, and what it may bring."""

    editable: Annotated[tuple[Glob, ...], Field(min_length=1)]
    """Globs over the workspace: `*` within a folder, `**` through folders."""
    frozen: tuple[Glob, ...] = ()
    """Globs that no patch touches, whatever `editable` says; the task is refused where both name a file."""
    suffixes: tuple[Annotated[str, Field(pattern=r"^\.[a-z0-9]+$")], ...] = (
        ".py",
        ".toml",
        ".sh",
        ".json",
        ".md",
        ".txt",
    )
    """File names of a patch end in one of these."""
    largest_patch_bytes: PositiveInt = 1 << 20
    largest_file_bytes: PositiveInt = 256 << 10

    def covers(self, path: str) -> bool:
        """Whether a patch may touch the file of this relative path, with slashes."""
        return any(matches(glob, path) for glob in self.editable) and not self.is_frozen(path)

    def is_frozen(self, path: str) -> bool:
        """Whether the file of this relative path is named as one that no patch touches."""
        return any(matches(glob, path) for glob in self.frozen)


class Budgets(Settings):
    """How long each phase may take, in active seconds: suspension is not charged."""

    explore_seconds: PositiveFloat
    formal_seconds: PositiveFloat
    """From the start of `run.sh` to its end."""
    reserve_seconds: NonNegativeFloat
    """Of the formal seconds, kept free at the end so that the last checkpoint is whole."""
    validation_seconds: PositiveFloat
    """For one artifact."""
    final_seconds: PositiveFloat
    """For one final evaluation."""
    formal_retries: NonNegativeInt = 2
    """Further formal attempts of the same patch after a failure of the infrastructure; for no other reason."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.reserve_seconds >= self.formal_seconds:
            raise AskedWrongly(
                f"reserve_seconds = {self.reserve_seconds:g} leaves nothing of formal_seconds = "
                f"{self.formal_seconds:g}; make it smaller"
            )
        return self


class QuestionSource(Settings):
    """A file of questions."""

    source: Text
    """As the benchmark names it."""
    sha256: Sha256
    rows: PositiveInt


class Measure(Settings):
    """How a model is measured. Two measures that differ in anything but name give numbers that don't compare."""

    metric: Text
    """What the number is called."""
    direction: Literal["maximize", "minimize"] = "maximize"
    benchmark: Text
    """One of `opd show benchmarks`."""
    questions: PositiveInt
    seeds: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
    """One for each sample of a question."""
    prompt: Text
    """The user's turn, with {problem} where the problem stands."""
    temperature: PositiveFloat
    top_p: Annotated[float, Field(gt=0, le=1)]
    top_k: NonNegativeInt = 0
    """0: no limit."""
    limit_tokens: PositiveInt
    """Cap on new tokens."""
    context_tokens: PositiveInt | None = None
    """Most tokens of prompt and answer together; null: as many as the model takes."""
    judged: bool = False
    """Whether the task's verifier model settles what the rules reject."""
    files: Annotated[tuple[QuestionSource, ...], Field(min_length=1)]

    @property
    def samples_per_question(self) -> int:
        """How often each question is asked."""
        return len(self.seeds)

    @property
    def samples(self) -> int:
        """How many answers the mean is over."""
        return self.questions * self.samples_per_question


class ArtifactRule(Settings):
    """Which folders that the formal run leaves count, and which of them is official."""

    pattern: Annotated[Glob, Field(pattern=r"^([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+-\*$")] = "checkpoints/checkpoint-*"
    """Relative to where `run.sh` ran; the star is a number that grows with progress."""
    most: PositiveInt
    """So many of the greatest numbers are validated and evaluated, each on its own."""
    official: Literal["best_valid"] = "best_valid"
    """The best final score among the valid ones."""
    architectures: Annotated[tuple[Text, ...], Field(min_length=1)]
    """What config.json may name."""
    files: tuple[Glob, ...] = (
        "config.json", "generation_config.json", "*.safetensors", "model.safetensors.index.json",
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "vocab.json", "merges.txt", "chat_template.jinja", "opd.json", ".complete",
    )  # fmt: skip
    """What such a folder may hold."""


class Reference(Settings):
    """A published number to set a result beside."""

    name: Text
    of: Literal["proxy", "final"]
    """By which of the task's two measures it was taken."""
    score: Annotated[float, Field(ge=0, le=1)]
    correct: NonNegativeInt | None = None
    """Null where only the share is known."""
    samples: PositiveInt
    stderr: NonNegativeFloat | None = None
    """Clustered by question; null where it is not known."""
    cut_short: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of samples that the cap ended; null where it is not known."""
    source: Text
    """Where the number comes from."""


class Needs(Settings):
    """What the programs of an attempt are given of the machine."""

    network: Literal[False] = False
    """None, in no phase."""
    gpus: NonNegativeInt = 0
    cpus: PositiveInt = 1
    memory_bytes: PositiveInt
    disk_bytes: PositiveInt
    """What a phase may write."""
    processes: PositiveInt = 512


class Tool(StrEnum):
    """A command that the explorer finds on its path."""

    FAST_EVAL = "fast-eval"
    TIMER = "timer"
    NOTE = "note"
    SUBMIT = "submit"
    NO_CANDIDATE = "no-candidate"


class Contract(Settings):
    """The table [metadata.opd]."""

    brief: Text
    """The first thing that the explorer reads: what is to be improved, and how the shipped recipe works."""
    student: ModelInput
    teacher: ModelInput
    verifier: ModelInput | None = None
    """The judge of what the rules reject; null: the rules decide alone."""
    data: DataInput
    workspace: Literal["opd", "folder"]
    """The tree that is edited: `opd`'s own training code, or the folder `workspace/` beside task.toml."""
    run: str | None = None
    """The text of `run.sh` at the workspace's root; null where the folder brings its own."""
    surface: Surface
    budgets: Budgets
    proxy: Measure
    """What exploration may measure, as often as it likes."""
    final: Measure
    """What counts; nothing of it is to be had in exploration and in the formal run."""
    artifacts: ArtifactRule
    references: tuple[Reference, ...] = ()
    forbidden: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Each a sentence."""
    needs: Needs
    tools: tuple[Tool, ...] = tuple(Tool)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.workspace == "opd") != (self.run is not None):
            raise AskedWrongly(
                f'workspace = "{self.workspace}": run is the text of run.sh for "opd", and left out for "folder", '
                "which brings a run.sh"
            )
        if self.verifier is None and (self.proxy.judged or self.final.judged):
            raise AskedWrongly("judged = true and there is no [metadata.opd.verifier] to judge; name one")
        return self

    @property
    def fixed_inputs(self) -> dict[str, ModelInput | DataInput]:
        """What no phase may change, by role."""
        inputs: dict[str, ModelInput | DataInput] = {"student": self.student, "teacher": self.teacher}
        return inputs | {"data": self.data} | ({"verifier": self.verifier} if self.verifier else {})


class _Harbors(Settings):
    """A table of Harbor's, which may hold keys that are unknown here."""

    model_config = ConfigDict(extra="allow")


class Package(_Harbors):
    """The table [task]."""

    name: str
    """`organisation/name`."""
    version: str = "1.0.0"
    description: str = ""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if NAME.fullmatch(self.name) is None:
            raise AskedWrongly(f"task.name = {self.name!r}: write it as organisation/name, of letters, digits, . _ -")
        return self


class Metadata(_Harbors):
    """The table [metadata], of which `opd` is ours."""

    opd: Contract


class Task(Settings):
    """The whole of `task.toml`."""

    schema_version: Literal["1.4"]
    """Of Harbor's keys."""
    task: Package
    metadata: Metadata
    agent: dict[str, Any] = {}
    verifier: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    solution: dict[str, Any] = {}
    artifacts: list[Any] = []
    source: str | None = None

    @property
    def name(self) -> str:
        """`organisation/name`."""
        return self.task.name

    @property
    def short_name(self) -> str:
        """The name without its organisation; what a case id holds."""
        return self.task.name.partition("/")[2]

    @property
    def contract(self) -> Contract:
        """The table [metadata.opd]."""
        return self.metadata.opd


def matches(glob: str, path: str) -> bool:
    """Whether a relative path is one that a glob names: `*` and `?` within a folder, `**` through folders."""
    return _pattern(glob).fullmatch(path) is not None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    meaning = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts), re.DOTALL)
