"""Guesses in the rows of the persistent kernel, on a GPU: its tokens and log-probabilities without, to the last bit.

Shapes: B sequences of S rows, T positions, V the tokenizer's ids.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from opd.models.engine import sampler as samplers
from opd.models.engine.board import Board
from opd.models.engine.drafts.operations import Ahead, Drafting, Notes
from opd.models.engine.drafts.steps import DraftedSteps
from opd.models.engine.persistent.cut import CUTS, Cut
from opd.models.engine.persistent.program import LaunchFailed
from opd.models.engine.persistent.steps import PersistentSteps
from opd.models.engine.sampler import EngineSampler
from opd.models.engine.schedule import Entry, Schedule
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.records.rollouts import Prompt, Rollout

pytestmark = pytest.mark.gpu

SMALL = Cut(hidden=512, inner=1_536, heads=8, key_heads=4, head=64, normed=True)
FREE = Sampling(limit_tokens=40)
LENGTHS = [(127,), (1, 1_020), (100, 128, 1_023), (129, 1_000, 16, 2_040)]


@pytest.fixture(scope="module")
def wide_decoder(make_wide) -> LanguageModel:
    """Two layers of the shape of 1.5B."""
    return make_wide()


@pytest.fixture(autouse=True)
def never_paused(monkeypatch):
    """All windows of up to four sequences are done with guesses."""
    monkeypatch.setattr(samplers, "WORTH", dict.fromkeys(samplers.WORTH, 1.0))


@pytest.fixture
def knowing(monkeypatch) -> Callable[[Sequence[Rollout]], None]:
    """`knowing(rollouts)`: from now on these are guessed, but for every seventh token, which is guessed wrong.

    A sequence is known by its first token.
    """
    from opd.models.engine.kernels import table

    def patch(rollouts: Sequence[Rollout]) -> None:
        said = [[*one.prompt.token_ids, *one.token_ids] for one in rollouts]
        assert len({ids[0] for ids in said}) == len(said)
        said_BT = torch.zeros(len(said), max(map(len, said)) + 8, dtype=torch.int64)
        for row, ids in enumerate(said):
            said_BT[row, : len(ids)] = torch.tensor(ids)
        said_BT = said_BT.cuda()

        def guess(board: Board, notes: Notes, *, span: int, nobodys: int) -> Ahead:
            which_B = (notes.history_BT[:, :1] == said_BT[:, 0]).long().argmax(dim=1)
            row_S = torch.arange(span, device="cuda")
            position_BS = board.position_B.unsqueeze(1) + row_S
            lives_BS = board.active_B.unsqueeze(1) & (row_S < board.left_B.unsqueeze(1))
            ids_BS = said_BT[which_B].gather(1, position_BS.clamp(max=said_BT.shape[1] - 1))
            ids_BS = torch.where(position_BS % 7 == 3, (ids_BS + 1) % 2_000, ids_BS)
            ids_BS[:, 0] = board.ids_B
            column_BS = (notes.column_B.unsqueeze(1) + row_S).clamp(max=board.uniform_BW.shape[1] - 1)
            return Ahead(
                ids_N=ids_BS.masked_fill(~lives_BS, 0).flatten(),
                position_N=position_BS.masked_fill(~lives_BS, 0).flatten(),
                uniform_N=board.uniform_BW.gather(1, column_BS).flatten(),
                table_NM=board.table_BM.unsqueeze(1).masked_fill(~lives_BS.unsqueeze(-1), nobodys).flatten(0, 1),
                lives_N=lives_BS.flatten(),
            )

        monkeypatch.setattr(table, "DRAFTING", Drafting(guess=guess, take=table.take))

    return patch


def with_and_without(
    model: LanguageModel, prompts: Sequence[Prompt], knowing: Callable[..., None], *, window: int = 32
) -> tuple[list[Rollout], list[Rollout], EngineSampler]:
    """The persistent kernel's rollouts without guesses, those with, and the sampler of these."""
    plain = EngineSampler(model, FREE, persistent=True, window=window).sample(prompts, seeds=[0])
    knowing(plain)
    sampler = EngineSampler(model, FREE, persistent=True, drafts="history", window=window)
    return plain, sampler.sample(prompts, seeds=[0]), sampler


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("stops", [False, True], ids=["whole", "ends"])
def test_each_row_has_the_bits_of_a_step_of_its_own(lengths, stops, wide_decoder, of_lengths, knowing, same_bits):
    """Across the edges of pages and of 16 keys, and with sequences that end in the middle of a window or a guess."""
    stop_ids = frozenset(range(0, wide_decoder.vocabulary, 25)) if stops else frozenset()
    plain, drafted, sampler = with_and_without(
        replace(wide_decoder, stop_ids=stop_ids), of_lengths(*lengths), knowing
    )
    assert sampler.said == "engine: persistent kernel to 8 sequences, drafts in its rows to 4 sequences"
    assert same_bits(drafted, plain)
    assert [one.stop for one in drafted] == [one.stop for one in plain]
    found = sampler.drafted
    assert found.steps + found.kept == sum(len(one.token_ids) for one in plain)
    assert stops or found.tokens_a_step > {1: 3.5, 2: 2.5}.get(len(lengths), 1.5)


@pytest.mark.parametrize("like", ["Llama 3.2 1B", "Qwen3 0.6B", "Qwen3 small"])
def test_so_it_is_for_other_shapes(like, make_wide, of_lengths, knowing, same_bits, monkeypatch):
    """Heads of 64, and keys that whoever attends has to normalise and turn, each at its own position."""
    monkeypatch.setitem(CUTS, "Qwen3 small", SMALL)
    model = make_wide(like=like)
    for lengths in ((125,), (1_021, 250, 13, 60)):
        plain, drafted, sampler = with_and_without(model, of_lengths(*lengths), knowing, window=16)
        assert same_bits(drafted, plain)
        assert sampler.drafted.tokens_a_step > 1.5


def test_a_long_sequence_too(wide_decoder, of_lengths, knowing, same_bits):
    """More than eight pages, which are merged another way, and more pages than CTAs."""
    plain, drafted, sampler = with_and_without(wide_decoder, of_lengths(8_180), knowing)
    assert same_bits(drafted, plain)
    assert sampler.drafted.tokens_a_step > 3.5


@pytest.mark.parametrize("settings", [{"top_p": 0.9}, {"top_k": 20, "temperature": 0.7}], ids=str)
def test_a_cut_distribution_is_the_same_one(settings, wide_decoder, of_lengths, knowing, same_rollouts):
    cut = Sampling(limit_tokens=40, **settings)
    plain = EngineSampler(wide_decoder, cut, persistent=True).sample(of_lengths(60, 1_020), seeds=[0])
    knowing(plain)
    sampler = EngineSampler(wide_decoder, cut, persistent=True, drafts="history")
    same_rollouts(sampler.sample(of_lengths(60, 1_020), seeds=[0]), plain, atol=1e-5)
    assert sampler.drafted.kept


@pytest.fixture(scope="module")
def repetitive(make_wide) -> LanguageModel:
    """The last token decides most, and alike for many ids: at a low temperature it says things again."""
    model = make_wide()
    with torch.no_grad():
        embedding_RH = model.module.get_input_embeddings().weight
        embedding_RH.copy_(embedding_RH[torch.arange(len(embedding_RH), device="cuda") % 8])
        for layer in model.module.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.1)
            layer.mlp.down_proj.weight.mul_(0.1)
    return model


def test_who_comes_and_goes_changes_nothing_and_pages_turn_for_prefills_alone(
    repetitive, of_lengths, same_bits, monkeypatch
):
    """Ten rollouts with guesses of their own history: eight run, then fewer, then others enter."""
    back, entered = [], []
    turn, enter = PersistentSteps._turn, Schedule._enter

    def turning(self: PersistentSteps, tokens_of: dict[int, int], *, to_fragments: bool) -> None:
        if tokens_of and not to_fragments:
            back.append(len(tokens_of))
        turn(self, tokens_of, to_fragments=to_fragments)

    def entering(self: Schedule) -> list[Entry]:
        entries = enter(self)
        entered.append(bool(entries))
        return entries

    monkeypatch.setattr(PersistentSteps, "_turn", turning)
    monkeypatch.setattr(Schedule, "_enter", entering)
    model = replace(repetitive, stop_ids=frozenset(range(0, repetitive.vocabulary, 60)))
    cold, some = Sampling(limit_tokens=120, temperature=0.1), of_lengths(200, 131, 64, 30, 9)
    settings = {"largest_batch": 8, "persistent": True, "window": 8}
    plain = EngineSampler(model, cold, **settings).sample(some, seeds=[0, 1])
    back.clear()
    entered.clear()
    sampler = EngineSampler(model, cold, drafts="history", **settings)
    assert same_bits(sampler.sample(some, seeds=[0, 1]), plain)
    assert sampler.drafted.kept
    assert len(entered) > 5
    assert len(back) <= sum(entered)


def test_guesses_of_its_own_history_are_kept_and_a_second_call_is_the_same(repetitive, of_lengths, same_bits):
    cold, some = Sampling(limit_tokens=400, temperature=0.1), of_lengths(60, 1_000)
    plain = EngineSampler(repetitive, cold, persistent=True).sample(some, seeds=[0])
    sampler = EngineSampler(repetitive, cold, persistent=True, drafts="history")
    for _ in range(3):
        assert same_bits(sampler.sample(some, seeds=[0]), plain)
        assert sampler.drafted.tokens_a_step > 1.2


def test_where_a_launch_is_refused_graphs_do_the_window_again_and_go_on_guessing(repetitive, of_lengths):
    cold, some = Sampling(limit_tokens=60, temperature=0.1), of_lengths(30)
    sampler = EngineSampler(repetitive, cold, persistent=True, drafts="history", window=16)
    whole = sampler.sample(some, seeds=[0])
    engine = sampler._kept[1]
    decode, launches = engine._persistent._program.decode, []

    def refuse_the_third(params):
        launches.append(1)
        if len(launches) == 3:
            raise LaunchFailed("too many blocks in cooperative launch")
        decode(params)

    engine._persistent._program.decode = refuse_the_third
    with pytest.warns(UserWarning, match="too many blocks in cooperative launch"):
        (one,) = sampler.sample(some, seeds=[0])
    assert len(launches) == 3
    assert isinstance(engine._drafted, DraftedSteps)
    assert not engine._drafted.by_kernel
    assert len(one.token_ids) == 60
    assert torch.tensor(one.logp).isfinite().all()
    assert one.prompt == whole[0].prompt
