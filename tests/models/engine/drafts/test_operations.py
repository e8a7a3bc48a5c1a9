"""Guesses and what is kept, against slow definitions and against a model whose distribution is known.

Shapes: B sequences of S rows, T positions, W columns, V ids.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats

from opd.models.engine.board import BROKEN, NONE, Board
from opd.models.engine.drafts.operations import LONGEST, Notes, following, guess, take
from opd.models.engine.operations import Choice, choose_among
from opd.models.interfaces import Sampling
from opd.models.plain import sampling_logp

NOBODYS = 9


def slow_following(history: list[int], count: int) -> list[int] | None:
    """What followed the longest end the last time, and on from there as if it came again and again."""
    for length in range(LONGEST, 0, -1):
        for end in range(len(history) - 1, length - 1, -1):
            if history[end - length : end] == history[-length:]:
                whole = list(history)
                while len(whole) < end + count:
                    whole.append(whole[len(whole) - (len(history) - end)])
                return whole[end : end + count]
    return None


def test_what_followed_the_longest_end_the_last_time_is_guessed():
    """Of sequences over few and over many ids, of one token, and without anything like their end before it."""
    random = np.random.default_rng(0)
    known = []
    for ids in (2, 3, 8, 40):
        lengths = random.integers(1, 30, size=50)
        history_BT = torch.from_numpy(random.integers(0, ids, size=(50, 40)))  # behind the newest: anything
        found_BC, known_B = following(history_BT, torch.from_numpy(lengths - 1), count=7)
        for row, length in enumerate(lengths):
            expected = slow_following(history_BT[row, :length].tolist(), 7)
            assert known_B[row] == (expected is not None)
            assert expected is None or found_BC[row].tolist() == expected
        known += known_B.tolist()
    assert {True, False} == set(known)


class Row(NamedTuple):
    """A sequence of a board."""

    position: int
    left: int
    column: int
    active: bool


def test_the_first_draw_that_the_next_row_did_not_read_is_the_last_that_is_kept():
    """Against a walk from row to row: draws that agree by chance, stop ids, broken ones, limits, some at rest."""
    random = np.random.default_rng(1)
    ended = Counter()
    for _ in range(40):
        of = random.integers([0, 1, 0, 0], [20, 7, 4, 5], size=(6, 4)).tolist()
        rows = [Row(position, left, column, bool(rests)) for position, left, column, rests in of]
        board, notes = board_of(rows, random)
        ahead = guess(board, notes, span=4, nobodys=NOBODYS)
        token_BS = ahead.ids_N.view(6, 4).roll(-1, dims=1)  # every draw is what the next row read
        other_BS = torch.from_numpy(random.choice([BROKEN, 0, 1, 2, 3], size=(6, 4)))
        token_BS = torch.where(torch.from_numpy(random.random((6, 4)) < 0.3), other_BS, token_BS)
        logp_N = torch.arange(24.0)
        choice = Choice(token_N=token_BS.flatten(), logp_N=logp_N, raw_logp_N=-logp_N)
        take(board, notes, ahead, choice, torch.tensor([False, False, False, True]))
        for row, (position, left, column, active) in enumerate(rows):
            kept = []
            for number in range(4):
                lives = bool(ahead.lives_N.view(6, 4)[row, number])
                follows = not kept or int(ahead.ids_N.view(6, 4)[row, number]) == kept[-1]
                if not lives or not follows or (kept and kept[-1] in {3, BROKEN}):
                    break
                kept.append(int(token_BS[row, number]))
            assert (bool(kept), len(kept) <= left) == (active, True)
            filled = slice(column, column + len(kept))
            assert board.token_BW[row].tolist() == [NONE] * column + kept + [NONE] * (10 - filled.stop)
            assert board.logp_BW[row, filled].tolist() == [4 * row + one for one in range(len(kept))]
            assert torch.equal(board.raw_logp_BW[row, filled], -board.logp_BW[row, filled])
            assert notes.history_BT[row, position + 1 : position + 1 + len(kept)].tolist() == kept
            now = [int(one[row]) for one in (board.position_B, board.left_B, notes.column_B)]
            assert now == [position + len(kept), left - len(kept), column + len(kept)]
            goes_on = active and kept[-1] not in {3, BROKEN} and len(kept) < left
            assert bool(board.active_B[row]) == goes_on
            assert not goes_on or int(board.ids_B[row]) == kept[-1]
            checked = int(ahead.lives_N.view(6, 4)[row].sum()) - active
            assert notes.counts_B3[row].tolist() == [active, checked, max(0, len(kept) - 1)]
            ended[(len(kept), goes_on)] += 1
    assert {(1, True), (4, True), (2, False), (0, False)} <= set(ended)


def board_of(rows: list[Row], random: np.random.Generator) -> tuple[Board, Notes]:
    """A board of these sequences, over four ids."""
    board = Board.empty(
        rows=len(rows), window=10, pages=2, nobodys=NOBODYS, dtype=torch.float32, device=torch.device("cpu")
    )
    notes = Notes.empty(sequences=len(rows), tokens=30, device=torch.device("cpu"))
    notes.history_BT.copy_(torch.from_numpy(random.integers(0, 4, size=(len(rows), 30))))
    position, left, column, active = (torch.tensor(values) for values in zip(*rows, strict=True))
    for target, values in (
        (board.position_B, position),
        (board.left_B, left),
        (notes.column_B, column),
        (board.active_B, active),
    ):
        target.copy_(values)
    board.ids_B.copy_(notes.history_BT.gather(1, position.unsqueeze(1)).squeeze(1))
    board.table_BM.copy_(torch.arange(2 * len(rows)).view(-1, 2))
    board.uniform_BW.copy_(torch.from_numpy(random.random((len(rows), 10))))
    return board, notes


def test_a_row_that_can_not_be_kept_stands_in_nobodys_page():
    """No more rows than tokens left, none of a sequence at rest; each has the number of the column that it fills."""
    random = np.random.default_rng(2)
    board, notes = board_of([Row(9, 2, 5, True), Row(9, 6, 0, True), Row(9, 6, 0, False)], random)
    notes.history_BT[:, :10] = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    board.ids_B.fill_(0)
    ahead = guess(board, notes, span=4, nobodys=NOBODYS)
    assert ahead.lives_N.view(3, 4).long().tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert ahead.ids_N.view(3, 4).tolist() == [[0, 1, 0, 0], [0, 1, 2, 0], [0, 0, 0, 0]]
    assert ahead.position_N.view(3, 4).tolist() == [[9, 10, 0, 0], [9, 10, 11, 12], [0, 0, 0, 0]]
    assert ahead.table_NM.view(3, 4, 2)[:, :, 1].tolist() == [[1, 1, 9, 9], [3, 3, 3, 3], [9, 9, 9, 9]]
    assert torch.equal(ahead.uniform_N.view(3, 4)[0, :2], board.uniform_BW[0, 5:7])


SAMPLINGS = [{}, {"temperature": 0.6}, {"top_p": 0.8}, {"top_k": 3, "temperature": 1.4}, {"min_p": 0.2}]


@pytest.mark.parametrize("settings", SAMPLINGS, ids=str)
def test_tokens_are_those_of_single_draws_and_come_as_often_as_the_model_says(settings):
    """2,000 sequences of a model that knows the last token alone, so that the frequencies of pairs can be counted."""
    count, tokens, ids, sampling = 2_000, 12, 6, Sampling(limit_tokens=12, **settings)
    logits_VV = 2 * torch.randn(ids, ids, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    logp_VV = sampling_logp(logits_VV, sampling)
    uniform_BW = torch.rand(count, tokens, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    board = Board.empty(
        rows=count, window=tokens, pages=1, nobodys=0, dtype=torch.float64, device=torch.device("cpu")
    )
    notes = Notes.empty(sequences=count, tokens=tokens + 9, device=torch.device("cpu"))
    board.left_B.fill_(tokens)
    board.active_B.fill_(True)
    board.uniform_BW.copy_(uniform_BW)
    while board.active_B.any():
        ahead = guess(board, notes, span=4, nobodys=0)
        choice = choose_among(logits_VV[ahead.ids_N], ahead.uniform_N, sampling)
        take(board, notes, ahead, choice, torch.zeros(ids, dtype=torch.bool))
    before_B = torch.zeros(count, dtype=torch.int64)
    for column in range(tokens):
        single = choose_among(logits_VV[before_B], uniform_BW[:, column], sampling)
        assert torch.equal(board.token_BW[:, column], single.token_N)
        torch.testing.assert_close(board.logp_BW[:, column], single.logp_N, rtol=0, atol=1e-12)
        torch.testing.assert_close(board.raw_logp_BW[:, column], single.raw_logp_N, rtol=0, atol=1e-12)
        before_B = single.token_N
    assert notes.counts_B3[:, 0].sum() + notes.counts_B3[:, 2].sum() == count * tokens
    assert notes.counts_B3[:, 2].sum() > 3_000  # it is about guesses that hold, too
    pair_P = (ids * board.token_BW[:, :-1] + board.token_BW[:, 1:]).flatten()
    found_VV = pair_P.bincount(minlength=ids * ids).view(ids, ids)
    for token in range(ids):
        drawn_V = logp_VV[token].exp().numpy() > 0
        observed, chance = found_VV[token].numpy()[drawn_V], logp_VV[token].exp().numpy()[drawn_V]
        assert found_VV[token].sum() == observed.sum()
        if observed.sum() > 100 and len(observed) > 1:
            assert stats.chisquare(observed, chance * observed.sum()).pvalue > 1e-4
