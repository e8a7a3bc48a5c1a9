"""Harnesses: how each is started, and how it reaches a model from a sandbox without a network."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opd.protocol.explorer import endpoint
from opd.protocol.explorer.adapters import Through, adapter_of, check_reachable, names, recognised
from opd.protocol.packages.catalogue import find
from opd.records.errors import AskedWrongly

# How they are started


@pytest.mark.parametrize(
    ("text", "harness", "words"),
    [
        ("claude", "claude-code", ("claude",)),
        ("claude-code", "claude-code", ("claude",)),
        ("/opt/bin/claude --max-turns 5", "claude-code", ("/opt/bin/claude", "--max-turns", "5")),
        ("codex", "codex", ("codex",)),
        ("python 'my agent.py' --fast", "command", ("python", "my agent.py", "--fast")),
        ("command", "command", ("command",)),
        ("echo claude", "command", ("echo", "claude")),
    ],
)
def test_a_command_line_is_known_by_its_program(text: str, harness: str, words: tuple[str, ...]) -> None:
    assert recognised(text) == (harness, words)


@pytest.mark.parametrize("text", ["", "   ", "python 'unended"])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(AskedWrongly):
        recognised(text)


def test_every_file_of_the_folder_is_a_harness_of_its_own_name() -> None:
    assert names() == ("claude-code", "codex", "command")
    assert [adapter_of(name).name for name in names()] == list(names())
    with pytest.raises(AskedWrongly, match="claude-code, codex, command"):
        adapter_of("harbour")


@pytest.mark.parametrize("harness", ["claude-code", "codex", "command"])
def test_the_instruction_arrives_on_standard_input_and_the_rest_as_words(tmp_path: Path, harness: str) -> None:
    (tmp_path / "in.md").write_text("línea 1\n$HOME `x` \"'\n")
    program = tmp_path / "claude"
    told = "json.dumps([sys.stdin.read(), sys.argv[1:], dict(os.environ)])"
    program.write_text(f"#!{sys.executable}\nimport json, os, sys\nprint({told})\n")
    program.chmod(0o755)
    start = adapter_of(harness).start(
        (str(program), "a b"), model="the model", effort="high", instruction=PurePosixPath(tmp_path / "in.md")
    )
    ran = subprocess.run(
        list(map(str, start.argv)),
        env={k: str(v) for k, v in start.variables.items()},
        capture_output=True,
        check=True,
    )
    read, words, environment = json.loads(ran.stdout)
    assert read == "línea 1\n$HOME `x` \"'\n"
    assert words[0] == "a b"
    assert ("the model" in words) == (harness != "command")
    assert environment["OPD_MODEL"] == "the model"
    assert environment["OPD_INSTRUCTION"] == str(tmp_path / "in.md")


def test_a_version_is_what_the_harness_says_or_the_digest_of_the_files_that_a_command_names(tmp_path: Path) -> None:
    claude, script = tmp_path / "claude", tmp_path / "agent.sh"
    claude.write_text("#!/bin/sh\necho '2.1.5 (Claude Code)'\necho more\n")
    claude.chmod(0o755)
    assert adapter_of("claude-code").version((str(claude),)) == "2.1.5 (Claude Code)"
    script.write_text("one")
    before = adapter_of("command").version(("bash", str(script)))
    script.write_text("two")
    assert before.startswith("sha256:")
    assert adapter_of("command").version(("bash", str(script))) != before
    with pytest.raises(AskedWrongly, match="is it installed"):
        adapter_of("codex").version((str(tmp_path / "codex"),))


def test_a_harness_that_asks_a_model_needs_an_endpoint_and_a_command_does_not(tmp_path: Path) -> None:
    contract = find("arith_tiny")[0].contract
    check_reachable(adapter_of("command"), contract, endpoint=None)
    with pytest.raises(AskedWrongly, match="--endpoint"):
        check_reachable(adapter_of("claude-code"), contract, endpoint=None)
    with pytest.raises(AskedWrongly, match="no socket"):
        check_reachable(adapter_of("codex"), contract, endpoint=tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        check_reachable(adapter_of("codex"), contract, endpoint=tmp_path / "s")


# Through the endpoint


@pytest.fixture
def answering(tmp_path: Path) -> Any:
    """A server at a socket, which answers each connection with its bytes in capitals."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "model.sock"))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    asking, _ = server.accept()
                except OSError:
                    return
                with asking:
                    held = b""
                    while chunk := asking.recv(1 << 16):
                        held += chunk
                    asking.sendall(held.upper())

        threading.Thread(target=serve, daemon=True).start()
        yield tmp_path / "model.sock"
        server.shutdown(socket.SHUT_RDWR)


ASK = f"""
import socket, sys
with socket.create_connection(("127.0.0.1", {endpoint.PORT})) as model:
    model.sendall(b"abc" * 100_000)
    model.shutdown(socket.SHUT_WR)
    held = b""
    while chunk := model.recv(1 << 16):
        held += chunk
sys.exit(7 if held == b"ABC" * 100_000 else 1)
"""


def relayed(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    through = Through(python=sys.executable, program=PurePosixPath(endpoint.__file__), socket=PurePosixPath(place))
    start = adapter_of("command").start(
        command, model=None, effort=None, instruction=PurePosixPath(os.devnull), through=through
    )
    return subprocess.run(list(map(str, start.argv)), capture_output=True, text=True, timeout=20, check=False)


def test_a_harness_reaches_its_model_through_the_socket_and_its_exit_code_comes_out(answering: Path) -> None:
    ended = relayed(answering, sys.executable, "-c", ASK)
    assert (ended.returncode, ended.stderr) == (7, "")


def test_a_command_that_a_signal_ends_or_that_is_not_there_is_told_as_shells_tell_it(answering: Path) -> None:
    assert relayed(answering, "sh", "-c", "kill -KILL $$").returncode == 128 + 9
    missing = relayed(answering, "no-such-harness")
    assert missing.returncode == 127
    assert "no-such-harness" in missing.stderr


def test_where_nobody_answers_the_harness_is_told_so(tmp_path: Path) -> None:
    ended = relayed(tmp_path / "nobody.sock", sys.executable, "-c", ASK)
    assert ended.returncode == 1
    assert "nobody answers" in ended.stderr
