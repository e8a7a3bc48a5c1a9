"""Ranks that have a share each of masters and moments, and of the layers too, make the run that one process makes.

In float64, so that no rounding moves a sampled token. Processes are dear: four of them make all the runs of four
ranks, two those of two, and the tests look at what they left.
"""

import json
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.train.ranks.processes import together
from tests.train.ranks.runs import check_same, go, lines, weights

from opd.models.load import LanguageModel, load_model, own_tensors
from opd.records.errors import AskedWrongly
from opd.records.files import is_complete, tree
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.records.settings import validated
from opd.train.model import Dtype, ModelSettings
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.ranks.joining import joined
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.ranks.sharded import own_rows
from opd.train.ranks.sharing import Sharing, loaded, shared
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.saved.shares import check_seen, first
from opd.train.update.updater import OptimizerSettings, Updater

pytestmark = pytest.mark.patient

STEPS = 4
KINDS = {
    "plain": (),
    "minibatches": ("optimizer.minibatches=4", "machine.micro_batch_tokens=30", "machine.recompute_layers=true"),
    "divergence": ("objective={name='jsd'}",),
}
WAYS: tuple[tuple[Sharing, bool], ...] = (("none", False), ("optimizer", False), ("full", False), ("full", True))
DTYPES: tuple[Dtype, ...] = ("float64", "bfloat16")
ASKED = [("plain", "optimizer", 2), ("minibatches", "full", 2), ("divergence", "full", 2)]
ASKED += [("plain", "full", 4), ("minibatches", "optimizer", 4)]


@pytest.fixture(scope="module")
def recipes(random_models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recipe]:
    """Of each kind; five prompts a step divide by neither two nor four."""
    data = tmp_path_factory.mktemp("data") / "problems.jsonl"
    problems = [{"problem": f"Compute {n}+{n}.", "answer": str(2 * n)} for n in range(7)]
    data.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    settings = {
        "student": {"model": str(random_models / "student"), "dtype": "float64"},
        "teacher": {"model": str(random_models / "teacher"), "dtype": "float64"},
        "data": {"path": str(data)},
        "rollouts": {"prompts_per_step": 5, "per_prompt": 2, "limit_tokens": 12},
        "objective": {"name": "k1_policy_gradient"},
        "optimizer": {"lr": 1e-2, "largest_gradient_norm": 0.05, "weight_decay": 0.1},
        "budget": {"steps": STEPS},
        "save": {"every": 2},
        "machine": {"device": "cpu"},
        "seed": 5,
    }
    base = validated(Recipe, settings, source="the test")
    return {kind: base.changed(list(sets)) for kind, sets in KINDS.items()}


@pytest.fixture(scope="module")
def runs(recipes: dict[str, Recipe], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all runs: of one process under their kinds, and `kind-way-ranks`.

    `moved` was begun by four ranks with shares of the layers, went on by two with shares of the masters, and was
    ended by one process.
    """
    out = tmp_path_factory.mktemp("runs")
    for kind, recipe in recipes.items():
        go(recipe, out / kind)
    moved = recipes["plain"]
    for count, way, until in ((4, "full", 1), (2, "optimizer", 2)):
        asked = {
            f"{kind}-{how}-{ranks}": recipes[kind].changed([f"machine.shard={how}"])
            for kind, how, ranks in ASKED
            if ranks == count
        }
        together(count, make, asked, out, moved.changed([f"machine.shard={way}"]), until)
    go(moved, out / "moved")
    return out


def make(asked: dict[str, Recipe], out: Path, moved: Recipe, until: int) -> None:
    with joined(device="cpu") as ranks:
        go(moved, out / "moved", ranks=ranks, interrupt_at=until)
        for name, recipe in asked.items():
            go(recipe, out / name, ranks=ranks)


@pytest.mark.parametrize(("kind", "way", "ranks"), ASKED)
def test_shares_change_nothing_but_rounding(runs: Path, kind: str, way: str, ranks: int) -> None:
    check_same(runs / f"{kind}-{way}-{ranks}", runs / kind)
    assert weights(runs / kind).keys() == {"checkpoint-2", "checkpoint-4", "step-000004"}
    assert max(line["gradient_norm"] for line in lines(runs / kind)) > 0.05, "nothing was clipped"


def test_a_run_goes_on_however_many_ranks_share_what(runs: Path) -> None:
    """A step by four with shares of the layers, two by two with shares of the masters, the rest by one process."""
    assert json.loads((runs / "moved" / "run.json").read_text())["resumed_from"] == [1, 3]
    check_same(runs / "moved", runs / "plain")


def test_a_state_is_a_file_of_each_rank_and_none_of_them_is_a_pickle(runs: Path) -> None:
    (state,) = (runs / "plain-full-4" / "state").iterdir()
    assert is_complete(state)
    shards = {f"shard-0000{number}-model-00001-of-00001.safetensors" for number in (1, 2, 3, 4)}
    assert tree(state).keys() == shards | {"state.json"}
    sizes = [path.stat().st_size for path in sorted(state.glob("shard-*"))]
    assert max(sizes) < 1.2 * sum(sizes) / 4


@pytest.mark.parametrize("rows", range(1, 14))
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_rows_are_shared_out_as_torch_does(rows: int, count: int) -> None:
    """FSDP2's layers and the rest are saved as one state: both must cut alike."""
    tensor = torch.arange(rows)
    chunks = list(tensor.chunk(count)) + [tensor[:0]] * count
    for rank in range(count):
        ranks = SimpleNamespace(rank=rank, count=count)
        assert torch.equal(tensor[own_rows(rows, ranks)], chunks[rank])  # type: ignore[arg-type]


def rolled(lengths: list[int]) -> list[ScoredRollout]:
    """Rollouts of so many tokens, with scores that differ from token to token."""
    found = []
    for row, length in enumerate(lengths):
        ids = tuple((7 * row + 3 * place) % 300 for place in range(length))
        prompt = Prompt(row=row, problem="?", answer="!", token_ids=ids[:2])
        logp = tuple(-1 - (place + row) % 3 for place in range(length))
        rollout = Rollout(prompt=prompt, sample=0, token_ids=ids, logp=logp, stop=StopReason.EOS)
        scores = tuple(-1 - (place * row) % 5 for place in range(length))
        found.append(ScoredRollout(rollout=rollout, teacher_logp=scores))
    return found


def one_update(
    model: Path, dtype: Dtype, how: Sharing, ranks: Ranks, *, sent: bool = False
) -> tuple[float, dict[str, torch.Tensor]]:
    """The gradient's norm, and at rank 0 the weights after it; a third of the layers' matrices is frozen."""
    settings = ModelSettings(model=str(model), dtype=dtype)
    student = loaded(settings, model, device="cpu", how=how, sent=sent, ranks=ranks)
    for name, parameter in student.module.named_parameters():
        parameter.requires_grad_("up_proj" not in name)
    student, learner, shares = shared(student, how, ranks, shape=lambda one: one)
    assert (student.gathered is not None) == sent
    updater = Updater(
        learner, K1PolicyGradient(), OptimizerSettings(lr=1e-3), largest_tokens=24, ranks=ranks, masters=shares
    )
    scored = rolled([9, 3, 14, 6, 2])
    places = [place for place in range(5) if place % ranks.count == ranks.rank]
    stats = updater.update([scored[place] for place in places], step=1, places=places)
    updater.check_alike()
    return stats.gradient_norm, first(lambda: weights_of(student), shares, ranks)


def weights_of(student: LanguageModel) -> dict[str, torch.Tensor]:
    """By name, a tied one once, whole or gathered."""
    held = student.module.state_dict()
    return {
        name: held[name].clone() if student.gathered is None else student.gathered(name)
        for name in own_tensors(student.module)
    }


def updates(models: list[Path], out: Path) -> list[float]:
    """The norms; rank 0 leaves the weights as files, numbered in their order."""
    norms = []
    with joined(device="cpu") as ranks:
        for model, dtype, (how, sent) in product(models, DTYPES, WAYS):
            norm, tensors = one_update(model, dtype, how, ranks, sent=sent)
            if ranks.writes:
                save_file(tensors, out / f"{len(norms)}.safetensors")
            norms.append(norm)
    return norms


def test_frozen_and_tied_weights_and_heads_of_their_own_move_as_in_one_process(
    random_models: Path, untied_model: Path, tmp_path: Path
) -> None:
    """Three ranks: no count of rows divides by three. In bfloat16 the sum of three differs from one by rounding."""
    models = [random_models / "student", untied_model]
    norms = together(3, updates, models, tmp_path)[1]
    found = ((norm, load_file(tmp_path / f"{number}.safetensors")) for number, norm in enumerate(norms))
    for model in models:
        for dtype, near in zip(DTYPES, (1e-11, 2e-2), strict=True):
            norm, expected = one_update(model, dtype, "none", ALONE)
            in_common, *ways = [next(found) for _ in WAYS]
            for way in (in_common, *ways):
                assert way[0] == pytest.approx(norm, rel=near)
                torch.testing.assert_close(way[1], expected, rtol=near, atol=near / 10)
            for way in ways:  # the same sum in another order: in bfloat16 the same weights, nearly all
                same = [(way[1][name] == in_common[1][name]).float().mean() for name in expected]
                assert dtype == "float64" or min(same) > 0.99
            start = load_model(model, dtype=dtype, device="cpu").module.state_dict()
            assert all(torch.equal(expected[name], start[name]) for name in expected if "up_proj" in name)


@pytest.mark.parametrize("sets", [("machine.exact=true", "student.dtype=bfloat16"), ("lora={rank=2}",)])
def test_layers_of_fsdp2_are_of_whole_weights_and_not_exact(
    recipes: dict[str, Recipe], sets: tuple[str, ...]
) -> None:
    with pytest.raises(AskedWrongly, match=r'machine\.shard = "full" with'):
        recipes["plain"].changed(["machine.shard=full", *sets])


def blind(out: Path) -> str:
    with joined(device="cpu") as ranks:
        try:
            check_seen(out if ranks.rank != 1 else out / "elsewhere", ranks)
        except AskedWrongly as error:
            return str(error)
    return ""


def test_a_folder_that_a_rank_does_not_see_is_refused_by_all(tmp_path: Path) -> None:
    for said in together(2, blind, tmp_path):
        assert said.startswith(f"ranks [1] don't see {tmp_path}")
    assert not list(tmp_path.iterdir())


def begun_apart(recipe: Recipe, out: Path) -> str:
    """What a new run says of which rank 1 has its folder elsewhere."""
    with joined(device="cpu") as ranks:
        mine = out if ranks.rank != 1 else out / "elsewhere"
        try:
            run(recipe, prepare(recipe, mine, ranks=ranks), mine)
        except AskedWrongly as error:
            return str(error)
    return ""


def test_a_run_whose_folder_a_rank_does_not_see_leaves_none_behind(
    recipes: dict[str, Recipe], tmp_path: Path
) -> None:
    """So that the same command with machine.shard = "none" finds it free."""
    out = tmp_path / "run"
    for said in together(2, begun_apart, recipes["plain"].changed(["machine.shard=optimizer"]), out):
        assert said.startswith(f"ranks [1] don't see {out}")
    assert not out.exists()
