"""A small server of a teacher, for tests and where there is no vLLM: the part of its API that scoring takes.

    python -m opd.models.served.server models/teacher --port 8000

GET /health, /version, /v1/models; POST /v1/completions with token ids, `max_tokens` 0 or 1 and `prompt_logprobs`. It
scores by transformers' own forward, one request at a time, and draws nothing. With `--queue` requests waiting the
next one is answered with 429. It listens on this machine alone unless `--host` says otherwise.
"""

import asyncio
import os
import secrets
from array import array
from typing import Annotated, Any

import click
import uvicorn
from pydantic import Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import opd
from opd.models.load import DTYPES, LanguageModel, find_model, load_model
from opd.models.machine import choose_device
from opd.models.plain import PlainScorer
from opd.models.served.exchange import TOO_MANY
from opd.models.served.probe import rollout_of
from opd.records.errors import AskedWrongly, OpdError
from opd.records.rollouts import Alternatives
from opd.records.settings import Settings


class Completion(Settings):
    """What `/v1/completions` takes: the tokens of one prompt, scored at temperature 1."""

    model: str
    prompt: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    prompt_logprobs: Annotated[int, Field(ge=0)]
    max_tokens: Annotated[int, Field(ge=0, le=1)] = 1
    temperature: Annotated[float, Field(ge=1, le=1)] = 1.0
    add_special_tokens: bool = False


class Service:
    """A model that is scored with, a request at a time."""

    def __init__(
        self,
        model: LanguageModel,
        *,
        name: str,
        limit_tokens: int | None = None,
        largest_logprobs: int = 20,
        queue: int = 64,
        key: str = "",
    ) -> None:
        self._model = model
        self._name = name
        self._limit_tokens = min(limit_tokens or model.context_tokens, model.context_tokens)
        self._largest_logprobs = largest_logprobs
        self._queue = queue
        self._key = key
        self._waiting = 0
        self._one = asyncio.Lock()

    def application(self) -> Starlette:
        """The four addresses."""
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/version", self._version),
                Route("/v1/models", self._models),
                Route("/v1/completions", self._completions, methods=["POST"]),
            ]
        )

    async def _health(self, _: Request) -> Response:
        return Response()

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": f"opd {opd.__version__}"})

    async def _models(self, request: Request) -> Response:
        if not self._allowed(request):
            return _fault(401, "the API key is missing or wrong")
        one = {"id": self._name, "object": "model", "owned_by": "opd", "max_model_len": self._limit_tokens}
        return JSONResponse({"object": "list", "data": [one]})

    async def _completions(self, request: Request) -> Response:
        if not self._allowed(request):
            return _fault(401, "the API key is missing or wrong")
        try:
            asked = Completion.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return _fault(400, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        if asked.model != self._name:
            return _fault(404, f"there is no model {asked.model!r}; there is {self._name!r}")
        if fault := self._unfit(asked):
            return _fault(400, fault)
        return await self._scored(asked)

    async def _scored(self, asked: Completion) -> Response:
        if self._waiting >= self._queue:
            return _fault(TOO_MANY, f"{self._waiting} requests are waiting", headers={"retry-after": "1"})
        self._waiting += 1
        try:
            async with self._one:
                entries = await run_in_threadpool(self._entries, asked)
        except FloatingPointError as error:
            return _fault(500, str(error))
        finally:
            self._waiting -= 1
        choice = {"index": 0, "text": "", "finish_reason": "length", "prompt_logprobs": entries}
        usage = {"prompt_tokens": len(asked.prompt), "completion_tokens": 0, "total_tokens": len(asked.prompt)}
        return JSONResponse({"object": "text_completion", "model": self._name, "choices": [choice], "usage": usage})

    def _allowed(self, request: Request) -> bool:
        given = request.headers.get("authorization", "")
        return not self._key or secrets.compare_digest(given.encode(), f"Bearer {self._key}".encode())

    def _unfit(self, asked: Completion) -> str | None:
        if asked.prompt_logprobs > self._largest_logprobs:
            return (
                f"prompt_logprobs = {asked.prompt_logprobs} is more than the {self._largest_logprobs} of "
                "--max-logprobs"
            )
        if len(asked.prompt) + asked.max_tokens > self._limit_tokens:
            return f"{len(asked.prompt)} tokens and {asked.max_tokens} more exceed the limit of {self._limit_tokens}"
        if (largest := max(asked.prompt)) >= self._model.vocabulary:
            return f"id {largest} is beyond the vocabulary of {self._model.vocabulary}"
        return None

    def _entries(self, asked: Completion) -> list[dict[str, Any] | None]:
        if len(asked.prompt) == 1:
            return [None]
        scorer = PlainScorer(self._model, alternatives=asked.prompt_logprobs)
        (scored,) = scorer.score([rollout_of(asked.prompt)])
        others = scored.alternatives or Alternatives(count=1, ids=array("i"), logp=array("f"))
        entries: list[dict[str, Any] | None] = [None]
        for place, (token, logp) in enumerate(zip(asked.prompt[1:], scored.teacher_logp, strict=True)):
            some = slice(place * others.count, (place + 1) * others.count)
            named: dict[int, tuple[float, int | None]] = {token: (logp, None)}
            named |= {
                one: (value, rank)
                for rank, (one, value) in enumerate(zip(others.ids[some], others.logp[some], strict=True), start=1)
            }
            entries.append({str(one): self._entry(one, *known) for one, known in named.items()})
        return entries

    def _entry(self, token: int, logp: float, rank: int | None) -> dict[str, Any]:
        text = self._model.tokenizer.decode([token], skip_special_tokens=False)
        return {"logprob": logp, "rank": rank, "decoded_token": text}


def _fault(status: int, message: str, *, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"message": message, "code": status}}, status_code=status, headers=headers)


@click.command()
@click.argument("model")
@click.option("--port", required=True, type=click.IntRange(0, 65_535), help="Where to listen; 0: a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--name", help="The model's name for those who ask; its directory's by default.")
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(sorted(DTYPES)))
@click.option("--device", default="auto", show_default=True, type=click.Choice(["auto", "cpu", "cuda"]))
@click.option("--max-model-len", type=click.IntRange(min=2), help="Longest sequence; the model's own by default.")
@click.option("--max-logprobs", default=20, show_default=True, type=click.IntRange(min=0))
@click.option("--queue", default=64, show_default=True, type=click.IntRange(min=1), help="Most requests that wait.")
@click.option("--key-variable", help="Environment variable with the API key that is asked for.")
def main(
    *,
    model: str,
    port: int,
    host: str,
    name: str | None,
    dtype: str,
    device: str,
    max_model_len: int | None,
    max_logprobs: int,
    queue: int,
    key_variable: str | None,
) -> None:
    """Serves MODEL, a directory or opd:<task>/<name>, for scoring."""
    try:
        key = os.environ.get(key_variable, "").strip() if key_variable else ""
        if key_variable and not key:
            raise AskedWrongly(f"--key-variable: the environment variable {key_variable} is not set")
        folder = find_model(model)
        service = Service(
            load_model(folder, dtype=dtype, device=choose_device(device)),
            name=name or folder.name,
            limit_tokens=max_model_len,
            largest_logprobs=max_logprobs,
            queue=queue,
            key=key,
        )
    except OpdError as error:
        raise click.UsageError(str(error)) from error
    uvicorn.run(service.application(), host=host, port=port, log_level="info", access_log=False, ws="none")


if __name__ == "__main__":
    main()
