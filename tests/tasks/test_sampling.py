"""The small check that scores the embedded models while they are made."""

import pytest
import torch
from transformers.tokenization_utils_base import BatchEncoding

from opd.tasks.arith_tiny.problems import Chain
from opd.tasks.arith_tiny.sampling import boxed, pass_rate
from opd.tasks.arith_tiny.tokenizer import make_tokenizer

TOKENIZER = make_tokenizer()
CHAINS = [Chain(start=start, steps=(2, 3)) for start in (1, 2, 3, 4)]  # 6, 7, 8, 9


class Reciter:
    """A model that recites its answers in the order in which it is asked; remembers how it was asked."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.asked: dict[str, object] = {}
        self.prompts: list[str] = []

    def generate(self, input_ids, attention_mask, **how):
        self.asked = how
        self.prompts += TOKENIZER.batch_decode(input_ids)
        given, self.answers = self.answers[: len(input_ids)], self.answers[len(input_ids) :]
        written: BatchEncoding = TOKENIZER(
            given, padding=True, padding_side="right", add_special_tokens=False, return_tensors="pt"
        )
        return torch.cat([input_ids, written.input_ids], dim=1)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("73-9=64\n</think>\n\n\\boxed{71}<eos>", "71"),
        ("\\boxed{5} no, \\boxed{6}", "6"),
        ("\\boxed{5} ... \\boxed{", None),
        ("\\boxed{5} ... \\boxed{7", None),
        ("\\boxed{5} ... \\boxed{}", None),
        ("\\boxed{9</think>5}", "9</think>5"),
        ("71", None),
        ("", None),
    ],
)
def test_the_last_box_counts_and_must_be_closed_and_filled(response, answer):
    """Faults E72: an unterminated or empty last box is no answer, whatever stood before it."""
    assert boxed(response) == answer


def test_a_pass_rate_is_the_mean_over_questions_with_their_own_spread():
    # shares 1, 1, 0, .5: mean .625, variance (2 x .375² + .625² + .125²) / 3, over four questions
    answers = [f"\\boxed{{{one}}}<eos>" for one in (6, 6, 7, 7, 9, 9, 9)] + ["\\boxed{5 and so on"]
    score = pass_rate(Reciter(answers), TOKENIZER, CHAINS, samples_per_question=2, seed=0)
    assert score.mean == 0.625
    assert score.stderr == pytest.approx(((2 * 0.375**2 + 0.625**2 + 0.125**2) / 3 / 4) ** 0.5)
    assert score.cut_short == 1 / 8
    assert (score.questions, score.samples_per_question) == (4, 2)


def test_every_question_is_asked_as_often_as_said_with_the_reasoning_opened():
    model = Reciter(["\\boxed{6}<eos>"] * 8)
    pass_rate(model, TOKENIZER, CHAINS, samples_per_question=2, seed=0)
    prompts = [text.replace("<pad>", "") for text in model.prompts]
    assert prompts == [f"<bos><User>Compute {start}+2+3.<Assistant><think>\n" for start in (1, 1, 2, 2, 3, 3, 4, 4)]


def test_answers_are_drawn_from_the_whole_distribution():
    """Faults E42: what is left out, transformers fills in with 50 candidates."""
    model = Reciter(["\\boxed{6}<eos>"] * 4)
    pass_rate(model, TOKENIZER, CHAINS, samples_per_question=1, seed=0)
    assert model.asked == {"max_new_tokens": 64, "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
