"""A view as the options of Docker and Podman, and a real container where there is a daemon."""

import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.sandbox import ladder
from opd.protocol.sandbox.containers import Container
from opd.protocol.sandbox.view import Limits, Mount, View
from opd.protocol.supervision.supervise import supervise
from opd.records.errors import AskedWrongly

P = PurePosixPath


def view_of(folder: Path, **settings: Any) -> View:
    for name in ("work", "inputs/final"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = {
        "mounts": (
            Mount(source=folder / "work", target=P("/workspace"), writable=True),
            Mount(source=folder / "inputs", target=P("/inputs")),
            Mount(source=None, target=P("/tmp")),
        ),
        "folder": P("/workspace"),
        "environment": {"STUDENT_MODEL": P("/inputs/student"), "LANG": "C.UTF-8"},
        "image": "example.org/opd@sha256:0",
    }
    return View(**(values | settings))


def test_everything_that_a_view_holds_is_an_option_of_run(tmp_path: Path) -> None:
    limits = Limits(processes=100, memory_bytes=1 << 30, file_bytes=1 << 20, scratch_bytes=1 << 16)
    view = view_of(tmp_path, hidden=(tmp_path / "inputs" / "final",), limits=limits, gpu=True)
    launch = Container(program="docker").command(view, ["bash", P("/workspace/run.sh")], mark="m")
    assert list(launch.orders.argv) == [
        *("docker", "run"),
        *("--rm", "--network", "none", "--ipc", "private", "--read-only"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "1000:1000"),
        *("--name", "opd-m", "--label", "opd.mark=m", "--workdir", "/workspace"),
        *(
            "--pids-limit",
            "100",
            "--memory",
            "1073741824",
            "--memory-swap",
            "1073741824",
            "--ulimit",
            "fsize=1048576",
        ),
        *("--mount", f"type=bind,source={tmp_path}/work,target=/workspace"),
        *("--mount", f"type=bind,source={tmp_path}/inputs,target=/inputs,readonly"),
        *("--tmpfs", "/tmp:rw,mode=1777,size=65536"),
        *("--tmpfs", "/inputs/final:ro,size=4k"),
        *("--env", "STUDENT_MODEL=/inputs/student", "--env", "LANG=C.UTF-8", "--env", "OPD_ATTEMPT_MARK=m"),
        *("--gpus", "all"),
        "example.org/opd@sha256:0",
        *("bash", "/workspace/run.sh"),
    ]
    assert list(launch.orders.afterwards) == ["docker", "rm", "--force", "opd-m"]


def test_what_a_container_can_not_do_is_refused(tmp_path: Path) -> None:
    docker = Container(program="docker")
    with pytest.raises(AskedWrongly, match="needs an image"):
        docker.command(view_of(tmp_path, image=None), ["true"], mark="m")
    (tmp_path / "inputs" / "key").write_text("")
    with pytest.raises(AskedWrongly, match=r"inputs/key: a container can hide a folder, not a file"):
        docker.command(view_of(tmp_path, hidden=(tmp_path / "inputs" / "key",)), ["true"], mark="m")
    (tmp_path / "a,b").mkdir()
    with pytest.raises(AskedWrongly, match="comma"):
        docker.command(
            view_of(tmp_path, mounts=(Mount(source=tmp_path / "a,b", target=P("/a")),)), ["true"], mark="m"
        )


def test_a_client_without_its_daemon_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Container(program="podman").missing() == "podman is not installed"
    (tmp_path / "podman").write_text("#!/bin/sh\necho 'Cannot connect' >&2\nexit 125\n")
    (tmp_path / "podman").chmod(0o755)
    assert Container(program="podman").missing() == "podman info: Cannot connect"
    with pytest.raises(AskedWrongly, match="sandbox podman doesn't work here: podman info: Cannot connect"):
        ladder.choose("podman")


def test_a_container_is_removed_by_its_name_when_its_program_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a client that writes down what it was asked: `run` ends by itself, and `rm` comes after it."""
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$1 $2 $3" >> {tmp_path}/asked\n')
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    launch = Container(program="docker").command(view_of(tmp_path), ["true"], mark="m")
    ended = supervise(launch, deadline=None, grace_seconds=0, out=tmp_path / "out", err=tmp_path / "err")
    assert (ended.reason, ended.exit_code) == ("ended", 0)
    assert (tmp_path / "asked").read_text().splitlines() == ["run --rm --network", "rm --force opd-m"]


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_a_real_container_runs_the_program(program: str, tmp_path: Path) -> None:
    container = Container(program=program)
    if (reason := container.missing()) is not None:
        pytest.skip(f"needs {program}: {reason}")
    listed = subprocess.run([program, "images", "--quiet"], capture_output=True, text=True, check=True)
    if not listed.stdout.split():
        pytest.skip(f"{program} has no image here, and the tests have no network to fetch one")
    view = view_of(tmp_path, image=listed.stdout.split()[0], environment={"PATH": "/usr/bin:/bin"})
    (tmp_path / "work").chmod(0o777)
    ended = supervise(
        container.command(view, ["sh", "-c", "echo here > made; exit 4"], mark=ladder.new_mark()),
        deadline=Deadline(Stopwatch(), seconds=60),
        grace_seconds=0,
        out=tmp_path / "out",
        err=tmp_path / "err",
    )
    assert ended.exit_code == 4, (tmp_path / "err").read_text()
    assert (tmp_path / "work" / "made").read_text() == "here\n"
