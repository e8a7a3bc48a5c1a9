"""Which judge, what is referred to it, and what it is shown.

One of the sections `local`, `server` and `recorded`; the one that is there says where replies come from.

    referred = ["wrong", "unreadable", "no_answer"]

    [local]
    model = "models/CompassVerifier-3B"
"""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings

Referable = Literal["wrong", "unreadable", "no_answer", "cut_short", "grader_failed"]
ReplyTokens = Annotated[int, Field(gt=0, le=1 << 20)]


class LocalJudge(Settings):
    """A Hugging Face model directory, run here."""

    model: str
    """`opd:<task>/<name>`, a directory, or `owner/name` on the hub."""
    revision: str | None = None
    """Commit on the hub, or its beginning."""
    limit_tokens: ReplyTokens = 2_048
    """Cap on new tokens of a reply. A reply that reaches it is no verdict."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes the GPU when there is one."""
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    """`auto` is bfloat16 on a GPU and float32 on a CPU."""
    threads: Annotated[int, Field(gt=0, le=1_024)] | None = None
    """CPU threads; null: as many as the evaluation has, or as torch takes."""
    largest_batch: Annotated[int, Field(gt=0, le=65_536)] = 16
    """Most turns that are answered at once; affects memory, and replies only by rounding."""
    engine: Literal["auto", "engine", "plain"] = "auto"
    """What writes the replies: `engine`, `plain` (transformers' own forward, slow), or `auto`: the engine where it
    fits.
    """


class ServerJudge(Settings):
    """Any server that takes `POST URL/chat/completions` in OpenAI's form."""

    url: str
    """With the version: `http://127.0.0.1:8000/v1`."""
    model: str
    """The model's name at the server."""
    key_variable: str | None = None
    """Environment variable that holds the API key; null: none is sent. The key itself is written nowhere."""
    limit_tokens: ReplyTokens = 2_048
    """Cap on new tokens of a reply. A reply that reaches it is no verdict."""
    concurrency: Annotated[int, Field(gt=0, le=1_024)] = 8
    """Most requests under way at once."""
    timeout_seconds: PositiveFloat = 120.0
    """For one request, from its start to the last byte of the answer."""
    tries: PositiveInt = 5
    """Requests for one reply; the ones after the first only for what may pass: no connection, a timeout, status
    408, 409, 429 or 5xx."""
    backoff_seconds: PositiveFloat = 1.0
    """Pause before the second try; it doubles from try to try. A longer `Retry-After` is respected up to a minute."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        parts = urlsplit(self.url)
        host = (parts.hostname or "").encode("idna")  # like .port, a ValueError for what can't be one
        if parts.scheme not in {"http", "https"} or not host or parts.port == 0:
            raise AskedWrongly(
                f"url = {self.url!r}: write it as http://127.0.0.1:8000/v1 or https://judge.example/v1"
            )
        if parts.username is not None or parts.query or parts.fragment:
            raise AskedWrongly(
                "url holds credentials, a query or a fragment; name the key's variable in key_variable"
            )
        return self


class RecordedJudge(Settings):
    """Replies that were recorded before, for replay."""

    file: str
    """JSON Lines, as `record` writes them."""


class JudgeSettings(Settings):
    """A judge for what the rules reject."""

    local: LocalJudge | None = None
    server: ServerJudge | None = None
    recorded: RecordedJudge | None = None
    referred: tuple[Referable, ...] = ("wrong", "unreadable", "no_answer")
    """The rules' verdicts that are referred to the judge."""
    answer_chars: Annotated[int, Field(ge=16, le=1 << 20)] = 4_000
    """Most characters of a response that the judge is shown: the last of what follows its reasoning."""
    template: str | None = None
    """File with another text for the judge, with {question}, {gold} and {answer} once each; null: the house's own."""
    record: str | None = None
    """File that replies are added to as they come, and looked up in before anyone is asked."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sections = {"local": self.local, "server": self.server, "recorded": self.recorded}
        named = [name for name, section in sections.items() if section is not None]
        if len(named) != 1:
            has = "none" if not named else " and ".join(named)
            raise AskedWrongly(f"a judge needs one of the sections {', '.join(sections)}; there is {has}")
        if not self.referred or len(set(self.referred)) != len(self.referred):
            raise AskedWrongly(f"referred = {list(self.referred)}: at least one verdict, and none twice")
        if self.recorded is not None and self.record is not None:
            raise AskedWrongly(f"record = {self.record!r}: a replay has nothing to record; leave it out")
        return self
