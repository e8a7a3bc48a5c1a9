"""An update by whole distributions, against a slow one written out; and what it may hold in memory."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from opd.models.load import LanguageModel
from opd.records.rollouts import ScoredRollout
from opd.train.objective import Divergence, find, names
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.updater import OptimizerSettings, Updater

LENGTHS = (2, 6, 8, 3, 12, 1)
UNCLIPPED = OptimizerSettings(lr=1e-3, largest_gradient_norm=1e9)
DIVERGENCES = [name for name in names() if issubclass(find(name), Divergence)]


def gradient_by_hand(
    objective: Divergence, student: LanguageModel, teacher: LanguageModel, scored: Sequence[ScoredRollout], t: float
) -> list[torch.Tensor]:
    """Each rollout alone, by transformers' own logits; the mean over the tokens of all."""
    tokens = sum(len(one.rollout.token_ids) for one in scored)
    total = torch.zeros((), dtype=torch.float64)
    for one in scored:
        start, ids = len(one.rollout.prompt.token_ids), one.rollout.prompt.token_ids + one.rollout.token_ids
        logp = [
            (model.module(torch.tensor([ids])).logits[0, start - 1 : -1, : student.vocabulary] / t).log_softmax(-1)
            for model in (student, teacher)
        ]
        total = total + objective(logp[0], logp[1].detach()).sum() / tokens
    return list(torch.autograd.grad(total, list(student.module.parameters())))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_gradient_is_that_of_the_definition(load, make_scored, optimizer_steps, name, temperature) -> None:
    """E3, E5, E9, E11: summed over the vocabulary, divided by the tokens of the step, and by nothing else."""
    objective, student, teacher, scored = find(name)(), load(), load("teacher"), make_scored(LENGTHS)
    assert isinstance(objective, Divergence)
    expected = gradient_by_hand(objective, student, teacher, scored, temperature)
    updater = Updater(
        student, objective, UNCLIPPED, teachers={None: teacher}, temperature=temperature, largest_tokens=45
    )
    with optimizer_steps() as steps:
        updater.update(scored, step=1)
    for found, right in zip(steps[0].gradients, expected, strict=True):
        assert torch.allclose(found, right, atol=1e-10 * max(1.0, float(right.abs().max())))


@pytest.mark.parametrize("name", DIVERGENCES)
def test_chunks_and_micro_batches_change_nothing(load, make_scored, optimizer_steps, name) -> None:
    """E1, E11, E18, E20: any cut of the step gives the same gradient and the same numbers."""
    scored, found = make_scored(LENGTHS), []
    for largest_tokens, chunk_tokens in ((10_000, 2048), (20, 3), (1, 1)):
        updater = Updater(
            load(),
            find(name)(),
            UNCLIPPED,
            teachers={None: load("teacher")},
            largest_tokens=largest_tokens,
            chunk_tokens=chunk_tokens,
        )
        with optimizer_steps() as steps:
            stats = updater.update(scored, step=1)
        found.append((steps[0].gradients, stats))
    for gradients, stats in found[1:]:
        assert stats.loss == pytest.approx(found[0][1].loss, rel=1e-12)
        assert stats.surprise == pytest.approx(found[0][1].surprise, rel=1e-12)
        for a, b in zip(gradients, found[0][0], strict=True):
            assert torch.allclose(a, b, atol=1e-11)


def test_the_student_at_its_teacher_does_not_move(load, make_scored, optimizer_steps) -> None:
    """E25: the same model on both sides: no loss, no gradient."""
    updater = Updater(load(), find("reverse_kl")(), UNCLIPPED, teachers={None: load()})
    with optimizer_steps() as steps:
        stats = updater.update(make_scored(LENGTHS), step=1)
    assert abs(stats.loss) < 1e-12
    assert max(float(gradient.abs().max()) for gradient in steps[0].gradients) < 1e-12


def test_the_teacher_has_no_gradient_and_is_left_as_it_was(load, make_scored) -> None:
    """E49."""
    teacher = load("teacher")
    before = [parameter.clone() for parameter in teacher.module.parameters()]
    Updater(load(), find("forward_kl")(), UNCLIPPED, teachers={None: teacher}).update(make_scored(LENGTHS), step=1)
    for parameter, old in zip(teacher.module.parameters(), before, strict=True):
        assert parameter.grad is None
        assert torch.equal(parameter, old)


def test_the_gap_is_to_the_whole_softmax_where_top_p_cut_what_was_drawn(load, make_scored) -> None:
    """E43: the sampler's own values are renormalised, and not what a trainer can be compared with."""
    raw = make_scored(LENGTHS, behaviour_logp=-4.0)
    cut = [
        replace(one, rollout=replace(one.rollout, logp=(-0.5,) * len(one.rollout.logp), raw_logp=one.rollout.logp))
        for one in raw
    ]
    gaps = [
        Updater(load(), find("jsd")(), UNCLIPPED, teachers={None: load("teacher")}).update(scored, step=1).gap
        for scored in (raw, cut)
    ]
    assert gaps[0] == gaps[1]


def test_a_divergence_without_a_teacher_is_refused(load) -> None:
    with pytest.raises(ValueError, match="reverse_kl compares distributions"):
        Updater(load(), find("reverse_kl")(), UNCLIPPED)
    Updater(load(), K1PolicyGradient(), UNCLIPPED)


MEASURE = """
import resource, sys, torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from opd.models.load import LanguageModel
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.train.objective import find
from opd.train.update.updater import OptimizerSettings, Updater

torch.set_num_threads(1)
torch.manual_seed(0)
config = Qwen2Config(vocab_size=151_936, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                     num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=1024)
student, teacher = (LanguageModel(module=Qwen2ForCausalLM(config).eval(), tokenizer=None, path=None,
                                  vocabulary=151_665, stop_ids=frozenset()) for _ in range(2))
ids = tuple(range(512))
scored = [ScoredRollout(rollout=Rollout(prompt=Prompt(row=row, problem="", answer="", token_ids=(1,)), sample=0,
                                        token_ids=ids, logp=(-1.0,) * 512, stop=StopReason.LENGTH),
                        teacher_logp=(-1.0,) * 512) for row in range(8)]
updater = Updater(student, find(sys.argv[1])(), OptimizerSettings(lr=1e-6), teachers={None: teacher})
updater.update(scored[:1], step=1)  # optimizer state, libraries
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
updater.update(scored, step=2)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(peak - min(now, peak))
"""


@pytest.mark.parametrize(
    "name",
    [
        "k1_policy_gradient",
        pytest.param("topk_forward_kl", marks=pytest.mark.slow),
        pytest.param("jsd", marks=pytest.mark.slow),
    ],
)
@pytest.mark.patient
def test_the_head_of_4096_tokens_over_151936_columns_stays_under_a_gibibyte(name: str) -> None:
    """As one matrix in float32 it would be 2.3 GiB, and a divergence holds several."""
    done = subprocess.run([sys.executable, "-c", MEASURE, name], capture_output=True, text=True, check=True)
    assert int(done.stdout) / 2**20 < 1.0  # kB in GiB
