"""How fast `verify` reads an attempt, beside plain reading and hashing of the same bytes in the same run.

    python benchmarks/bench_verify.py [GB, 2] [folder, a temporary one]

An attempt on the embedded task with one formal try whose artifacts are as large as asked, in files as checkpoints
have them: a few large ones, and many small. Each way takes its turn three times; the best of each is compared.
"""

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.creating import Explorer, create
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.tries import a_try
from opd.protocol.attempts.verify import verify
from opd.records.attempts import Replayed, Stage

TURNS = 3
WANTED = 0.8  # of the speed of plain reading and hashing
_BLOCK_BYTES = 1 << 20


def make(folder: Path, size_bytes: int) -> Attempt:
    """An attempt with a formal try of this size; it ended as interrupted, so that nothing else is asked of it."""
    attempt = create("arith_tiny", folder, Explorer(harness="command", command=("true",)), given={})
    block = os.urandom(_BLOCK_BYTES)
    place = attempt.next(Stage.FORMAL)
    with held(attempt.folder) as holder, a_try(attempt, holder, place, made_from={}) as this:
        for number in range(3):
            artifact = this.folder / f"checkpoint-{number}"
            artifact.mkdir()
            with (artifact / "model.safetensors").open("wb") as file:
                for _ in range(size_bytes // 3 // _BLOCK_BYTES):
                    file.write(block)
            for small in range(100):
                (artifact / f"{small}.json").write_bytes(block[:1000])
        this.end(Replayed.INTERRUPTED)
    return attempt


def plain(attempt: Attempt) -> None:
    """Every byte read and hashed, a file after the other, and nothing compared."""
    for path in sorted(attempt.folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                hashlib.file_digest(file, "sha256").hexdigest()


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, once."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Prints both speeds and their ratio; exit 1 below what is wanted."""
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        attempt = make(Path(folder), int(gigabytes * 1e9))
        turns = [(seconds(lambda: plain(attempt)), seconds(lambda: verify(attempt))) for _ in range(TURNS)]
        size = sum(path.stat().st_size for path in attempt.folder.rglob("*") if path.is_file())
    hashing, verifying = (min(turn[way] for turn in turns) for way in range(2))
    for name, taken in (("reading and hashing", hashing), ("verify", verifying)):
        print(f"{name:22s} {size / taken / 1e6:8,.0f} MB/s   {taken:6.2f} s")
    print(f"{'ratio':22s} {hashing / verifying:8.2f}        {WANTED} is wanted; {os.cpu_count()} cores")
    raise SystemExit(hashing / verifying < WANTED)


if __name__ == "__main__":
    main()
