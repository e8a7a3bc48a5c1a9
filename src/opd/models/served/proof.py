"""Is this server the teacher? Asked at the start, in each step after its answers, and whenever it comes back.

/v1/models        one name, or the one that was given; its limit suffices for the longest rollout
known tokens      their log-probabilities are those of the reference but for rounding
the longest       a request as long as any of the run is answered: servers have died of one in step 1 (faults E47)
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from opd.models.served import probe as probes
from opd.models.served.exchange import Refused, Wire, WrongReply
from opd.models.served.reply import Scores, largest_bytes, read_scores
from opd.records.served import Agreement, TeacherServer

MEAN_NATS, LARGEST_NATS = 1e-3, 1e-2  # between float32 kernels
MEAN_ROUNDINGS, LARGEST_ROUNDINGS = 2.0, 4.0  # times what the teacher's dtype does to the reference itself
ANOTHER_MODEL_NATS = 0.5  # rounding to eight bits stays below, also where the text is strange to the model
DRAWN_TOKENS = 1  # a completion has one at least; it is thrown away
_LIST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a server has to be, for one run."""

    reference: probes.Probe
    model: str | None  # its name; None: the only one
    sequence_tokens: int  # of the longest prompt and answer
    candidates: int  # others at each place, of which the log-probability is wanted too
    section: str = "machine"  # of the recipe, where its servers are named

    @property
    def limit_tokens(self) -> int:
        """Shortest limit that suffices: a token is drawn after the sequence."""
        return self.sequence_tokens + DRAWN_TOKENS


async def scores(wire: Wire, url: str, model: str, ids: tuple[int, ...], *, first: int, candidates: int) -> Scores:
    """The server's scores of `ids[first:]`, at temperature 1."""
    request = {
        "model": model,
        "prompt": list(ids),
        "max_tokens": DRAWN_TOKENS,
        "temperature": 1.0,
        "prompt_logprobs": candidates,
        "add_special_tokens": False,
    }
    body = await wire.post(f"{url}/v1/completions", request, largest_bytes=largest_bytes(len(ids), candidates))
    return read_scores(body, ids, first=first, candidates=candidates)


async def proven(wire: Wire, url: str, needs: Needs) -> TeacherServer:
    """What the server is, once it has answered for the known tokens. Raises `Refused` when it is not the teacher."""
    model, limit = await _model(wire, url, needs)
    found = [
        await _known(wire, url, model, ids, needs) for ids in (one.token_ids for one in _within(needs).sequences)
    ]
    agreement = compared(_within(needs), found)
    if fault := disagreement(agreement, needs.reference):
        raise Refused(fault)
    return TeacherServer(
        url=url, model=model, version=await _version(wire, url), limit_tokens=limit, agreement=agreement
    )


async def takes_longest(wire: Wire, server: TeacherServer, needs: Needs) -> None:
    """Nothing, when the server scores a sequence as long as any of the run."""
    known = [token for one in needs.reference.sequences for token in one.token_ids]
    times = -(-needs.sequence_tokens // len(known))
    ids = tuple((known * times)[: needs.sequence_tokens])
    await scores(wire, server.url, server.model, ids, first=1, candidates=needs.candidates)


def compared(reference: probes.Probe, found: list[Scores]) -> Agreement:
    """The distances between what came back and the reference."""
    pairs = list(zip(reference.sequences, found, strict=True))
    off = [abs(a - b) for one, its in pairs for a, b in zip(its.logp, one.exact, strict=True)]
    rounding = [abs(a - b) for one, _ in pairs for a, b in zip(one.rounded, one.exact, strict=True)]
    texts = [
        (there, here) for one, its in pairs for there, here in zip(its.texts, one.texts[1:], strict=True) if there
    ]
    return Agreement(
        tokens=len(off),
        mean=fmean(off),
        largest=max(off),
        mean_rounding=fmean(rounding),
        largest_rounding=max(rounding),
        other_text=sum(there != here for there, here in texts),
    )


def disagreement(found: Agreement, reference: probes.Probe) -> str | None:
    """Why a server with these distances is not the teacher, in numbers; None when it is."""
    mean = MEAN_NATS + MEAN_ROUNDINGS * found.mean_rounding
    largest = LARGEST_NATS + LARGEST_ROUNDINGS * found.largest_rounding
    if found.mean <= mean and found.largest <= largest:
        return None
    texts = f", and {found.other_text} of the tokens are another text there" if found.other_text else ""
    kind = (
        "another model, another tokenizer, or very coarse quantisation"
        if found.mean > ANOTHER_MODEL_NATS or found.other_text > found.tokens // 2
        else f"another dtype than {reference.dtype}, quantised weights, or a near relative"
    )
    return (
        f"it does not serve the teacher {reference.model}: over {found.tokens} known tokens its log-probabilities "
        f"are {found.mean:.4f} nats off on average (at most {mean:.4f} is rounding) and {found.largest:.3f} at the "
        f"most (at most {largest:.3f}){texts}; this looks like {kind}"
    )


def _within(needs: Needs) -> probes.Probe:
    """The reference, cut to what the run's longest sequence takes: a server's limit may be no longer."""
    size = max(2, needs.sequence_tokens)
    cut = tuple(
        probes.KnownText(
            token_ids=one.token_ids[:size],
            texts=one.texts[:size],
            exact=one.exact[: size - 1],
            rounded=one.rounded[: size - 1],
        )
        for one in needs.reference.sequences
    )
    return needs.reference.model_copy(update={"sequences": cut})


async def _known(wire: Wire, url: str, model: str, ids: tuple[int, ...], needs: Needs) -> Scores:
    try:
        return await scores(wire, url, model, ids, first=1, candidates=needs.candidates)
    except Refused as error:
        if needs.candidates:
            raise Refused(
                f"{error}; save.alternatives = {needs.candidates} asks for so many prompt_logprobs: start it with "
                f"--max-logprobs {needs.candidates}, or set save.alternatives = 0"
            ) from error
        raise
    except WrongReply as error:
        raise Refused(f"of known tokens, {error}") from error


async def _model(wire: Wire, url: str, needs: Needs) -> tuple[str, int | None]:
    """The name to ask for, and its limit in tokens where the server says it."""
    body = await wire.get(f"{url}/v1/models", largest_bytes=_LIST_BYTES)
    names = dict(_listed(body))
    if needs.model is None and len(names) != 1:
        raise Refused(
            f"it serves {', '.join(names) or 'no model'}; name the teacher's in {needs.section}.served.model"
        )
    model = needs.model or next(iter(names))
    if model not in names:
        raise Refused(f"it serves {', '.join(names) or 'no model'}, and not {needs.section}.served.model = {model!r}")
    limit = names[model]
    if limit is not None and limit < needs.limit_tokens:
        raise Refused(
            f"it takes {limit} tokens, and the longest prompt, rollouts.limit_tokens and the token that is drawn are "
            f"{needs.limit_tokens}; start it with --max-model-len {needs.limit_tokens}, or lower the limit"
        )
    return model, limit


def _listed(body: bytes) -> Iterator[tuple[str, int | None]]:
    try:
        for one in json.loads(body)["data"]:
            limit: Any = one.get("max_model_len")
            yield str(one["id"]), limit if isinstance(limit, int) and limit > 0 else None
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise Refused(f"/v1/models gave no list of models: {body[:80]!r}") from None


async def _version(wire: Wire, url: str) -> str | None:
    """Of the server's program; None where it has no word for it."""
    try:
        found = json.loads(await wire.get(f"{url}/version", largest_bytes=_LIST_BYTES))["version"]
    except (Refused, ValueError, RecursionError, LookupError, TypeError):
        return None
    return found[:80] if isinstance(found, str) else None
