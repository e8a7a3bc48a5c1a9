"""The file tree of a sandbox, seen by a program in it: what is there is there, and nothing else."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pydantic
import pytest

from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.sandbox import ladder
from opd.protocol.sandbox.layout import interpreter, layout
from opd.protocol.sandbox.view import Mount, View, own_code, python_mounts
from opd.protocol.supervision.supervise import supervise

P = PurePosixPath
Run = Callable[..., str]


@pytest.fixture(params=["bubblewrap", "unshare"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """What a shell command prints on a rung with a file tree of its own."""
    rung = ladder.BY_NAME[request.param]
    if (reason := ladder.lacks(rung)) is not None:
        pytest.skip(f"{request.param} doesn't work here: {reason}")

    def run(command: str, *mounts: Mount, **settings: Any) -> str:
        values = {"folder": P("/"), "environment": {"PATH": "/usr/bin:/bin"}} | settings
        launch = rung.command(View(mounts=mounts, **values), ["sh", "-c", command], mark=ladder.new_mark())
        out, err = tmp_path / "out", tmp_path / "err"
        ended = supervise(launch, deadline=Deadline(Stopwatch(), seconds=60), grace_seconds=0, out=out, err=err)
        assert ended.reason == "ended", (ended, err.read_text())
        return out.read_text() + err.read_text()

    return run


def test_nothing_of_the_host_is_there_that_was_not_mounted(run: Run, tmp_path: Path) -> None:
    names = set(run("ls -A /").split())
    assert names <= {
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "nix",
        "opd",
        "proc",
        "root",
        "sbin",
        "usr",
    }
    assert not set(run("ls -A /etc").split()) & {"shadow", "resolv.conf", "hostname", "environment", "ssh"}
    top = Path(interpreter()).parts[1]
    allowed = Path(interpreter()).parts[2] if top == "root" else ""
    assert run("ls -A /root 2>/dev/null").split() in ([], [allowed])


def test_what_is_mounted_is_there_to_read_or_to_write_as_it_says(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "data.jsonl").write_text("{}\n")
    mounts = (
        Mount(source=tmp_path / "inputs" / "data.jsonl", target=P("/workspace/inputs/train.jsonl")),
        Mount(source=tmp_path / "work", target=P("/workspace"), writable=True),
    )
    said = run("cat inputs/train.jsonl; echo x > mine && echo written; echo x >> inputs/train.jsonl", *mounts,
               folder=P("/workspace"))  # fmt: skip
    assert said.startswith("{}\nwritten\n")
    assert "Read-only" in said
    assert (tmp_path / "work" / "mine").read_text() == "x\n"
    assert (tmp_path / "inputs" / "data.jsonl").read_text() == "{}\n"


def test_the_tree_itself_can_not_be_written_to(run: Run) -> None:
    said = run("for place in / /etc /usr /opd /opd/inside /proc/sys; do touch $place/x && echo written; done")
    assert "written" not in said
    assert said.count("\n") == 6


def test_files_and_folders_are_hidden_wherever_something_shows_them(run: Run, tmp_path: Path) -> None:
    for name in ("shown/final/secret", "shown/key", "shown/open"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"content of {name}\n")
    mounts = (
        Mount(source=tmp_path / "shown", target=P("/a")),
        Mount(source=tmp_path, target=P("/b"), writable=True),
    )
    hidden = (tmp_path / "shown" / "final", tmp_path / "shown" / "key", tmp_path / "nothing")
    said = run("cat /a/open /b/shown/open; cat /a/key /b/shown/key; ls -A /a/final /b/shown/final; "
               "touch /b/shown/final/x; echo x > /b/shown/key", *mounts, hidden=hidden)  # fmt: skip
    assert said.count("content of shown/open") == 2
    assert "content of shown/final" not in said
    assert "content of shown/key" not in said
    assert list((tmp_path / "shown" / "final").iterdir()) == [tmp_path / "shown" / "final" / "secret"]
    assert (tmp_path / "shown" / "key").read_text() == "content of shown/key\n"


def test_python_with_its_packages_runs_and_does_not_find_this_package(run: Run) -> None:
    program = "\n".join(
        (
            "import pydantic; print(pydantic.__version__)",
            "try: import opd.records.files",
            "except ImportError: print('no')",
        )
    )
    said = run(f'{sys.executable} -c "{program}"', *python_mounts(), hidden=own_code())
    assert said.split() == [pydantic.__version__, "no"]


def test_no_setting_of_the_kernel_is_open_to_a_supervisor_who_is_root(run: Run) -> None:
    """Root outside is root to `/proc/sys` inside, without any capability; bubblewrap 0.8 alone leaves it open."""
    sought = (
        r"find /proc -maxdepth 5 \( -path '/proc/[0-9]*' -o -path /proc/self -o -path /proc/thread-self \) -prune"
    )
    found = run(f"{sought} -o -type f -writable -print 2>/dev/null").split()
    assert {str(Path(place).parent) for place in found} <= {"/proc/pressure"}  # own triggers for waiting: harmless
    if os.geteuid() == 0:
        outside = subprocess.run(
            ["sh", "-c", f"{sought} -o -type f -writable -print"], stdout=subprocess.PIPE, check=False
        )
        assert b"/proc/sys/kernel/core_pattern" in outside.stdout.split()


def test_who_it_is_where_it_is_and_that_it_can_talk_to_itself(run: Run) -> None:
    program = (
        "import json, os, pwd, socket\n"
        "server = socket.create_server(('127.0.0.1', 0)); client = socket.create_connection(server.getsockname())\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(json.dumps([pwd.getpwuid(os.getuid()).pw_name, os.getuid(), os.getgid(), socket.gethostname(),"
        " socket.gethostbyname('localhost'), status['CapEff'].strip(), status['CapBnd'].strip(),"
        " status['NoNewPrivs'].strip(), status['Seccomp'].strip(), os.getsid(0) == os.getpid()]))"
    )
    said = json.loads(run(f'exec {interpreter()} -I -S -c "{program}"'))
    none = "0" * 16
    assert said == ["explorer", 1000, 1000, "opd", "127.0.0.1", none, none, "1", "2", True]


def test_mounts_are_made_from_the_root_down_and_covers_last(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    view = View(
        mounts=(
            Mount(source=tmp_path, target=P("/a/b/c")),
            Mount(source=tmp_path, target=P("/a")),
            Mount(source=None, target=P("/a/b")),
        ),
        hidden=(tmp_path / "secret",),
        folder=P("/"),
        environment={},
    )
    steps = layout(view)
    assert [step.target for step in steps if step.target.startswith("/a")] == [
        *("/a", "/a/b", "/a/b/c"),
        *("/a/secret", "/a/b/c/secret"),
    ]
    assert {step.kind for step in steps if step.target.endswith("secret")} == {"covered"}
