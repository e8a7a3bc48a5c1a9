"""What guesses would have come to is what they come to. Shapes: B sequences, T positions."""

from dataclasses import replace

import numpy as np
import torch

from opd.models.engine.drafts.hindsight import Hindsight
from opd.models.engine.drafts.operations import following
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling


def test_it_guesses_what_the_device_guesses():
    """Of sequences over few and over many ids, and of a single token."""
    random = np.random.default_rng(0)
    for ids in (2, 3, 8, 40):
        for length in (1, 2, 5, 17, 60):
            history_BT = torch.from_numpy(
                random.integers(0, ids, size=(20, length + 8))
            )  # behind the newest: anything
            found_BC, known_B = following(history_BT, torch.full((20,), length - 1), count=7)
            for row in range(20):
                guessed = Hindsight(history_BT[row, :length].tolist()).guess(7)
                assert guessed == (found_BC[row].tolist() if known_B[row] else [])


def test_an_answer_takes_as_many_steps_as_it_took(make_decoder, prompts):
    """In one window, of one sequence, whose tokens are half guessed; read at once and piece by piece."""
    model = replace(make_decoder("qwen2", "float64"), vocabulary=8, stop_ids=frozenset())
    for temperature in (0.2, 0.4, 1.0):
        sampling = Sampling(limit_tokens=60, temperature=temperature)
        sampler = EngineSampler(model, sampling, drafts="history", window=60)
        (one,) = sampler.sample(prompts()[:1], seeds=[0])
        assert sampler.drafted is not None
        assert Hindsight(one.prompt.token_ids).steps(one.token_ids, span=8) == sampler.drafted.steps
        piecewise = Hindsight(one.prompt.token_ids)
        steps = [piecewise.steps(one.token_ids[start : start + 20], span=8) for start in (0, 20, 40)]
        assert sampler.drafted.steps <= sum(steps) <= sampler.drafted.steps + 2
        assert len(piecewise) == len(one.prompt.token_ids) + 60
