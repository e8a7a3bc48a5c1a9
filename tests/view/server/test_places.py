"""No name leads out of the given folders, and no link is followed below them."""

import os
from pathlib import Path, PurePosixPath

import pytest
from tests.view.server.asking import served

from opd.view.server.answers import Gone, Unreadable
from opd.view.server.places import Place

SECRET = "what nobody shall read"


@pytest.fixture
def ground(tmp_path):
    """A root with a file, and a secret beside it."""
    root = tmp_path / "runs"
    (root / "run").mkdir(parents=True)
    (root / "run" / "file.txt").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    return root


@pytest.fixture
def place(ground):
    return Place(root=ground, inside=PurePosixPath("run"))


def test_a_file_inside_is_read(place):
    assert place.at("file.txt").read(most=100) == b"inside"


@pytest.mark.parametrize(
    "name", ["../../outside/secret.txt", "../run/file.txt", "..", "a/../../x", "/etc/passwd", "x\0y"]
)
def test_a_name_that_leads_out_is_gone_before_anything_is_opened(place, name):
    with pytest.raises(Gone):
        place.at(name)


def plant_link(ground, how):
    outside = ground.parent / "outside"
    if how == "the file":
        (ground / "run" / "planted").symlink_to(outside / "secret.txt")
        return "planted"
    if how == "a folder on the way":
        (ground / "run" / "way").symlink_to(outside)
        return "way/secret.txt"
    (ground / "run").rename(ground / "moved")
    (ground / "run").symlink_to(outside)
    return "secret.txt"


@pytest.mark.parametrize("how", ["the file", "a folder on the way", "the run itself"])
def test_a_link_out_is_not_followed_wherever_it_stands(ground, place, how):
    name = plant_link(ground, how)
    assert (place.path / name).read_text() == SECRET  # whoever follows links reads it (faults H34)
    with pytest.raises(Unreadable, match="links are not followed"):
        place.at(name).open()
    assert place.at(name).stamp() is None


def test_a_link_to_a_file_inside_is_not_followed_either(ground, place):
    (ground / "run" / "planted").symlink_to("file.txt")
    with pytest.raises(Unreadable):
        place.at("planted").read(most=100)


def test_a_fifo_is_no_file_and_is_not_waited_for(ground, place):
    os.mkfifo(ground / "run" / "fifo")  # opening it plainly would wait for a writer that never comes
    with pytest.raises(Unreadable, match="no file"):
        place.at("fifo").open()


def test_a_folder_is_no_file_and_a_file_is_no_folder(place):
    with pytest.raises(Unreadable):
        place.at().open()
    with pytest.raises(Unreadable):
        place.at("file.txt", "x").open()
    assert place.at("file.txt").names() == []
    assert place.names() == ["file.txt"]


def test_more_bytes_than_are_allowed_are_refused(place):
    assert place.at("file.txt").read(most=6) == b"inside"
    with pytest.raises(Unreadable, match="more than 5 bytes"):
        place.at("file.txt").read(most=5)


def test_no_descriptor_is_left_open(place, ground):
    (ground / "run" / "link").symlink_to("file.txt")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        place.at("file.txt").read(most=100)
        place.at("link").stamp()
        place.at("gone").stamp()
        place.names()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


OUT = (
    *(
        "../secret.txt",
        "..%2Fsecret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "..%5csecret.txt",
        "....//secret.txt",
    ),
    *(
        "/../secret.txt",
        "%2f..%2fsecret.txt",
        "x/../../secret.txt",
        "%00",
        "..",
        "%2e%2e",
        "link.txt",
        "way/secret.txt",
    ),
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory, make_attempt):
    """A server with a report and an asset, a secret in every folder above them, and links that lead to one."""
    top = tmp_path_factory.mktemp("top")
    tries = {"report/attempt-001": {"index.html": "<p>a report"}, "formal/attempt-001": {"stdout.log": SECRET}}
    attempt = make_attempt(top / "runs" / "attempt", tries=tries)
    (attempt / "report" / "attempt-002.partial").mkdir()
    (attempt / "report" / "attempt-002.partial" / "index.html").write_text(SECRET)
    report, assets = attempt / "report" / "attempt-001", top / "assets"
    assets.mkdir()
    (assets / "index.html").write_text("a page")
    for folder in (top, top / "runs", attempt, attempt / "report"):
        (folder / "secret.txt").write_text(SECRET)
    for folder in (assets, report):
        (folder / "link.txt").symlink_to(top / "secret.txt")
        (folder / "way").symlink_to(top)
        assert (folder / "way" / "secret.txt").read_text() == (folder / "link.txt").read_text() == SECRET
        assert (folder / ".." / "secret.txt").read_text() == SECRET
    (assets / ".hidden").write_text(SECRET)
    with served(top / "runs", assets=assets) as ask:
        yield ask, {"assets": "/assets/", "report": f"/reports/{ask.id('attempt')}/report/attempt-001/"}


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("below", ["assets", "report"])
def test_no_address_leads_out_of_assets_and_reports(planted, below, name):
    ask, bases = planted
    assert ask(f"{bases[below]}index.html").status == 200
    answered = ask(bases[below] + name)
    assert answered.status in {404, 409}
    assert SECRET.encode() not in answered.body


@pytest.mark.parametrize(
    "name",
    [
        *("", "index.html", "secret.txt", "report", "report/", "report/attempt-001", "report/attempt-001/"),
        *(
            "formal/attempt-001/stdout.log",
            "run.json",
            "report/attempt-002.partial/index.html",
            "report/attempt-002/index.html",
        ),
    ],
)
def test_of_an_attempt_nothing_but_its_sealed_reports_is_sent_as_a_file(planted, name):
    ask, bases = planted
    answered = ask(bases["report"].removesuffix("report/attempt-001/") + name)
    assert answered.status in {404, 409}
    assert ask("/assets/.hidden").status == 404


IDS = (
    "0" * 12,
    "..",
    "%2e%2e",
    "runs%2fattempt",
    "../attempt",
    "attempt",
    "%2fetc%2fpasswd",
    "x" * 5000,
    "%C3%A9",
    "%00",
)


@pytest.mark.parametrize("id_", IDS)
@pytest.mark.parametrize("rest", ["", "/metrics", "/samples/0", "/rollouts/1", "/log"])
def test_an_id_that_was_not_given_out_names_nothing(planted, id_, rest):
    assert planted[0](f"/api/runs/{id_}{rest}").status == 404
