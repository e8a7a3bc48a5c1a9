"""The settings of a run, and how its parts are built from them.

One TOML file a run; every key has a default or is required; nothing inherits from another file. `--set
section.key=value` is the only override. The run writes the resolved form to `recipe.json`, from which
`opd train recipe.json` makes the same run. `docs/recipe.md` lists every key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    SerializeAsAny,
    field_serializer,
    field_validator,
    model_validator,
)

from opd.models.adapters import LoraSettings, attach
from opd.models.chat import check_fits, check_template
from opd.models.engine.sampler import DraftsChoice
from opd.models.exact.model import exact_model
from opd.models.interfaces import Sampler, Sampling, Scorer
from opd.models.layers import compile_layers, recompute_layers
from opd.models.load import LanguageModel, find_model
from opd.models.machine import choose_device
from opd.models.samplers import OURS, Chosen, EngineChoice, choose_sampler
from opd.models.scorers import ScorerChoice
from opd.models.served.settings import ServedSettings
from opd.models.vllm.sampler import check_sampling
from opd.models.vllm.team import Team, unshared
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
from opd.train.model import ModelSettings, load
from opd.train.objective import Divergence, Objective
from opd.train.order import PromptOrder
from opd.train.origins import Origins, check_same, origins_of
from opd.train.pairing import speaker_of
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.ranks.sharded import ShardedMasters
from opd.train.ranks.sharing import Sharing, check_sharing, shared
from opd.train.retention import SaveSettings
from opd.train.reward import Reward, RewardSettings
from opd.train.scoring import Scoring, scorer_of
from opd.train.sink import SinkSettings
from opd.train.teachers import (
    NAMES,
    TeacherName,
    TeacherSettings,
    as_seen,
    check_pair,
    check_taught,
    check_teacher,
    load_teacher,
    role,
    seen_by_teachers,
)
from opd.train.update import OptimizerSettings, Updater


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
    drafts: DraftsChoice = "off"
    """`history`: while up to 4 sequences run, the engine checks guesses of what follows; the tokens are the same."""
    exact: bool = False
    """The student's log-probabilities are the sampler's to the last bit: every sum is formed in the order of the
    persistent kernel, or of the graphs where that does not fit or `engine` says so. On a GPU, in bfloat16."""
    scorer: ScorerChoice = "plain"
    """What scores with the teacher: `plain`; `vllm`, whose copy is then the only one on the GPU; or `served`, by the
    servers in `served`, and nothing of the teacher but its tokenizer is loaded here."""
    served: ServedSettings | None = None
    """The teacher's servers."""
    vllm_sleeps: bool = False
    """Between two calls vLLM gives its memory back, and is sent its weights anew. For one in a process."""
    tensor_parallel: Annotated[int, Field(gt=0, le=1_024)] = 1
    """How many ranks are one vLLM together, as sampler and as scorer: each GPU has a part of every tensor."""
    shard: Sharing = "none"
    """What the ranks of a run share among them: nothing; master weights and AdamW's memory, a share each
    (`optimizer`); the layers' weights and gradients as well, but while sampling (`full`: FSDP2)."""
    link_bytes_per_second: PositiveFloat | None = None
    """Of a ring of all ranks, as `benchmarks/bench_ranks.py` measures it, for `opd plan`; null: assumed."""
    recompute_layers: bool = False
    """Gradient checkpointing: a layer keeps only its input and runs again in the backward pass."""
    compile: bool = False
    """`torch.compile` for the layers of student and teacher, in scoring and update; takes a minute or more first."""


class Recipe(Settings):
    """Everything that decides a run."""

    student: ModelSettings
    teacher: ModelSettings | None = Field(default=None, exclude_if=lambda one: one is None)
    """Of all rows."""
    teachers: dict[Annotated[str, Field(pattern=NAMES)], TeacherSettings] = Field(
        default={}, exclude_if=lambda some: not some
    )
    """Several in place of the one, by the name that `data.teacher_field` of a row has."""
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
    def _taught(self) -> Self:
        check_taught(
            self.teacher,
            self.teachers,
            field=self.data.teacher_field,
            elsewhere=self.machine.scorer != "plain" or self.machine.served is not None,
        )
        return self

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
        check_sharing(self.machine.shard, exact=self.machine.exact, adapters=self.lora is not None)
        if self.machine.engine == "vllm":
            check_sampling(self.rollouts.sampling)
        if self.machine.vllm_sleeps and self.vllms > 1:
            raise AskedWrongly(
                f"machine.vllm_sleeps with vLLM {self.vllms} times in this process, as sampler or scorer: its sleep "
                "is of the whole process, and one would discard another's weights; set it to false, or leave one"
            )
        if self.machine.tensor_parallel > 1 and not self.vllms:
            raise AskedWrongly(
                f"machine.tensor_parallel = {self.machine.tensor_parallel} without vLLM, which alone spans several "
                'GPUs; set machine.engine = "vllm" or machine.scorer = "vllm", or tensor_parallel = 1'
            )
        for name, teacher in self.all_teachers.items():
            check_teacher(
                name,
                teacher,
                temperature=self.rollouts.temperature,
                alternatives=self.save.alternatives,
                compares=self.objective.name if isinstance(self.objective, Divergence) else None,
            )
        return self

    @model_validator(mode="after")
    def _within_exact(self) -> Self:
        if not self.machine.exact:
            return self
        faults = {
            f'machine.engine = "{self.machine.engine}"': self.machine.engine in {"plain", "vllm"},
            "rollouts.top_p or top_k": not self.rollouts.sampling.full_support,
            f'student.dtype = "{self.student.dtype}"': self.student.dtype != "bfloat16",
            "lora": self.lora is not None,
            f'machine.drafts = "{self.machine.drafts}"': self.machine.drafts != "off",
        }
        if wrong := [name for name, at_fault in faults.items() if at_fault]:
            raise AskedWrongly(
                f"machine.exact with {', '.join(wrong)}: exact are the engine's samples from all of a bfloat16 "
                "student's distribution, of whole weights; change that, or set machine.exact = false"
            )
        return self

    @property
    def all_teachers(self) -> dict[TeacherName, TeacherSettings]:
        """Each teacher by its name; the only one has none."""
        found: dict[TeacherName, TeacherSettings] = {}
        if self.teacher is not None:
            scorer, served = self.machine.scorer, self.machine.served
            found[None] = TeacherSettings(**dict(self.teacher), scorer=scorer, served=served)
        return found | self.teachers

    @property
    def vllms(self) -> int:
        """How many of sampler and scorers are vLLM in this process."""
        return sum(one == "vllm" for one in (self.machine.engine, *(a.scorer for a in self.all_teachers.values())))

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
    sampled: LanguageModel  # what the sampler reads: the student, or its layers' shares where it is sent them
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
    teachers: Mapping[TeacherName, LanguageModel]
    ranks: Ranks = ALONE
    shares: ShardedMasters | None = None  # null: each rank has all of the master weights


def build(
    recipe: Recipe, *, began_with: Origins | None = None, began: float | None = None, ranks: Ranks = ALONE
) -> Parts:
    """The parts of the run, of this rank; the only place that turns names into objects.

    `began_with` are the models that a run to go on with was made from; `began` is when its process was started, by
    `time.monotonic`; None: now. Raises `AskedWrongly` for a model, teacher or data file that can't be used, or for
    models that are not those.
    """
    if fault := unshared(recipe.machine.tensor_parallel, ranks=ranks.count):
        raise AskedWrongly(fault)
    budget = Budget(recipe.budget, began=began)
    torch.set_num_threads(recipe.machine.threads)
    device = choose_device(recipe.machine.device)
    asked = recipe.all_teachers
    student, teachers, origins = _models(recipe, device, began_with)
    if recipe.lora is not None:
        attach(student.module, recipe.lora, seed=recipe.seed)
    student, learner, shares = shared(
        student,
        recipe.machine.shard,
        ranks,
        shape=lambda one: _shape_layers(recipe, one, teachers),
        apart=recipe.machine.engine == "vllm",
    )
    rows = read_prompts(recipe.data, student.tokenizer, graded=recipe.reward is not None, teachers=asked)
    repetition = check_repeats(recipe.data, rows.prompts)
    prompts = seen_by_teachers(
        rows.prompts,
        asked,
        data_prompt=recipe.data.prompt,
        student=student.tokenizer,
        tokenizers={name: one.tokenizer for name, one in teachers.items()},
    )
    check_fits(student, prompts, limit_tokens=recipe.rollouts.limit_tokens)
    for name, teacher in teachers.items():
        check_fits(teacher, as_seen(prompts, name), limit_tokens=recipe.rollouts.limit_tokens)
    sampled = learner if recipe.machine.engine == "vllm" else student  # sent tensor by tensor, from shares as well
    chosen = sampler_of(recipe, sampled, prompts, ranks=ranks)
    return Parts(
        student=student,
        prompts=prompts,
        order=PromptOrder(rows=len(prompts), seed=recipe.order_seed),
        sampler=chosen.sampler,
        sampled=sampled,
        sampled_by=chosen.said,
        scorer=scorer_of(asked, teachers, prompts, _scoring(recipe, device), ranks),
        reward=None if recipe.reward is None else Reward(recipe.reward, student),
        updater=_updater(recipe, learner, teachers, ranks, shares, sampler_differs=chosen.differs),
        budget=budget,
        device=device,
        data_sha256=sha256(locate(recipe.data.path)),
        origins=origins,
        repetition=repetition,
        left_out=rows.left_out,
        teachers=teachers,
        ranks=ranks,
        shares=shares,
    )


def _models(
    recipe: Recipe, device: str, began_with: Origins | None
) -> tuple[LanguageModel, dict[TeacherName, LanguageModel], Origins]:
    """Student and teachers, which fit each other, and the digests of their files."""
    asked = recipe.all_teachers
    student_at = find_model(recipe.student.model, recipe.student.revision)
    teachers_at = {
        name: find_model(one.model, one.revision, weights=one.reads_weights) for name, one in asked.items()
    }
    origins = origins_of(student_at, teachers_at)
    if began_with is not None:
        named = {"student": recipe.student.model, **{role(name): one.model for name, one in asked.items()}}
        check_same(began_with, origins, places=named)
    student = load(recipe.student, student_at, device)
    teachers = {name: load_teacher(one, teachers_at[name], device=device) for name, one in asked.items()}
    for name, teacher in teachers.items():
        check_pair(name, speaker_of(student), speaker_of(teacher))
    return student, teachers, origins


def sampler_of(recipe: Recipe, student: LanguageModel, prompts: Sequence[Prompt], *, ranks: Ranks = ALONE) -> Chosen:
    """What draws the rollouts of these prompts from the student, as the recipe asks for it."""
    return choose_sampler(
        student,
        recipe.rollouts.sampling,
        engine=recipe.machine.engine,
        largest_batch=recipe.rollouts.largest_batch,
        drafts=recipe.machine.drafts,
        prompt_tokens=_longest(prompts),
        sleeps=recipe.machine.vllm_sleeps,
        team=Team(ranks, size=recipe.machine.tensor_parallel),
    )


def _scoring(recipe: Recipe, device: str) -> Scoring:
    return Scoring(
        temperature=recipe.rollouts.temperature,
        limit_tokens=recipe.rollouts.limit_tokens,
        largest_tokens=recipe.machine.micro_batch_tokens,
        chunk_tokens=recipe.machine.head_chunk_tokens,
        alternatives=recipe.save.alternatives,
        sleeps=recipe.machine.vllm_sleeps,
        tensor_parallel=recipe.machine.tensor_parallel,
        device=device,
    )


def _longest(prompts: Sequence[Prompt]) -> int:
    return max((len(prompt.token_ids) for prompt in prompts), default=1)


def _updater(
    recipe: Recipe,
    student: LanguageModel,
    teachers: Mapping[TeacherName, LanguageModel],
    ranks: Ranks,
    shares: ShardedMasters | None,
    *,
    sampler_differs: bool,
) -> Updater:
    return Updater(
        student,
        recipe.objective,
        recipe.optimizer,
        teachers=teachers,
        temperature=recipe.rollouts.temperature,
        largest_tokens=recipe.machine.micro_batch_tokens,
        chunk_tokens=recipe.machine.head_chunk_tokens,
        sampler_differs=sampler_differs,
        ranks=ranks,
        masters=shares,
    )


def _shape_layers(
    recipe: Recipe, student: LanguageModel, teachers: Mapping[TeacherName, LanguageModel]
) -> LanguageModel:
    """The student, whose layers and the teachers' are run as the recipe says."""
    machine, limit_tokens = recipe.machine, recipe.rollouts.limit_tokens
    if machine.compile:
        for teacher in teachers.values():
            compile_layers(teacher.module)
    if machine.exact:
        student = exact_model(student, persistent=OURS[machine.engine], limit_tokens=limit_tokens)
    elif machine.compile:
        compile_layers(student.module)
    if machine.recompute_layers:
        recompute_layers(student.module)
    return student
