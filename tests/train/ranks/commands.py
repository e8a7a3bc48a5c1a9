"""`opd train` on two ranks, as two processes of this machine, each with its own words."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 60.0  # for both to end; one that waits for the other would take as long as it is waited for
Ended = tuple[int, str]


def called(
    out: Path, first: tuple[str, ...], second: tuple[str, ...], *, source: Path | None = None
) -> tuple[Ended, Ended]:
    """Exit status and what was said of two ranks that are called with these words.

    `source` is where the second one finds the package; None: where the first does.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank, words in enumerate((first, second)):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        path = {"PYTHONPATH": str(source)} if rank and source else {}
        environment = os.environ | {name: str(value) for name, value in place.items()} | path
        command = [sys.executable, "-m", "opd", "train", *words, "--out", str(out)]
        ranks.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))
    began = time.monotonic()
    try:
        said = [one.communicate(timeout=max(1.0, SECONDS - (time.monotonic() - began)))[1] for one in ranks]
    finally:
        for one in ranks:
            one.kill()
            one.communicate()
    first_ended, second_ended = ((one.returncode, text) for one, text in zip(ranks, said, strict=True))
    return first_ended, second_ended
