"""Who is answered, and what every answer carries."""

import gzip
import hashlib

import pytest
from tests.view.server.asking import COOKIE, TOKEN, served

PATHS = (
    "/",
    "/run/abc",
    "/api/runs",
    "/api/runs/000000000000",
    "/assets/app.js",
    "/reports/x/report/a/index.html",
    "/?",
)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    root, assets = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("assets")
    (assets / "index.html").write_text("<!doctype html><title>opd</title>")
    (assets / "app.js").write_text("export const x = 1;")
    (assets / "long.js").write_text("export const y = 2;\n" * 1_000)
    with served(root, assets=assets) as asking:
        yield asking


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST:8000", "[::1]:65535"])
def test_a_name_of_this_machine_is_answered_at_any_port_so_that_a_forwarded_one_works(ask, host):
    assert ask("/api/runs", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example@127.0.0.1",
        ),
        *("127.0.0.1:80@evil.example", "", "0.0.0.0", "[::1].evil.example", "127.0.0.1:x", "localhost.", "127.0.0.2"),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_a_foreign_name_for_this_machine_is_refused_even_with_the_cookie(ask, host, path):
    assert ask(path, headers={"host": host}).status == 421


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:{port}", "https://127.0.0.1:{port}"],
)
def test_a_foreign_origin_is_refused(ask, origin):
    own = f"http://127.0.0.1:{ask.port}"
    assert ask("/api/runs", headers={"origin": own}).status == 200  # the control: it is the origin that is refused
    assert ask("/api/runs", headers={"origin": origin.format(port=ask.port)}).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_gets_nothing_but_a_page_that_a_person_follows_a_link_to(ask, site):
    followed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert ask("/", headers=followed).status == 200
    assert ask("/api/runs", headers=followed).status == 403
    assert ask("/", headers=followed | {"sec-fetch-dest": "iframe"}).status == 403
    for path in PATHS:
        assert ask(path, headers={"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}).status == 403
    assert ask("/api/runs", headers={"sec-fetch-site": "same-origin"}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_the_server_is_read_and_never_written_to(ask, method):
    for path in PATHS:
        answered = ask(path, method=method, headers={"content-length": "0"})
        assert (answered.status, answered.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/api/runs", "/assets/app.js"])
def test_a_head_is_a_get_without_its_body(ask, path):
    got, head = ask(path), ask(path, method="HEAD")
    assert (got.status, head.status, head.body) == (200, 200, b"")
    assert got.body
    assert head.headers["content-length"] == str(len(got.body))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "cookie", [None, f"{COOKIE}=", f"{COOKIE}=x", f"{COOKIE}={TOKEN[:-1]}", f"other={TOKEN}", f"{COOKIE}=é"]
)
def test_without_the_token_nothing_is_told(ask, path, cookie):
    headers = {} if cookie is None else {"cookie": cookie.encode().decode("latin-1")}
    answered = ask(path, headers=headers, known=False)
    assert answered.status == 401
    assert b"export" not in answered.body
    assert b"roots" not in answered.body


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(ask):
    answered = ask(f"/run/abc?a=1&token={TOKEN}&b=%26", known=False)
    assert (answered.status, answered.headers["location"]) == (303, "/run/abc?a=1&b=%26")
    said = answered.headers["set-cookie"]
    assert said.startswith(f"{COOKIE}={TOKEN};")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in said.split(";")}
    assert ask("/run/abc", headers={"cookie": said.partition(";")[0]}, known=False).status == 200


def test_a_cookie_is_found_beside_malformed_ones(ask):
    assert ask("/api/runs", headers={"cookie": f'bad[]="; {COOKIE}={TOKEN}; x=@@'}, known=False).status == 200


@pytest.mark.parametrize("wrong", ["", "x", TOKEN.upper(), f"{TOKEN}%00", "%E9", f"{TOKEN}x"])
def test_a_wrong_token_is_refused_even_beside_a_good_cookie_and_sets_none(ask, wrong):
    answered = ask(f"/?token={wrong}")
    assert (answered.status, answered.headers["set-cookie"]) == (401, None)


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "///evil.example"])
def test_the_way_from_the_token_leads_nowhere_else(ask, path):
    answered = ask(f"{path}?token={TOKEN}", known=False)
    assert answered.status == 303
    assert answered.headers["location"].startswith("/")
    assert answered.headers["location"][1] not in "/\\"


@pytest.mark.parametrize(
    ("path", "changes"),
    [(path, {}) for path in (*PATHS, "/nowhere")]
    + [("/", {"headers": {"host": "x"}}), ("/", {"known": False}), ("/", {"method": "POST"})],
)
def test_every_answer_keeps_what_it_says_here(ask, path, changes):
    headers = ask(path, **changes).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    if not path.startswith("/reports"):
        assert policy["default-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
    assert not any("unsafe-inline" in sources or "unsafe-eval" in sources for sources in policy.values())
    assert not any("http:" in sources or "https:" in sources or "*" in sources for sources in policy.values())
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["access-control-allow-origin"] is None
    assert headers["cache-control"] in {"no-store", "no-cache"}


def test_an_asset_is_sent_again_only_when_it_is_another(ask):
    first = ask("/assets/app.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert first.headers["etag"] == f'"{hashlib.sha256(first.body).hexdigest()[:32]}"'
    assert ask("/assets/app.js", headers={"if-none-match": first.headers["etag"]}).status == 304
    assert ask("/assets/app.js", headers={"if-none-match": '"another"'}).body == first.body


def test_an_answer_is_packed_for_those_who_can_unpack_it(ask):
    plain = ask("/assets/long.js")
    packed = ask("/assets/long.js", headers={"accept-encoding": "gzip"})
    assert (plain.headers["content-encoding"], packed.headers["content-encoding"]) == (None, "gzip")
    assert len(packed.body) < len(plain.body) / 10
    assert gzip.decompress(packed.body) == plain.body
