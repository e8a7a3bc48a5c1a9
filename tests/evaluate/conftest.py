"""A judge whose every weight is known, as a model directory; and one that replies by a function.

And an evaluation of six small sums, two samples each, with a sampler that writes what a test decides.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.drawing import Drawing, Job, OwnDrawing
from opd.evaluate.judge import Judge
from opd.evaluate.judges.exchange import Asked, JudgeModel, NoReply, Reply
from opd.evaluate.judges.prompt import read_template
from opd.evaluate.judges.settings import JudgeSettings
from opd.evaluate.questions import Question
from opd.evaluate.run import Subject, evaluate_subject
from opd.evaluate.settings import Evaluation, EvaluationMachine
from opd.records.rollouts import Prompt, Rollout, StopReason
from opd.records.scores import Judgement, Score, Verdict

CUE_B, CUE_C = "#", "@"
SCRIPTED = JudgeModel(name="scripted", limit_tokens=8)


@dataclass
class Scripted:
    """Replies with what `write` makes of a turn, and remembers what it was asked."""

    write: Callable[[str], str | Reply | NoReply]
    model: JudgeModel = SCRIPTED
    asked: list[Asked] = field(default_factory=list)
    closed: bool = False

    def replies(self, turns: Sequence[Asked]) -> list[Reply | NoReply]:
        self.asked += turns
        written = [self.write(one.turn) for one in turns]
        return [Reply(text=one) if isinstance(one, str) else one for one in written]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def judge_of(tmp_path: Path) -> Callable[..., tuple[Judge, Scripted]]:
    """`judge_of("A")` or `judge_of(lambda turn: …, referred=("wrong",))`: a judge and who answers for it."""

    def make(write: str | Callable[[str], str | Reply | NoReply], **settings: object) -> tuple[Judge, Scripted]:
        double = Scripted(write=(lambda _: write) if isinstance(write, str) else write)
        values = (
            {"recorded": {"file": str(tmp_path / "unused")}}
            if "record" not in settings
            else {"local": {"model": "m"}}
        )
        asked = JudgeSettings.model_validate(values | settings)
        return Judge(asked, double, read_template(asked.template)), double

    return make


@pytest.fixture(scope="session")
def cue_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 directory that replies B where `#` stands in its prompt, C where `@` does, and A otherwise.

    One layer. Embeddings are unit vectors, so a hidden state says which token was last; attention is uniform and
    carries the share of cues among all tokens so far; nothing else adds to the residual stream.

        logits after the prompt's last token:  A: 1 · last     B: 10⁴ · share of #     C: 10⁴ · share of @
        logits after a label:                  <eos>: 10⁹ · last
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from opd.tasks.arith_tiny.tokenizer import make_tokenizer

    tokenizer = make_tokenizer()
    size, rows = 320, 320
    config = Qwen2Config(
        vocab_size=rows,
        hidden_size=size,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=4_096,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config)
    one = {name: tokenizer(name, add_special_tokens=False)["input_ids"] for name in ("A", "B", "C", CUE_B, CUE_C)}
    assert all(len(ids) == 1 for ids in one.values())
    ids = {name: found[0] for name, found in one.items()}
    (last,) = tokenizer("\n", add_special_tokens=False)["input_ids"]  # the template ends with it
    spare = {CUE_B: 318, CUE_C: 319}  # dimensions of ids that the tokenizer does not have
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.fill_(1)
        model.model.embed_tokens.weight.copy_(torch.eye(rows, size))
        attention = model.model.layers[0].self_attn
        attention.v_proj.weight.copy_(torch.eye(size))
        for cue, dimension in spare.items():
            attention.o_proj.weight[dimension, ids[cue]] = 1e4
        head = model.lm_head.weight
        head[ids["A"], last] = 1
        head[ids["B"], spare[CUE_B]] = 1
        head[ids["C"], spare[CUE_C]] = 1
        for label in ("A", "B", "C"):
            head[tokenizer.eos_token_id, ids[label]] = 1e9
    folder = tmp_path_factory.mktemp("judge") / "CueJudge-1"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


SUMS = Benchmark(
    name="sums",
    files=(QuestionFile(data="sums.jsonl", sha256="0" * 64, rows=6),),
    questions=6,
    seeds=(7, 8),
    limit_tokens=64,
)
QUESTIONS = [Question(row=n, id=f"q{n}", problem=f"Compute {n}+1.", gold=str(n + 1)) for n in range(6)]


@dataclass
class Writer:
    """A sampler that writes `text(question row, sample)`, and remembers which rows it was asked for together."""

    tokenizer: Any
    text: Callable[[int, int], str]
    cut: bool = False
    calls: list[list[int]] = field(default_factory=list)

    def follow(self, version: int) -> None:
        raise AssertionError("an evaluation has one policy")

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        self.calls.append([prompt.row for prompt in prompts])
        return [self._rollout(prompt, sample) for prompt in prompts for sample in range(len(seeds))]

    def _rollout(self, prompt: Prompt, sample: int) -> Rollout:
        ids = self.tokenizer(self.text(prompt.row, sample), add_special_tokens=False)["input_ids"]
        ids = tuple(ids) if self.cut else (*ids, self.tokenizer.eos_token_id)
        stop = StopReason.LENGTH if self.cut else StopReason.EOS
        logp = tuple(-0.25 * place for place in range(len(ids)))
        return Rollout(prompt=prompt, sample=sample, token_ids=ids, logp=logp, stop=stop)


class Backwards(OwnDrawing):
    """Draws the last group first, as one of several workers may."""

    def draw(self, jobs: Sequence[Job], *, interrupted: Callable[[], bool]) -> Iterator[Path]:
        return super().draw(jobs[::-1], interrupted=interrupted)


@dataclass(frozen=True)
class Sums:
    """Evaluations of the sums by the embedded student's tokenizer, two questions a group unless told otherwise."""

    model: Any

    def writer(self, text: Callable[[int, int], str], **changes: Any) -> Writer:
        """`text(row, sample)` is the response; see `Writer`."""
        return Writer(self.model.tokenizer, text, **changes)

    def half_right(self) -> Writer:
        """Every first sample is right, every second wrong."""
        return self.writer(lambda row, sample: f"1+1\n</think>\n\n\\boxed{{{row + 1 + sample}}}")

    def asked(self, **changes: Any) -> Evaluation:
        """What is asked: the settings with these changes."""
        return Evaluation(**({"benchmark": SUMS, "machine": EvaluationMachine(largest_batch=4)} | changes))

    def evaluated(self, sampler: Writer, out: Path, *, asked: Evaluation | None = None, **changes: Any) -> Score:
        """The score that comes of it."""
        asked = asked or self.asked()

        draws = Backwards if changes.pop("backwards", False) else OwnDrawing

        @contextmanager
        def opening(_jobs: Sequence[Job]) -> Iterator[Drawing]:
            yield draws(self.model, sampler, seeds=asked.benchmark.seeds, machine={"device": "cpu"})

        opened = changes.pop("opening", opening)
        digest = changes.pop("weights_digest", "d" * 64)
        subject = Subject(path=self.model.path, weights_digest=digest, tokenizer=self.model.tokenizer)
        told = {"report": lambda _, found: None, "interrupted": lambda: False} | changes
        questions = QUESTIONS[: asked.benchmark.questions]
        return evaluate_subject(asked, questions, subject, opened, out=out, **told)


@pytest.fixture(scope="session")
def sums() -> Sums:
    from opd.models.load import find_model, load_model

    return Sums(load_model(find_model("opd:arith_tiny/student"), dtype="float32", device="cpu"))


@pytest.fixture
def failing_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], AbstractContextManager[None]]:
    """`with failing_at("3"):` the house grader fails wherever the gold is 3."""
    from opd.grading.grader import Grader

    real = Grader.grade
    failed = Judgement(verdict=Verdict.GRADER_FAILED, extracted=None, stage="value", reason="killed after 5 s")

    @contextmanager
    def failing(gold: str) -> Iterator[None]:
        def grade(self: Grader, cases: Any, *, reasoning_opened: bool = False) -> list[Judgement]:
            judged = real(self, cases, reasoning_opened=reasoning_opened)
            return [failed if case[1] == gold else one for case, one in zip(cases, judged, strict=True)]

        with monkeypatch.context() as patched:
            patched.setattr(Grader, "grade", grade)
            yield

    return failing
