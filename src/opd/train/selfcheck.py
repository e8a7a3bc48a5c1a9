"""Is the number right, here? The checks of `opd doctor`, on the models that ship, in seconds.

Each function takes what it looks at, so that a test can hand it something broken: a check that can't fail says
nothing. The identities of the objectives are in `identities.py`; here are those that need a model and a device.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, takewhile
from pathlib import Path
from typing import Any

import torch

from opd.models.chat import prompt_ids
from opd.models.interfaces import Sampler, Sampling, Scorer
from opd.models.load import LanguageModel, find_model, load_model, load_tokenizer
from opd.models.plain import PlainSampler, PlainScorer
from opd.models.samplers import choose_sampler
from opd.models.scorers import RoutedScorer
from opd.records.errors import AskedWrongly
from opd.records.files import sha256
from opd.records.places import locate
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.train.identities import Check, identity_checks
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.credit import CreditSettings
from opd.train.update.updater import OptimizerSettings, Updater

STUDENT, TEACHER = "opd:arith_tiny/student", "opd:arith_tiny/teacher"
PROBLEMS = ("Compute 73-9+7.", "Compute 12-7+9.", "Compute 8+8-5+3.", "Compute 40-6-2.")
SEEDS = (1, 2)
LIMIT_TOKENS = 64
_CREDIT = CreditSettings()
# A rate and an epsilon far above any gradient: AdamW then moves the weights by the gradient itself, so that what
# is compared is the gradient, and not its sign.
_PLAIN = OptimizerSettings(lr=1e6, epsilon=1e6, largest_gradient_norm=1e9)

# An answer to the first problem that leaves a line out, so that likely and unlikely tokens stand in it.
CANARY = "73-9=64\n</think>\n\\boxed{71}<eos>"
CANARY_LOGP = (  # by plain transformers in float64
    *(-0.00026, -0.00022, -0.00011, -0.00012, -0.00008, -0.00052, -0.00180, -0.00003),
    *(-18.17868, -15.78165, -14.32545, -0.00001, -10.00105, -10.35815, -0.00313, -0.00002),
)


def self_check(device: str, *, expected_digests: Mapping[str, str]) -> list[Check]:
    """Every check, the identities first; those of models run on this device."""
    student, teacher = (_model(name, "float32", device) for name in (STUDENT, TEACHER))
    sampling = Sampling(limit_tokens=LIMIT_TOKENS)
    chosen = choose_sampler(student, sampling, engine="auto", largest_batch=256)
    rollouts = sampled(chosen.sampler, student)
    return [
        shipped_files(expected_digests),
        *identity_checks(),
        *(template_lint(load_tokenizer(find_model(name)), name=name) for name in (STUDENT, TEACHER)),
        canary(PlainScorer(teacher), teacher),
        same_draws(rollouts, sampled(PlainSampler(student, sampling), student), said=chosen.said, device=device),
        sampler_gap(PlainScorer(student), rollouts),
        own_teacher({"one": PlainScorer(teacher), "other": PlainScorer(student)}, rollouts),
        micro_batches(lambda: _model(STUDENT, "float64", device), PlainScorer(teacher).score(rollouts)),
        identity_teacher(lambda: _model(STUDENT, "float64", device), rollouts),
        eos_credit(lambda: _model(STUDENT, "float64", device), rollouts),
    ]


def shipped_files(expected: Mapping[str, str]) -> Check:
    """The files that ship have the digests that were recorded for them, `opd:` references by name."""
    different = [name for name, digest in expected.items() if _digest(name) != digest]
    what = f"; different: {', '.join(different)}" if different else ""
    return Check(
        name="shipped files",
        looked_at=f"SHA-256 of {len(expected)} files{what}",
        number=float(len(different)) if expected else math.inf,
        at_most=0,
    )


def template_lint(tokenizer: Any, *, name: str) -> Check:
    """A prompt has one beginning of sequence, in front, and ends where the model begins to think (faults E35)."""
    try:
        ids = prompt_ids(tokenizer, PROBLEMS[0])
    except AskedWrongly:
        faults = math.inf
    else:
        bos = tokenizer.bos_token_id
        text = tokenizer.decode(ids, skip_special_tokens=False)
        faults = float((ids.count(bos) != 1) + (ids[0] != bos) + (not text.endswith("<think>\n")))
    return Check(name=f"template {name}", looked_at="one <bos>, first; ends with <think>", number=faults, at_most=0)


def canary(scorer: Scorer, teacher: LanguageModel) -> Check:
    """Sixteen fixed tokens have the scores that were recorded: the weights are there and in use (faults E39)."""
    ids = tuple(teacher.tokenizer(CANARY, add_special_tokens=False)["input_ids"])
    rollout = Rollout(
        prompt=_prompts(teacher)[0], sample=0, token_ids=ids, logp=(0.0,) * len(ids), stop=StopReason.EOS
    )
    (scored,) = scorer.score([rollout])
    errors = [abs(found - recorded) for found, recorded in zip(scored.teacher_logp, CANARY_LOGP, strict=True)]
    return Check(
        name="canary",
        looked_at="the shipped teacher's score of 16 fixed tokens, nats",
        number=max(errors),
        at_most=1e-3,
    )


def sampled(sampler: Sampler, model: LanguageModel) -> list[Rollout]:
    """Answers to the problems of this file."""
    return sampler.sample(_prompts(model), seeds=SEEDS)


def same_draws(ours: Sequence[Rollout], plain: Sequence[Rollout], *, said: str, device: str) -> Check:
    """The sampler that a run takes, against transformers' own forward: how often a next token differs.

    Other kernels round otherwise, and on a GPU a rounded distribution now and then gives another token.
    """
    pairs = [(one.token_ids, other.token_ids) for one, other in zip(ours, plain, strict=True)]
    alike = sum(
        1 for one, other in pairs for _ in takewhile(lambda ids: ids[0] == ids[1], zip(one, other, strict=False))
    )
    differing = sum(one != other for one, other in pairs)
    return Check(
        name="sampler",
        looked_at=f"{said}; {alike + differing} tokens beside those of the plain sampler",
        number=differing / (alike + differing),
        at_most=0 if device == "cpu" else 0.02,
    )


def sampler_gap(scorer: Scorer, rollouts: Sequence[Rollout]) -> Check:
    """The sampler's log-probabilities are those that a scorer with the same weights gives."""
    gaps = [
        abs(a - b) for one in scorer.score(rollouts) for a, b in zip(one.teacher_logp, one.rollout.logp, strict=True)
    ]
    return Check(
        name="sampler and scorer",
        looked_at=f"largest gap of {len(gaps)} tokens, same weights, float32, nats",
        number=max(gaps),
        at_most=1e-3,
    )


def own_teacher(
    scorers: Mapping[str, Scorer],
    rollouts: Sequence[Rollout],
    *,
    routed: Callable[[Mapping[str, Scorer]], Scorer] = RoutedScorer,
) -> Check:
    """Of several teachers each rollout has the score of the one that its row names, asked alone (faults E20)."""
    named = [
        replace(one, prompt=replace(one.prompt, teacher=name))
        for one, name in zip(rollouts, cycle(scorers), strict=False)
    ]
    together = routed(scorers).score(named)
    alone = [one for rollout in named for one in scorers[str(rollout.prompt.teacher)].score([rollout])]
    gaps = [
        abs(a - b)
        for one, other in zip(together, alone, strict=True)
        for a, b in zip(one.teacher_logp, other.teacher_logp, strict=True)
    ]
    return Check(
        name="own teacher",
        looked_at=f"largest gap of {len(gaps)} tokens, {len(scorers)} teachers together and each alone, nats",
        number=max(gaps),
        at_most=1e-3,
    )


def micro_batches(
    fresh: Callable[[], LanguageModel],
    scored: Sequence[ScoredRollout],
    *,
    updater: Callable[..., Updater] = Updater,
) -> Check:
    """One update moves the weights alike, whether the step is one micro-batch or one a rollout (faults E1 to E5)."""
    moves = []
    for largest_tokens in (1 << 20, 1):
        model = fresh()
        before = _weights(model)
        updater(model, K1PolicyGradient(), _PLAIN, largest_tokens=largest_tokens).update(scored, step=1)
        moves.append(_weights(model) - before)
    size = float(moves[0].abs().max())
    return Check(
        name="micro-batches",
        looked_at=f"update of {len(scored)} rollouts at once and one by one, float64, relative",
        number=float((moves[0] - moves[1]).abs().max()) / size if size else math.inf,
        at_most=1e-6,
    )


def identity_teacher(
    fresh: Callable[[], LanguageModel],
    rollouts: Sequence[Rollout],
    *,
    scorer: Callable[[LanguageModel], Scorer] = PlainScorer,
) -> Check:
    """A student that is its own teacher has nothing to learn: KL and gradient are zero."""
    model = fresh()
    scored = scorer(model).score(rollouts)
    stats = Updater(model, K1PolicyGradient(), _PLAIN).update(scored, step=1)
    return Check(
        name="identity teacher",
        looked_at="KL and gradient norm where the student is its own teacher, float64",
        number=abs(stats.kl) + stats.gradient_norm,
        at_most=1e-8,
    )


def eos_credit(
    fresh: Callable[[], LanguageModel],
    rollouts: Sequence[Rollout],
    *,
    credit: Callable[[Rollout], tuple[float, ...]] = _CREDIT.weights,
) -> Check:
    """The end-of-sequence token is learned from: a signal there alone has a gradient (faults E21)."""
    model = fresh()
    ended = [one for one in PlainScorer(model).score(rollouts) if not one.rollout.stop.cut_short]
    raised = [
        replace(one, teacher_logp=(*one.teacher_logp[:-1], one.teacher_logp[-1] + 1.0), weights=credit(one.rollout))
        for one in ended
    ]
    norm = Updater(model, K1PolicyGradient(), _PLAIN).update(raised, step=1).gradient_norm if raised else 0.0
    return Check(
        name="end of sequence",
        looked_at=f"gradient norm when the teacher differs at the last token of {len(raised)} answers only",
        number=norm,
        at_least=1e-6,
    )


def _model(name: str, dtype: str, device: str) -> LanguageModel:
    return load_model(find_model(name), dtype=dtype, device=device)


def _prompts(model: LanguageModel) -> list[Prompt]:
    return [
        Prompt(row=row, problem=problem, answer="", token_ids=prompt_ids(model.tokenizer, problem))
        for row, problem in enumerate(PROBLEMS)
    ]


def _weights(model: LanguageModel) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.module.parameters()])


def _digest(reference: str) -> str | None:
    """The digest of a file that ships, or None when it is not there."""
    try:
        path: Path = locate(reference)
    except AskedWrongly:
        return None
    return sha256(path)
