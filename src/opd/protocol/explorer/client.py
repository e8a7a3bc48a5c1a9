"""The explorer's commands: this one file stands in the sandbox under each of their names, and asks the desk.

It needs nothing but Python's standard library, and decides nothing: what may be done is known outside.
"""

import argparse
import fcntl
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

CONFLICT = 75  # EX_TEMPFAIL: somebody else has the device
DESK = "OPD_DESK"  # the variable that says where the desk's socket is
DEVICE = "OPD_DEVICE_LOCK"  # and the device's lock


def main() -> int:
    """The exit code of the command under whose name this file was started."""
    name = Path(sys.argv[0]).name
    if name == "on-device":
        return _on_device(sys.argv[1:])
    parser = argparse.ArgumentParser(prog=name, description=_DESCRIPTIONS[name])
    _ARGUMENTS[name](parser)
    return _ask(name, vars(parser.parse_args()))


def _fast_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="folder of a complete checkpoint below the workspace")
    parser.add_argument("--note", help="what it is, for the record")


def _timer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def _submit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--note", help="what the patch does, for the record")
    parser.add_argument("--check", action="store_true", help="only say whether it would be accepted")
    parser.add_argument("--with-time-left", action="store_true", help="submit although another measurement would fit")


def _no_candidate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--because", required=True, help="why there is nothing to submit")


def _note(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="in quotes: why you try something, or what you make of a result")
    parser.add_argument("--about", metavar="RUN", help="which run: its folder, or a proxy's number")


_DESCRIPTIONS = {
    "fast-eval": "Score a checkpoint by the proxy benchmark; it has the device for itself meanwhile.",
    "timer": "What is left of the exploration, what still fits into it, and what difference that could find.",
    "note": "Put your own words into the record, for the report to quote; free of charge.",
    "submit": "Hand in the workspace as a source patch. It is checked at once; accepted, the exploration ends.",
    "no-candidate": "End the exploration without a patch.",
}
_ARGUMENTS = {
    "fast-eval": _fast_eval,
    "timer": _timer,
    "note": _note,
    "submit": _submit,
    "no-candidate": _no_candidate,
}


def _ask(name: str, arguments: dict[str, Any]) -> int:
    """Says what the desk says, and gives its exit code."""
    question = {"command": name, "arguments": arguments, "folder": str(Path.cwd())}
    try:
        with socket.socket(socket.AF_UNIX) as desk:
            desk.connect(os.environ[DESK])
            desk.sendall(json.dumps(question).encode() + b"\n")
            with desk.makefile("r", encoding="utf-8") as answer:
                for line in answer:
                    said = json.loads(line)
                    if "exit" in said:
                        return int(said["exit"])
                    _say(said["say"])
    except (OSError, KeyError) as error:
        _complain(f"{name}: nobody is at the desk ({error}); the exploration is over")
        return 1
    _complain(f"{name}: the desk closed before it had answered; the exploration is over")
    return 1


def _on_device(command: list[str]) -> int:
    """Becomes the command, which shares the device with others of its kind; an evaluation has it alone."""
    if not command:
        _complain("on-device COMMAND…: run a training command on the device, beside others, never beside fast-eval")
        return 2
    lock = os.open(os.environ[DEVICE], os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = Path(f"{os.environ[DEVICE]}.holder")
        who = holder.read_text(encoding="utf-8").strip() if holder.exists() else "somebody"
        _complain(f"on-device: {who} has the device for itself; try again when it is done")
        return CONFLICT
    os.set_inheritable(lock, True)  # the lock lives as long as the command and its children
    try:
        os.execvp(command[0], command)  # noqa: S606  exactly what was asked for
    except OSError as error:
        _complain(f"on-device: {command[0]}: {error.strerror}")
        return 127


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
