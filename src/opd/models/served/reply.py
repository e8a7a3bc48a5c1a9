"""An answer of `/v1/completions` → the log-probability of exactly the ids that were asked for.

    {"choices": [{"prompt_logprobs": [null, {"17": {"logprob": -0.3, "rank": 1, "decoded_token": "a"}}, …]}]}

An entry a token of the prompt, null for the first, which nothing predicts. Each maps ids to what is known of them:
the token that stands there, and with `prompt_logprobs` = K the K likeliest too, K or K + 1 in all (faults E29).
"""

import json
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opd.models.served.exchange import MayPass, WrongReply
from opd.records.rollouts import Alternatives

IMPOSSIBLE = -9_999.0  # what vLLM writes for minus infinity, for which JSON has no word
ROUNDING = 1e-3  # nats; by so much a log-probability may come out above zero
ENTRY_BYTES = 600  # of one id with its text, at the most; what a server could send without end is cut off by it
CERTAIN_NATS = 1e-6  # closer to zero is certainty, which a teacher has of some tokens
MOST_CERTAIN = 15  # tokens; where a longer answer has nothing else, nothing was computed
_OVERHEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Of the tokens from the asked place on."""

    logp: tuple[float, ...]  # nats
    texts: tuple[str | None, ...]  # of each token, where the server says so
    alternatives: Alternatives | None  # to each token; None: none were asked for


def largest_bytes(tokens: int, candidates: int) -> int:
    """More than an answer about so many tokens takes."""
    return _OVERHEAD_BYTES + tokens * (candidates + 1) * ENTRY_BYTES


def read_scores(body: bytes, ids: Sequence[int], *, first: int, candidates: int) -> Scores:
    """The scores of `ids[first:]`, of which `candidates` others at each place.

    Raises `MayPass` for a body that is no JSON, as one that broke off, and `WrongReply` for one that leaves out a
    token, is about another, or gives it a log-probability that is none, as one that is zero for all of many.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MayPass(f"an answer of {len(body):,} bytes that is no JSON: {error}") from error
    entries = _entries(answer, ids)
    read = [_Entry.read(entries[place], ids[place], place, candidates) for place in range(1, len(ids))][first - 1 :]
    if len(read) > MOST_CERTAIN and all(abs(one.logp) <= CERTAIN_NATS for one in read):
        raise WrongReply(f"all {len(read)} log-probabilities are zero: a teacher is not certain of every token")
    return Scores(
        logp=tuple(one.logp for one in read),
        texts=tuple(one.text for one in read),
        alternatives=_alternatives(read, candidates) if candidates else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What an answer says of one place."""

    logp: float
    text: str | None
    others: tuple[tuple[float, int], ...]  # log-probability and id of all that are named, the likeliest first

    @classmethod
    def read(cls, entry: Any, token: int, place: int, candidates: int) -> "_Entry":
        where = f"token {place} of the prompt, id {token}"
        if not isinstance(entry, dict) or not entry:
            raise WrongReply(f"{where}: no log-probability came back, but {entry!r:.80}")
        own = entry.get(str(token))
        if own is None:
            raise WrongReply(f"{where}: the answer is about other ids ({', '.join(map(str, entry)):.80})")
        if len(entry) not in {candidates, candidates + 1}:
            raise WrongReply(f"{where}: {len(entry)} ids came back, where {candidates} and its own were asked for")
        named = tuple(_named(entry, where))
        text = own.get("decoded_token")
        return cls(
            logp=_logp(own, where),
            text=text if isinstance(text, str) else None,
            others=tuple(sorted(named, key=lambda one: (-one[0], one[1]))),
        )


def _entries(answer: Any, ids: Sequence[int]) -> Sequence[Any]:
    """One a token of the prompt."""
    try:
        (choice,) = answer["choices"]
        entries = choice["prompt_logprobs"]
    except (LookupError, TypeError, ValueError):
        raise WrongReply(
            "the answer has no prompt_logprobs, so that nothing is scored; it needs a server with vLLM's "
            "prompt_logprobs at /v1/completions"
        ) from None
    if not isinstance(entries, list) or len(entries) != len(ids):
        found = len(entries) if isinstance(entries, list) else entries
        raise WrongReply(f"prompt_logprobs of {found!r:.80} tokens came back for {len(ids)}")
    return entries


def _named(entry: Mapping[str, Any], where: str) -> Iterator[tuple[float, int]]:
    for name, one in entry.items():
        if not name.isdecimal() or not name.isascii():
            raise WrongReply(f"{where}: {name!r:.80} is no id")
        yield _logp(one, where), int(name)


def _logp(one: Any, where: str) -> float:
    value = one.get("logprob") if isinstance(one, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongReply(f"{where}: its log-probability is {value!r:.80}")
    if not math.isfinite(value) or value <= IMPOSSIBLE or value > ROUNDING:
        raise WrongReply(f"{where}: its log-probability is {value}: the teacher's numbers are broken")
    return float(value)


def _alternatives(entries: Sequence[_Entry], candidates: int) -> Alternatives:
    """The likeliest of each place; the token that stands there is among them where it is one of them."""
    named = [one for entry in entries for one in entry.others[:candidates]]
    return Alternatives(
        count=candidates,
        ids=array("i", [token for _, token in named]),
        logp=array("f", [logp for logp, _ in named]),
    )
