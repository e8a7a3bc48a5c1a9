"""Answers as vLLM writes them, read entry by entry."""

import json
from typing import Any

import pytest

from opd.models.served.exchange import MayPass, WrongReply
from opd.models.served.reply import read_scores

IDS = (5, 17, 9)


def known(logprob: float, rank: int, text: str = "?") -> dict[str, Any]:
    return {"logprob": logprob, "rank": rank, "decoded_token": text}


def body(*entries: Any) -> bytes:
    choice = {"index": 0, "text": " the", "logprobs": None, "finish_reason": "length", "prompt_logprobs": entries}
    return json.dumps({"id": "cmpl-1", "object": "text_completion", "choices": [choice]}).encode()


def test_the_response_is_read_and_the_prompt_left_out() -> None:
    answer = body(None, {"17": known(-0.25, 1, "a")}, {"9": known(-3.5, 40, "b")})
    both = read_scores(answer, IDS, first=1, candidates=0)
    assert (both.logp, both.texts, both.alternatives) == ((-0.25, -3.5), ("a", "b"), None)
    assert read_scores(answer, IDS, first=2, candidates=0).logp == (-3.5,)


def test_of_a_token_and_two_likeliest_the_two_stay_ranked_as_they_are_likely() -> None:
    """E29: the token is the seventh and comes as a third entry; where it is the first there are two."""
    answer = body(
        None,
        {"17": known(-4.0, 7), "2": known(-1.5, 2), "3": known(-0.5, 1)},
        {"9": known(-0.1, 1), "4": known(-3.0, 2)},
    )
    found = read_scores(answer, IDS, first=1, candidates=2)
    assert found.logp == (-4.0, -0.1)
    assert found.alternatives is not None
    assert list(found.alternatives.ids) == [3, 2, 9, 4]
    assert list(found.alternatives.logp) == pytest.approx([-0.5, -1.5, -0.1, -3.0])


@pytest.mark.parametrize(
    "entries",
    [
        (None, {"17": known(-0.25, 1)}),
        (None, {"17": known(-0.25, 1)}, {"9": known(-1, 1)}, {"9": known(-1, 1)}),
        (None, {"17": known(-0.25, 1)}, {"017": known(-1, 1)}),
        (None, {"17": known(-0.25, 1)}, {"9": {}}),
        (None, {"17": known(-0.25, 1)}, {"9": [-1.0]}),
        (None, {"17": known(-0.25, 1)}, [9, -1.0]),
        (None, {"9": known(-0.25, 1)}, {"17": known(-1, 1)}),
    ],
)
def test_an_entry_that_is_missing_or_another_tokens_is_no_score(entries: tuple[Any, ...]) -> None:
    with pytest.raises(WrongReply):
        read_scores(body(*entries), IDS, first=1, candidates=0)


@pytest.mark.parametrize("entry", [{"9": known(-1, 1)}, {"9": known(-1, 1), "x": known(-2, 2)}])
def test_fewer_candidates_than_were_asked_for_and_names_that_are_no_ids_are_refused(entry: Any) -> None:
    with pytest.raises(WrongReply):
        read_scores(body(None, {"17": known(-1, 1), "4": known(-2, 2)}, entry), IDS, first=1, candidates=2)


@pytest.mark.parametrize("cut", [b"", b"<html>bad gateway</html>", body(None, {"17": known(-1, 1)})[:-5], b"\xff"])
def test_what_is_no_json_may_pass(cut: bytes) -> None:
    with pytest.raises(MayPass, match="no JSON"):
        read_scores(cut, IDS, first=1, candidates=0)


@pytest.mark.parametrize("place", [0, 1])
def test_the_prompt_is_held_to_its_ids_as_well(place: int) -> None:
    """A server that shifted or retokenised what it got shows in the prompt first."""
    ids = list(IDS)
    ids[1] = 18
    with pytest.raises(WrongReply, match="id 18: the answer is about other ids"):
        read_scores(body(None, {"17": known(-1, 1)}, {"9": known(-1, 1)}), ids, first=2, candidates=0)
