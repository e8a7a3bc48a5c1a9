"""The settings of a run.

One TOML file a run; every key has a default or is required; nothing inherits from another file. `--set
section.key=value` is the only override. The run writes the resolved form to `recipe.json`, from which
`opd train recipe.json` makes the same run. `docs/recipe.md` lists every key.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    NonNegativeInt,
    SerializeAsAny,
    field_serializer,
    field_validator,
    model_validator,
)

from opd.models.adapters import LoraSettings
from opd.models.chat import check_template
from opd.models.engine.sampler import DraftsChoice
from opd.models.interfaces import Sampling
from opd.models.samplers import EngineChoice
from opd.models.scorers import ScorerChoice
from opd.models.served.settings import ServedSettings
from opd.models.vllm.sampler import check_sampling
from opd.records.errors import AskedWrongly
from opd.records.settings import Settings, validated
from opd.train import objective as objectives
from opd.train.clock import BudgetSettings
from opd.train.model import ModelSettings
from opd.train.objective import Divergence, Objective
from opd.train.prompts.data import DataSettings
from opd.train.ranks.sharing import Sharing, check_sharing
from opd.train.reward import RewardSettings
from opd.train.saved.retention import SaveSettings
from opd.train.sink import SinkSettings
from opd.train.teachers import (
    NAMES,
    TeacherName,
    TeacherSettings,
    check_taught,
    check_teacher,
)
from opd.train.update.credit import CreditSettings
from opd.train.update.updater import OptimizerSettings


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
    (`optimizer`); the layers' weights and gradients as well, but while opd's own engine samples (`full`: FSDP2)."""
    link_bytes_per_second: Annotated[float, Field(ge=1e6)] | None = None
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
