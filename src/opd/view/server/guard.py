"""Who is answered: somebody with the token, at this machine, who reads.

A page on the web may ask a server on this machine for something, in its visitor's browser. What it sends gives it
away: a foreign name in Host (it had its own name point here), a foreign Origin, or `Sec-Fetch-Site: cross-site`.
Other people on this machine can reach the port as well, which is what the token is for. It comes with the first
address and is then a cookie, so that it stands in no address that is shared, stored or logged.
"""

import re
import secrets
from http.cookies import SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opd.view.server.answers import refusal

PAGE_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Of every answer that has none of its own: nothing from elsewhere, no script but those in files, no frame around."""

_METHODS = {"GET", "HEAD"}
_HOST = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
_OURS = {"same-origin", "none"}  # of Sec-Fetch-Site: our own pages, and an address that was typed
_HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard:
    """Lets through what may be asked, and puts on every answer what keeps it here."""

    def __init__(self, app: ASGIApp, *, token: str, cookie: str) -> None:
        self._app = app
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; a connection of another kind than HTTP is not answered."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        target = self._refusal(scope) or self._welcome(scope) or self._app
        await target(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            return refusal(421, "this server is asked as 127.0.0.1, localhost or [::1], and by no other name")
        if scope["method"] not in _METHODS:
            answered = refusal(405, f"{scope['method']} is not answered: this server is read, never written to")
            answered.headers["allow"] = "GET, HEAD"
            return answered
        if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
            return refusal(403, "another site asks; open the address that `opd view` printed")
        if headers.get("sec-fetch-site", "none") not in _OURS and not _is_followed_link(scope, headers):
            return refusal(403, "another site asks; open the address that `opd view` printed")
        return None

    def _welcome(self, scope: Scope) -> Response | None:
        """How one is answered who shows the token in the address, and one who doesn't show it at all; else None."""
        path = scope["path"]
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = [value for name, value in pairs if name == "token"]
        if shown:
            if not any(_same(one, self._token) for one in shown):
                return _unknown(path)
            rest = urlencode([(name, value) for name, value in pairs if name != "token"])
            place = "/" + path.lstrip("/\\")  # `//elsewhere` would lead there
            answered = RedirectResponse(place + (f"?{rest}" if rest else ""), status_code=303)
            answered.set_cookie(self._cookie, self._token, httponly=True, samesite="lax", path="/")
            return answered
        known = any(_same(one, self._token) for one in _cookies(Headers(scope=scope), self._cookie))
        return None if known else _unknown(path)


def _is_followed_link(scope: Scope, headers: Headers) -> bool:
    """Whether a person followed a link to a page: that person sees it, and the site it stood on does not."""
    return (
        headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and not scope["path"].startswith("/api/")
    )


def _cookies(headers: Headers, name: str) -> list[str]:
    found = []
    for header in headers.getlist("cookie"):
        jar = SimpleCookie()
        for part in header.split(";"):  # one that is malformed must not hide the others
            if part.strip().startswith(f"{name}="):
                jar.load(part.strip())
        found += [morsel.value for key, morsel in jar.items() if key == name]
    return found


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())


def _unknown(path: str) -> Response:
    said = "open the address that `opd view` printed, with its token; each start of `opd view` has a new one"
    return refusal(401, said) if path.startswith("/api/") else PlainTextResponse(f"{said}\n", status_code=401)
