"""The settings of a run, and how its parts are built from them.

One TOML file a run; every key has a default or is required; nothing inherits from another file. `--set
section.key=value` is the only override. The run writes the resolved form to `recipe.json`, from which
`opd train recipe.json` makes the same run. `docs/recipe.md` lists every key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializeAsAny,
    field_serializer,
    field_validator,
    model_validator,
)

from opd.models.adapters import LoraSettings, attach
from opd.models.chat import check_fits, check_template
from opd.models.exact.model import exact_model
from opd.models.interfaces import Sampler, Sampling, Scorer
from opd.models.layers import compile_layers, recompute_layers
from opd.models.load import LanguageModel, find_model, load_model
from opd.models.machine import choose_device
from opd.models.samplers import Chosen, EngineChoice, choose_sampler
from opd.models.scorers import ScorerChoice, choose_scorer
from opd.models.served.outline import outline
from opd.models.served.scorer import check_served, served_scorer
from opd.models.served.settings import ServedSettings
from opd.models.vllm.sampler import check_sampling
from opd.models.vllm.scorer import check_scoring
from opd.records.errors import AskedWrongly
from opd.records.files import sha256
from opd.records.metrics import LeftOut
from opd.records.places import locate
from opd.records.rollouts import Prompt
from opd.records.settings import Settings, validated
from opd.train import objective as objectives
from opd.train.clock import Budget, BudgetSettings
from opd.train.corpus.duplicates import Repetition
from opd.train.credit import CreditSettings
from opd.train.data import DataSettings, check_repeats, read_prompts
from opd.train.objective import Divergence, Objective
from opd.train.order import PromptOrder
from opd.train.origins import Origins, check_same, origins_of
from opd.train.pairing import Speaker, mismatch
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.retention import BestBy, Retention
from opd.train.reward import Reward, RewardSettings
from opd.train.sink import SinkSettings
from opd.train.update import OptimizerSettings, Updater

Dtype = Literal["float32", "bfloat16", "float64"]


class ModelSettings(Settings):
    """A model and the precision that it runs in."""

    model: str
    """`opd:<task>/<name>`, a directory, or `owner/name` on the hub."""
    revision: str | None = None
    """Commit on the hub, or its beginning."""
    dtype: Dtype = "float32"
    """What it computes in. The student's master weights are never narrower than float32."""
    parameters: PositiveInt | None = None
    """How many it must have; lets the memory be planned before the model is there."""


class RolloutSettings(Settings):
    """What the student samples in a step."""

    prompts_per_step: Annotated[int, Field(gt=0, le=65_536)]
    """Problems of a step."""
    per_prompt: Annotated[int, Field(gt=0, le=4_096)]
    """Rollouts of each prompt."""
    limit_tokens: Annotated[int, Field(gt=0, le=1 << 20)]
    """Cap on new tokens; a rollout that reaches it is counted in `cut_short`, and trained as `credit` says."""
    temperature: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Of sampling, of the teacher's score and of the update alike."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Below 1 only for objectives that allow it: the samples no longer come from the softmax that is scored."""
    top_k: NonNegativeInt = 0
    """0 for no limit; otherwise as for top_p."""
    largest_batch: Annotated[int, Field(gt=0, le=65_536)] = 256
    """Most sequences that are sampled at once; affects memory, and results only by rounding."""

    @property
    def sampling(self) -> Sampling:
        """How rollouts are drawn."""
        return Sampling(
            temperature=self.temperature, top_p=self.top_p, top_k=self.top_k, limit_tokens=self.limit_tokens
        )


class SaveSettings(Settings):
    """Which checkpoints are written and kept. The last step is always saved."""

    every: PositiveInt = 20
    """Steps between two checkpoints."""
    keep: PositiveInt = 3
    """The newest by step."""
    keep_every: PositiveInt | None = None
    """Checkpoints of its multiples are never removed; null: all but the newest are."""
    keep_best: NonNegativeInt = 0
    """So many of the best stay beside the newest; of them only multiples of `every`."""
    best_by: BestBy = "kl"
    """Mean over the steps since the checkpoint before: the lowest kl, the lowest loss, or the highest reward."""
    state_every: NonNegativeInt | None = None
    """Steps between two trainer states, from which `--resume` goes on; null: with every checkpoint; 0: never."""
    rollouts: bool = True
    """Keep every step's tokens and log-probabilities under `rollouts/`."""
    alternatives: Annotated[int, Field(ge=0, le=100)] = 0
    """With each of those tokens, so many of the teacher's likeliest, for the page of rollouts. Costs one more product
    with the teacher's head; teaches nothing."""

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.keep_every is not None and self.keep_every % self.every:
            raise AskedWrongly(
                f"keep_every = {self.keep_every} is no multiple of every = {self.every}, so that most of its "
                "steps have no checkpoint to keep; make it one"
            )
        if self.alternatives and not self.rollouts:
            raise AskedWrongly(
                f"alternatives = {self.alternatives} are kept with the rollouts, and rollouts = false keeps none; "
                "set alternatives = 0 or rollouts = true"
            )
        return self

    @property
    def retention(self) -> Retention:
        """Which checkpoints stay."""
        return Retention(
            keep=self.keep,
            keep_every=self.keep_every,
            every=self.every,
            keep_best=self.keep_best,
            best_by=self.best_by,
        )

    def state_due(self, step: int, *, ends: bool) -> bool:
        """Whether a trainer state is written after this step; `ends`: the run ends with it."""
        every = self.every if self.state_every is None else self.state_every
        return every > 0 and (ends or step % every == 0)


class MachineSettings(Settings):
    """Where the run happens; none of this changes what is computed, but for rounding, and vLLM's noise is its own."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes the GPU when there is one."""
    threads: Annotated[int, Field(gt=0, le=1_024)] = 1
    """CPU threads; 1 is the fastest for small models and makes a run repeat bit for bit."""
    micro_batch_tokens: Annotated[int, Field(gt=0, le=1 << 24)] = 16_384
    """Positions of one forward and backward pass; a longer rollout has one to itself."""
    head_chunk_tokens: Annotated[int, Field(gt=0, le=1 << 24)] = 128
    """Tokens whose logits exist at once."""
    engine: EngineChoice = "auto"
    """What samples: `engine`, `plain` (transformers' own forward, slow), `vllm` (a copy of the weights, sent anew for
    every step), or `auto`: the engine where it fits. On a GPU the engine steps by `graphs`, and up to 8 sequences by
    the `persistent` kernel where that fits; either can be asked for by name."""
    exact: bool = False
    """The student's log-probabilities are the sampler's to the last bit: an exact forward pass, where the persistent
    kernel fits."""
    scorer: ScorerChoice = "plain"
    """What scores with the teacher: `plain`; `vllm`, whose copy is then the only one on the GPU; or `served`, by the
    servers in `served`, and nothing of the teacher but its tokenizer is loaded here."""
    served: ServedSettings | None = None
    """The teacher's servers."""
    vllm_sleeps: bool = False
    """Between two calls vLLM gives its memory back, and is sent its weights anew. For one in a process."""
    recompute_layers: bool = False
    """Gradient checkpointing: a layer keeps only its input and runs again in the backward pass."""
    compile: bool = False
    """`torch.compile` for the layers of student and teacher, in scoring and update; takes a minute or more first."""


class Recipe(Settings):
    """Everything that decides a run."""

    student: ModelSettings
    teacher: ModelSettings
    data: DataSettings
    rollouts: RolloutSettings
    objective: SerializeAsAny[Objective]
    """`name`, and the settings of that objective."""
    credit: CreditSettings = CreditSettings()
    reward: RewardSettings | None = None
    """Correctness beside the teacher; left out, no grader is started."""
    lora: LoraSettings | None = None
    """Low-rank adapters are trained; left out, all of the student's weights are."""
    optimizer: OptimizerSettings
    budget: BudgetSettings
    save: SaveSettings = SaveSettings()
    machine: MachineSettings = MachineSettings()
    sinks: SinkSettings = SinkSettings()
    seed: NonNegativeInt = 0
    """Of the order of rows and of the sampling noise."""

    @field_validator("objective", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if isinstance(value, Objective):
            return value
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise AskedWrongly(f"objective needs a name; there are: {', '.join(objectives.names())}")
        settings = {key: setting for key, setting in value.items() if key != "name"}
        return validated(objectives.find(value["name"]), settings, source=value["name"])

    @field_serializer("objective")
    def _with_name(self, objective: Objective) -> dict[str, Any]:
        return {"name": objective.name, **objective.model_dump(mode="json")}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_template(self.data.prompt)
        if self.objective.needs_full_support and not self.rollouts.sampling.full_support:
            raise AskedWrongly(
                f"rollouts: top_p = {self.rollouts.top_p}, top_k = {self.rollouts.top_k} with objective "
                f"{self.objective.name}: the samples would not come from the softmax that is scored; "
                "set top_p = 1 and top_k = 0"
            )
        if self.reward is not None and not self.objective.takes_reward:
            raise AskedWrongly(f"reward: objective {self.objective.name} takes none; leave the section out")
        if self.save.keep_best and self.save.best_by == "reward" and self.reward is None:
            raise AskedWrongly('save.best_by = "reward", and the recipe has no reward; add one, or choose kl or loss')
        if self.budget.max_wall_seconds is not None and self.budget.reserve_seconds >= self.budget.max_wall_seconds:
            raise AskedWrongly(
                f"budget: reserve_seconds = {self.budget.reserve_seconds} leaves nothing of max_wall_seconds = "
                f"{self.budget.max_wall_seconds}"
            )
        return self

    @model_validator(mode="after")
    def _within_backends(self) -> Self:
        if self.machine.engine == "vllm":
            check_sampling(self.rollouts.sampling)
        if self.machine.vllm_sleeps and self.machine.engine == self.machine.scorer == "vllm":
            raise AskedWrongly(
                "machine.vllm_sleeps with vLLM as sampler and as scorer: its sleep is of the whole process, and one "
                "would discard the other's weights; set it to false, or let one of the two be another"
            )
        if self.machine.scorer == "vllm":
            check_scoring(temperature=self.rollouts.temperature, alternatives=self.save.alternatives)
        if self.machine.scorer == "served":
            check_served(self.machine.served, temperature=self.rollouts.temperature)
        if self.machine.scorer != "plain" and isinstance(self.objective, Divergence):
            raise AskedWrongly(
                f'machine.scorer = "{self.machine.scorer}" with objective {self.objective.name}, which compares '
                'whole distributions: vLLM gives the sampled tokens\' alone; set machine.scorer = "plain"'
            )
        return self

    @model_validator(mode="after")
    def _within_exact(self) -> Self:
        if not self.machine.exact:
            return self
        faults = {
            f'machine.engine = "{self.machine.engine}"': self.machine.engine in {"plain", "vllm", "graphs"},
            "rollouts.top_p or top_k": not self.rollouts.sampling.full_support,
            f'student.dtype = "{self.student.dtype}"': self.student.dtype != "bfloat16",
            "lora": self.lora is not None,
        }
        if wrong := [name for name, at_fault in faults.items() if at_fault]:
            raise AskedWrongly(
                f"machine.exact with {', '.join(wrong)}: exact are the persistent kernel's samples from all of a "
                "bfloat16 student's distribution, of whole weights; change that, or set machine.exact = false"
            )
        return self

    @property
    def reads_teacher(self) -> bool:
        """Whether the teacher's weights have to be here: not for servers that a recorded probe is compared with."""
        return self.machine.scorer != "served" or self.machine.served is None or self.machine.served.probe is None

    @property
    def order_seed(self) -> int | None:
        """The seed of the order of rows; None for that of the file."""
        return self.seed if self.data.shuffle else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a run is made of."""

    student: LanguageModel
    prompts: list[Prompt]
    order: PromptOrder
    sampler: Sampler
    sampled_by: str  # which sampler it is; with the reason where it is not the engine
    scorer: Scorer
    reward: Reward | None
    updater: Updater
    budget: Budget  # its clock runs from the beginning of the process, so that all of the start is paid for
    device: str
    data_sha256: str
    origins: Origins
    repetition: Repetition
    left_out: LeftOut
    teacher: LanguageModel
    ranks: Ranks = ALONE


def build(
    recipe: Recipe, *, began_with: Origins | None = None, began: float | None = None, ranks: Ranks = ALONE
) -> Parts:
    """The parts of the run, of this rank; the only place that turns names into objects.

    `began_with` are the models that a run to go on with was made from; `began` is when its process was started, by
    `time.monotonic`; None: now. Raises `AskedWrongly` for a model, teacher or data file that can't be used, or for
    models that are not those.
    """
    budget = Budget(recipe.budget, began=began)
    torch.set_num_threads(recipe.machine.threads)
    device = choose_device(recipe.machine.device)
    student_at = find_model(recipe.student.model, recipe.student.revision)
    teacher_at = find_model(recipe.teacher.model, recipe.teacher.revision, weights=recipe.reads_teacher)
    origins = origins_of(student_at, teacher_at)
    if began_with is not None:
        check_same(began_with, origins, places={"student": recipe.student.model, "teacher": recipe.teacher.model})
    student = _load(recipe.student, student_at, device)
    if recipe.machine.scorer == "served":
        teacher = _of_size(recipe.teacher, outline(teacher_at, dtype=recipe.teacher.dtype))
    else:
        teacher = _load(recipe.teacher, teacher_at, "cpu" if recipe.machine.scorer == "vllm" else device)
    teacher.module.requires_grad_(False)
    if fault := mismatch(*(Speaker(tokenizer=one.tokenizer, stop_ids=one.stop_ids) for one in (student, teacher))):
        raise AskedWrongly(fault)
    if recipe.lora is not None:
        attach(student.module, recipe.lora, seed=recipe.seed)
    student = _shape_layers(recipe.machine, student, teacher)
    if ranks.count > 1 and "vllm" in (recipe.machine.engine, recipe.machine.scorer):
        raise AskedWrongly(f"vLLM runs in one process here, and the run has {ranks.count} ranks; leave it out")
    rows = read_prompts(recipe.data, student.tokenizer, graded=recipe.reward is not None)
    prompts = rows.prompts
    repetition = check_repeats(recipe.data, prompts)
    for model in (student, teacher):
        check_fits(model, prompts, limit_tokens=recipe.rollouts.limit_tokens)
    chosen = sampler_of(recipe, student, prompts)
    return Parts(
        student=student,
        prompts=prompts,
        order=PromptOrder(rows=len(prompts), seed=recipe.order_seed),
        sampler=chosen.sampler,
        sampled_by=chosen.said,
        scorer=_scorer(recipe, teacher, prompts, ranks),
        reward=None if recipe.reward is None else Reward(recipe.reward, student),
        updater=_updater(recipe, student, teacher, ranks, sampler_differs=chosen.differs),
        budget=budget,
        device=device,
        data_sha256=sha256(locate(recipe.data.path)),
        origins=origins,
        repetition=repetition,
        left_out=rows.left_out,
        teacher=teacher,
        ranks=ranks,
    )


def sampler_of(recipe: Recipe, student: LanguageModel, prompts: Sequence[Prompt]) -> Chosen:
    """What draws the rollouts of these prompts from the student, as the recipe asks for it."""
    return choose_sampler(
        student,
        recipe.rollouts.sampling,
        engine=recipe.machine.engine,
        largest_batch=recipe.rollouts.largest_batch,
        prompt_tokens=_longest(prompts),
        sleeps=recipe.machine.vllm_sleeps,
    )


def _scorer(recipe: Recipe, teacher: LanguageModel, prompts: Sequence[Prompt], ranks: Ranks) -> Scorer:
    sequence_tokens = _longest(prompts) + recipe.rollouts.limit_tokens
    if recipe.machine.scorer == "served":
        assert recipe.machine.served is not None, "a recipe without it was refused"
        return served_scorer(
            recipe.machine.served,
            teacher.path,
            dtype=recipe.teacher.dtype,
            sequence_tokens=sequence_tokens,
            alternatives=recipe.save.alternatives,
            ranks=ranks.count,
            first=ranks.first,
        )
    return choose_scorer(
        teacher,
        scorer=recipe.machine.scorer,
        temperature=recipe.rollouts.temperature,
        sequence_tokens=sequence_tokens,
        largest_tokens=recipe.machine.micro_batch_tokens,
        chunk_tokens=recipe.machine.head_chunk_tokens,
        alternatives=recipe.save.alternatives,
        sleeps=recipe.machine.vllm_sleeps,
    )


def _longest(prompts: Sequence[Prompt]) -> int:
    return max((len(prompt.token_ids) for prompt in prompts), default=1)


def _updater(
    recipe: Recipe, student: LanguageModel, teacher: LanguageModel, ranks: Ranks, *, sampler_differs: bool
) -> Updater:
    return Updater(
        student,
        recipe.objective,
        recipe.optimizer,
        teacher=teacher,
        temperature=recipe.rollouts.temperature,
        largest_tokens=recipe.machine.micro_batch_tokens,
        chunk_tokens=recipe.machine.head_chunk_tokens,
        sampler_differs=sampler_differs,
        ranks=ranks,
    )


def _shape_layers(machine: MachineSettings, student: LanguageModel, teacher: LanguageModel) -> LanguageModel:
    """The student, whose layers and the teacher's are run as the recipe says."""
    if machine.compile:
        compile_layers(teacher.module)
    if machine.exact:
        student = exact_model(student)
    elif machine.compile:
        compile_layers(student.module)
    if machine.recompute_layers:
        recompute_layers(student.module)
    return student


def _load(settings: ModelSettings, path: Path, device: str) -> LanguageModel:
    return _of_size(settings, load_model(path, dtype=settings.dtype, device=device))


def _of_size(settings: ModelSettings, model: LanguageModel) -> LanguageModel:
    """The model, which has as many parameters as the recipe says."""
    if settings.parameters is not None and model.parameters != settings.parameters:
        raise AskedWrongly(
            f"{settings.model} has {model.parameters:,} parameters, the recipe says {settings.parameters:,}"
        )
    return model
