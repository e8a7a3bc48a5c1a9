"""The server as an ASGI application: who is answered, with what, and how it is packed."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from opd.view.server.answers import HANDLED, refusal, refused
from opd.view.server.api import Api
from opd.view.server.guard import Guard
from opd.view.server.index import Index
from opd.view.server.pages import Pages
from opd.view.server.programs import Programs

ASSETS = Path(__file__).parent / "assets"
_LEAST_PACKED = 1_000  # bytes
_PACKING = 4  # of 9: on loopback time counts, and half the bytes are gone by then


def application(
    index: Index,
    *,
    token: str,
    cookie: str = "opd-view",
    programs: Programs | None = None,
    assets: Path = ASSETS,
) -> ASGIApp:
    """What answers for the runs of the index to those who have the token."""
    api = Api(index, programs or Programs())
    routes = [*api.routes(), *Pages(index, assets, sent=api.read_ahead).routes()]
    inner = Starlette(routes=routes, exception_handlers={**dict.fromkeys(HANDLED, refused), HTTPException: _unknown})
    inner.router.redirect_slashes = False
    return Guard(
        GZipMiddleware(inner, minimum_size=_LEAST_PACKED, compresslevel=_PACKING), token=token, cookie=cookie
    )


async def _unknown(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return refusal(status, "there is nothing at this address")
