"""The first token and the end of an answer, which means hide; and what a step is warned of."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest
import torch

from opd.models.load import load_model
from opd.records.files import read_lines
from opd.records.metrics import Gap, StepMetrics
from opd.records.places import locate
from opd.records.rollout_table import read_table, table_path
from opd.records.rollouts import ScoredRollout, StopReason
from opd.train.alarms import edges, warnings_of
from opd.train.run import prepare, run

EOS = 7


def rollout(make_scored, ids: Sequence[int], logp: Sequence[float], teacher_logp: Sequence[float]) -> ScoredRollout:
    (one,) = make_scored([len(ids)])
    stop = StopReason.EOS if ids[-1] == EOS else StopReason.LENGTH
    drawn = replace(one.rollout, token_ids=tuple(ids), logp=tuple(logp), stop=stop)
    return replace(one, rollout=drawn, teacher_logp=tuple(teacher_logp))


# --- what is measured ------------------------------------------------------------------------------------


def test_the_first_token_and_the_end_are_measured_by_themselves(make_scored) -> None:
    """E23, E36: by hand. The third has no end; d_1 is -1, 3 and 0.5."""
    scored = [
        rollout(make_scored, [1, 2, EOS], [-2.0, -9.0, -0.1], [-1.0, -9.0, -12.0]),
        rollout(make_scored, [1, EOS], [-1.0, -0.5], [-4.0, -4.0]),
        rollout(make_scored, [3, 4, 5, 6], [-0.5, -9.0, -9.0, -9.0], [-1.0, -9.0, -9.0, -90.0]),
    ]
    found = edges(scored, stop_ids={EOS})
    assert found.first_token_kl == pytest.approx((-1 + 3 + 0.5) / 3)
    assert found.first_token_distance == 1.0
    assert found.eos_teacher_logp == -8.0
    assert edges(scored[2:], stop_ids={EOS}).eos_teacher_logp is None


def test_of_several_ends_in_a_rollout_that_nothing_stops_the_first_counts(make_scored) -> None:
    """So it is in a rehearsal; what stands behind an end is no answer."""
    endless = rollout(make_scored, [1, EOS, EOS, 2], [-1.0] * 4, [-1.0, -3.0, -30.0, -1.0])
    assert edges([endless], stop_ids={EOS, 9}).eos_teacher_logp == -3.0


def test_they_stand_in_each_line_as_the_tables_have_them(make_recipe, load, tmp_path: Path) -> None:
    """E23, E36, from the rollouts of a real run; its answers begin and end with many different tokens."""
    out = tmp_path / "run"
    recipe = make_recipe("rollouts.limit_tokens=200", "rollouts.prompts_per_step=4", "budget.steps=2")
    run(recipe, prepare(recipe, out), out)
    eos = load().tokenizer.eos_token_id
    for step, values in enumerate(read_lines(out / "metrics.jsonl"), start=1):
        scored = read_table(table_path(out, step))
        first = [one.rollout.logp[0] - one.teacher_logp[0] for one in scored]
        ends = [one.teacher_logp[-1] for one in scored if one.rollout.token_ids[-1] == eos]
        assert values["first_token_kl"] == pytest.approx(fmean(first), rel=1e-6)
        assert values["first_token_distance"] == pytest.approx(median(map(abs, first)), rel=1e-6)
        assert ends
        assert values["eos_teacher_logp"] == pytest.approx(fmean(ends), rel=1e-6)


# --- what is warned of -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "kl", "warned"), [(10, -1.9, False), (10, -2.1, True), (100_000, -0.019, False)])
def test_a_kl_below_zero_beyond_chance_and_rounding_is_warned_of(
    make_line, tokens: int, kl: float, warned: bool
) -> None:
    assert bool(said([make_line(1, kl=kl, rollouts=2, mean_tokens=tokens / 2)])) == warned


def test_chance_goes_below_zero_as_rarely_as_the_bound_says() -> None:
    """20,000 steps of 4 tokens by a student of two words, far from its teacher: P(sum < -x) <= exp(-x)."""
    draws = torch.Generator().manual_seed(0)
    student, teacher = torch.tensor([0.5, 0.5]), torch.tensor([0.98, 0.02])
    ratio = (student / teacher).log()
    sums = ratio[torch.multinomial(student, 80_000, replacement=True, generator=draws)].view(-1, 4).sum(1)
    for x in (0.5, 1.0, 2.0, 2.6):
        assert (sums < -x).double().mean() <= torch.tensor(-x).exp()
    assert (sums < -2.6).double().mean() > 0.01  # and the bound is not idle: 1/16 of them is -2.69


def test_of_tokens_that_a_cut_has_drawn_nothing_is_said_of_kl(make_line) -> None:
    one = make_line(1, kl=-1.0, rollouts=2, mean_tokens=5_000)
    assert "is not below zero" in " ".join(warnings_of(one, []))
    assert warnings_of(one, [], cut=True) == ()


def said(lines: Iterable[StepMetrics]) -> list[int]:
    """The steps that were warned of."""
    before: list[StepMetrics] = []
    steps = []
    for one in lines:
        if warnings_of(one, before):
            steps.append(one.step)
        before.append(one)
    return steps


@pytest.mark.parametrize(("logp", "warned"), [(None, False), (-9.9, False), (-10.1, True)])
def test_an_end_that_the_teacher_finds_impossible_is_warned_of(make_line, logp: float | None, warned: bool) -> None:
    """E23."""
    found = warnings_of(make_line(1, eos_teacher_logp=logp), [])
    assert bool(found) == warned
    if warned:
        assert "gives the student's end of sequence -10.1 nats" in found[0]


def test_a_distant_opening_is_warned_of_from_sixty_four_rollouts_on(make_line) -> None:
    """E36: in one step of so many, or in the last steps together."""
    assert said([make_line(1, rollouts=64, first_token_distance=2.0)]) == [1]
    assert said([make_line(1, rollouts=64, first_token_distance=1.9)]) == []
    assert said([make_line(1, rollouts=63, first_token_distance=9.0)]) == []
    few = [make_line(step, rollouts=8, first_token_distance=3.0) for step in range(1, 11)]
    assert said(few) == [8, 9, 10]
    mostly_near = [make_line(step, rollouts=8, first_token_distance=3.0 * (step % 3 == 0)) for step in range(1, 30)]
    assert said(mostly_near) == []


def test_lines_of_older_versions_do_not_count_as_near(make_line) -> None:
    lines = [make_line(step, rollouts=32) for step in (1, 2)]
    new = [make_line(step, rollouts=32, first_token_distance=5.0) for step in (3, 4)]
    assert said([*lines, *new]) == [4]


def test_a_share_cut_short_that_rises_by_twenty_points_in_fifty_steps_is_warned_of(make_line) -> None:
    """E75: between the means of ten steps at either end; one step alone is noise."""
    rising = [make_line(step, cut_short=min(1.0, 0.3 + 0.005 * step)) for step in range(1, 120)]
    assert said(rising)[0] == 51  # a rise of 0.005 a step over 41 steps: from the first moment that can be judged
    slow = [make_line(step, cut_short=min(1.0, 0.3 + 0.004 * step)) for step in range(1, 120)]
    assert said(slow) == []
    assert said(make_line(step, cut_short=float(step == 60)) for step in range(1, 120)) == []
    assert "from" in warnings_of(rising[50], rising[:50])[0]


def test_an_exact_run_that_is_not_exact_is_warned_of(make_line) -> None:
    """However small the gap; without exact mode every run has one."""
    line, equal = make_line(1), make_line(1, gap=Gap(mean=0.0, largest=0.0, k3=0.0))
    apart = make_line(1, gap=Gap(mean=1e-9, largest=6e-8, k3=0.0))
    assert warnings_of(apart, []) == warnings_of(line, []) == warnings_of(equal, [], exact=True) == ()
    (said,) = warnings_of(apart, [], exact=True)
    assert said.startswith("machine.exact: sampler and trainer are 6e-08 nats apart at some token")


def test_a_healthy_step_is_not_warned_of(make_line) -> None:
    assert said(make_line(step, eos_teacher_logp=-0.2, first_token_distance=0.1) for step in range(1, 99)) == []


def test_a_teacher_that_ends_with_another_token_is_warned_of_in_the_first_step(make_recipe, tmp_path: Path) -> None:
    """E23, as it comes: one vocabulary and one end of sequence in every file, and a teacher that writes another.

    The same pair, with the teacher as it is, is not warned of.
    """
    ends_otherwise(locate("opd:arith_tiny/teacher"), tmp_path / "otherwise", instead="<User>")
    for teacher, warned in ((str(tmp_path / "otherwise"), True), ("opd:arith_tiny/teacher", False)):
        out = tmp_path / f"run-{warned}"
        recipe = make_recipe(
            "student.model=opd:arith_tiny/student",
            f"teacher.model={teacher}",
            "rollouts.limit_tokens=64",
            "rollouts.prompts_per_step=7",
            "budget.steps=1",
        )
        run(recipe, prepare(recipe, out), out)
        (values,) = read_lines(out / "metrics.jsonl")
        assert (values["eos_teacher_logp"] < -10) == warned
        assert any("gives the student's end of sequence" in one for one in values["warnings"]) == warned


def ends_otherwise(teacher: Path, folder: Path, *, instead: str) -> None:
    """The teacher with the scores of its end of sequence and of another token swapped."""
    model = load_model(teacher, dtype="float32", device="cpu")
    module, tokenizer = model.module, model.tokenizer
    weight = module.get_output_embeddings().weight.detach().clone()
    one, other = tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(instead)
    weight[[one, other]] = weight[[other, one]]
    module.config.tie_word_embeddings = False
    module.lm_head = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    module.lm_head.weight.data.copy_(weight)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
