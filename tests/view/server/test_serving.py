"""The command itself: where it listens, what it prints, how it ends, and that it only reads."""

import asyncio
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from click.testing import CliRunner

from opd.cli.view import view
from opd.records.errors import AskedWrongly
from opd.view.server.serving import listening, shown_in_browser

CODE = "import sys; from opd.cli.view import view; view(sys.argv[1:])"


@contextmanager
def running(*arguments):
    """`opd view`, and the address that it printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", CODE, *arguments, "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_an_answer_is_sent_at_once():
    """Else an answer on a connection that is kept waits 40 ms for the client to acknowledge its first half."""

    async def accepted(listener):
        heard = asyncio.get_running_loop().create_future()

        async def hear(_, writer):
            heard.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(hear, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            found = await heard
            writer.close()
            return found

    for listener in listening(0):
        assert asyncio.run(accepted(listener)) == 1


def state(folder):
    return {
        str(path): (
            path.lstat().st_mtime_ns,
            path.lstat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(Path(folder).rglob("*"))
    }


def test_it_prints_its_address_answers_there_and_ends_well_by_ctrl_c(tmp_path, make_train, make_score):
    make_train(tmp_path / "run", steps=3)
    make_score(tmp_path / "score")
    before = state(tmp_path)
    with running(str(tmp_path)) as (process, address):
        found = re.fullmatch(r":(\d+)/\?token=([\w-]{20,})", address.removeprefix("http://127.0.0.1"))
        assert found, address
        with closing(HTTPConnection("127.0.0.1", int(found[1]), timeout=60)) as connection:
            connection.request("GET", "/api/runs", headers={"cookie": f"opd-view-{found[1]}={found[2]}"})
            answered = connection.getresponse()
            assert (answered.status, answered.headers["server"]) == (200, None)
            assert b'"score"' in answered.read()
        assert addresses_of(process.pid) <= {"127.0.0.1", "::1"}
        process.send_signal(signal.SIGINT)
        out, complaints = process.communicate(timeout=60)
        assert (process.returncode, out, complaints) == (0, "", "")
    assert state(tmp_path) == before  # nothing was written, not even a time


def addresses_of(pid):
    """Where a process listens, as the kernel says."""
    inodes = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and f"socket:[{parts[9]}]" in inodes:
                raw = bytes.fromhex(parts[1].partition(":")[0])
                words = [raw[at : at + 4][::-1] for at in range(0, len(raw), 4)]
                found.add(socket.inet_ntop(family, b"".join(words)))
    assert found, "it listens nowhere"
    return found


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="the kernel lists no children"
)
def test_ctrl_c_ends_what_a_page_waits_for_and_says_nothing(tmp_path, make_train):
    make_train(tmp_path / "run", steps=1)
    with running(str(tmp_path)) as (process, address):
        place, _, token = address.removeprefix("http://").partition("/?token=")
        headers = {"cookie": f"opd-view-{place.rpartition(':')[2]}={token}"}
        with closing(HTTPConnection(place, timeout=60)) as connection:
            connection.request("GET", "/api/runs", headers=headers)
            (run,) = json.loads(connection.getresponse().read())["runs"]
            connection.request("GET", f"/api/runs/{run['id']}/plan", headers=headers)  # takes seconds
            tasks = Path(f"/proc/{process.pid}/task")
            while not (asked := [pid for one in tasks.iterdir() for pid in (one / "children").read_text().split()]):
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            assert json.loads(connection.getresponse().read())["plan"] is None
        _, complaints = process.communicate(timeout=60)
        assert (process.returncode, complaints) == (0, "")
        assert [pid for pid in asked if Path(f"/proc/{pid}").exists()] == []


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AskedWrongly, match=f"--port {port} is taken; give another, or 0"):
            CliRunner().invoke(view, [str(tmp_path), "--port", str(port), "--no-open"], catch_exceptions=False)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AskedWrongly, match="nowhere is no folder; name one that runs lie in"):
        CliRunner().invoke(view, [str(tmp_path / "nowhere"), "--no-open"], catch_exceptions=False)


def test_both_loopbacks_have_the_same_port():
    sockets = listening(0)
    try:
        names = [one.getsockname() for one in sockets]
        assert names[0][0] == "127.0.0.1"
        assert len({name[1] for name in names}) == 1
        assert {name[0] for name in names[1:]} <= {"::1"}
    finally:
        for one in sockets:
            one.close()


def test_a_browser_is_sent_there_without_the_token_in_a_command_line(tmp_path, monkeypatch):
    opened = tmp_path / "opened"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$*" > {opened}.partial\nmv {opened}.partial {opened}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # asked anew, with BROWSER as it is now
    address = "http://127.0.0.1:1/?token=secret&x=1"
    with shown_in_browser(address):
        while not opened.exists():
            time.sleep(0.01)
        place = opened.read_text()
        assert "secret" not in place
        page = Path(place.removeprefix("file://"))
        assert page.stat().st_mode & 0o077 == 0
        assert f"url={address.replace('&', '&amp;')}" in page.read_text()
    assert not page.exists()
