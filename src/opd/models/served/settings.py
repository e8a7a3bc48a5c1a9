"""Where the teacher's servers are, and how patiently they are asked."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, field_validator, model_validator

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings


class ServedSettings(Settings):
    """Servers with OpenAI's `/v1/completions` and `prompt_logprobs`, as vLLM has it. All serve the teacher."""

    urls: Annotated[tuple[str, ...], Field(min_length=1)]
    """`http://127.0.0.1:8000`, one for each replica."""
    model: str | None = None
    """The teacher's name at the servers; null: each serves one model, and it is that."""
    probe: str | None = None
    """File that `python -m opd.models.served.probe` wrote where the teacher's weights are; null: they are in
    its directory here, and the reference is computed from them at the start, on the CPU."""
    key_variable: str | None = None
    """Environment variable that holds the API key; null: none is sent. The key itself is written nowhere."""
    in_flight: Annotated[int, Field(gt=0, le=1_024)] = 8
    """Most requests under way at one server, of all ranks together: the others wait here."""
    timeout_seconds: PositiveFloat = 120.0
    """For one request, from its start to the last byte of the answer."""
    patience_seconds: PositiveFloat = 300.0
    """So long a rollout is asked for again after its first failure, and so long a step waits with no server left."""
    pause_seconds: PositiveFloat = 1.0
    """A server that failed is left alone so long, give or take half; twice as long after each further failure, up to
    a minute. A longer `Retry-After` is respected, up to a minute too."""

    @field_validator("urls")
    @classmethod
    def _plain(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(url.rstrip("/").removesuffix("/v1") for url in urls)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        for url in self.urls:
            parts = urlsplit(url)
            host = (parts.hostname or "").encode("idna")  # like .port, a ValueError for what can't be one
            # first, for what they hold is not to be shown
            if parts.username is not None or parts.query or parts.fragment:
                raise AskedWrongly(
                    "one of urls holds credentials, a query or a fragment; name the key's variable in key_variable"
                )
            if parts.scheme not in {"http", "https"} or not host or parts.port == 0:
                raise AskedWrongly(f"urls: {url!r}; write it as http://127.0.0.1:8000")
        if len(set(self.urls)) < len(self.urls):
            raise AskedWrongly("urls names a server twice; each replica has an address of its own")
        return self
