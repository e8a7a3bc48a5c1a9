"""The front-end's files, and the reports of attempts, each under the policy that it needs."""

import mimetypes
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path, PurePosixPath

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from opd.view.server.answers import Gone, Unreadable, refusal
from opd.view.server.attempts import folder_of, is_sealed
from opd.view.server.index import Index
from opd.view.server.modules import modules_of
from opd.view.server.places import Place

PAGES = ("runs", "run", "rollouts", "score", "compare", "attempt")
"""What an address of a page begins with; the front-end reads the rest of it."""

REPORT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-same-origin allow-popups allow-downloads",  # and no script, whatever it holds
    )
)
"""Of a report: text and pictures. It was made from an explorer's words."""

_MODULES = b"<!-- modules -->"
_MOST_BYTES = 256 << 20
_TYPES = {  # those that matter, whatever the machine's own table says
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/plain",
    ".mjs": "text/javascript",
    ".pdf": "application/pdf",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}


class Pages:
    """Everything that is asked for as a file.

    Those of this package are read where requests come in: that takes less time than to wake a thread for it.
    """

    def __init__(self, index: Index, assets: Path, *, sent: Callable[[str, Request], None]) -> None:
        """`sent` is told of each page, by its name, once that is on its way."""
        self._index = index
        self._sent = sent
        self._assets = Place(root=assets.resolve(), inside=PurePosixPath())

    def routes(self) -> list[Route]:
        """Address by address."""
        pages = [path for name in PAGES for path in (f"/{name}", f"/{name}/{{id:path}}")]
        return [
            *(Route(path, self._page, methods=["GET"]) for path in ("/", *pages)),
            Route("/assets/{name:path}", self._asset, methods=["GET"]),
            Route("/favicon.ico", self._icon, methods=["GET"]),
            Route("/reports/{id}/{name:path}", self._report, methods=["GET"]),
        ]

    async def _page(self, request: Request) -> Response:
        place = self._assets.at("index.html")
        if place.stamp() is None:
            return PlainTextResponse("the pages are not part of this install; the API is, under /api/runs\n", 404)
        page = request.url.path.split("/")[1] or PAGES[0]
        modules = (f'<link rel="modulepreload" href="{one}">' for one in modules_of(page, self._assets))
        data = place.read(most=_MOST_BYTES).replace(_MODULES, "\n".join(modules).encode())
        answered = _answer(request, data, media_type="text/html")
        answered.background = BackgroundTask(self._sent, page, request)
        return answered

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if any(part.startswith(".") for part in name.split("/")):
            raise Gone(f"there is no asset {name[:60]!a}")
        return _file(request, self._assets.at(name))

    async def _icon(self, request: Request) -> Response:
        place = self._assets.at("favicon.ico")
        return _file(request, place) if place.stamp() else Response(status_code=204)

    def _report(self, request: Request) -> Response:
        entry = self._index.entry(request.path_params["id"])
        stage, _, rest = request.path_params["name"].partition("/")
        try_, _, file = rest.partition("/")
        if stage != "report" or not file:
            return refusal(404, "a report's address is /reports/ID/report/attempt-NNN/FILE")
        folder = folder_of(entry, f"{stage}/{try_}")
        if not is_sealed(folder):
            raise Gone(f"{stage}/{try_} is not sealed: a report counts when it is")
        answered = _file(request, folder.at(file))
        answered.headers["content-security-policy"] = REPORT_POLICY
        return answered


def _file(request: Request, place: Place) -> Response:
    if not place.inside.parts:
        raise Unreadable("this is a folder; name a file in it")
    ending = place.inside.suffix.lower()
    kind = _TYPES.get(ending) or mimetypes.guess_type(place.inside.name)[0] or "application/octet-stream"
    return _answer(request, place.read(most=_MOST_BYTES), media_type=kind)


def _answer(request: Request, data: bytes, *, media_type: str) -> Response:
    """The bytes with their digest as a tag: they are sent again only when they are others."""
    tag = f'"{sha256(data).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)
