"""How fast the contamination scanner reads a trajectory, beside plain reading and hashing of the same bytes.

    python benchmarks/bench_contamination.py [MB, 50] [folder of the public data, ../shared/data]

The trajectory is clean: commands, logs of training, code, and tool results that quote other contest problems, of DAPO
and MATH, stock phrases and all, in JSON inside JSON. Looked for are the 60 problems of AIME 2024 and 2025, in both
wordings; what half of DAPO shares with them is a phrase, and the other half is quoted. One process, one thread; each
way takes its turn three times, in seconds of its processor. The literal forms are those of the text as it stands:
exact, escaped, with other blanks, folded; beside them, all that is decoded and put together again. Fails where the
literal forms are below 50 MB/s, and for any hit.
"""

import hashlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opd.protocol.contamination.carriers import Limits
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Scan, Source, scan
from opd.records.files import read_lines

TURNS = 3
WANTED = 50.0  # MB/s
QUOTED = 0.2  # of the tool results hold problems
DATA = Path(__file__).parents[2] / "shared" / "data"


def problems(folder: Path, name: str) -> list[str]:
    """The problems of a file, in order."""
    return [row["problem"] for row in read_lines(folder / name)]


def questions(folder: Path) -> list[Question]:
    """AIME 2024 and 2025."""
    rows = [row for name in ("aime24.jsonl", "aime25.jsonl") for row in read_lines(folder / name)]
    wordings = [tuple(row[key] for key in ("problem", "problem_alt") if row.get(key)) for row in rows]
    return [Question(wordings=texts, answer=row["answer"]) for texts, row in zip(wordings, rows, strict=True)]


def trajectory(quoted: list[str], *, size: int, seed: int = 0) -> bytes:
    """Lines of a coding agent's record, so many bytes of them."""
    rng = random.Random(seed)
    source = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py"))]
    lines: list[bytes] = []
    while size > 0:
        said = "".join(tool_result(rng, quoted, source))
        inner = {"stdout": said, "stderr": "", "interrupted": False}
        content = [
            {"type": "tool_result", "tool_use_id": f"toolu_{rng.getrandbits(96):024x}", "content": json.dumps(inner)}
        ]
        lines.append(json.dumps({"type": "user", "message": {"role": "user", "content": content}}).encode() + b"\n")
        size -= len(lines[-1])
    return b"".join(lines)


def tool_result(rng: random.Random, quoted: list[str], source: list[str]) -> Iterator[str]:
    """What one command printed: problems, a log of training, or a file with numbered lines."""
    kind = rng.random()
    if kind < QUOTED:
        for problem in rng.sample(quoted, 8):
            yield f"{problem}\nLet me think: the answer is \\boxed{{{rng.randrange(1000)}}}.\n"
    elif kind < 0.6:
        for step in range(rng.randrange(20, 60)):
            yield f"step {step:5d}  loss {rng.random():.6f}  grad {rng.random():.4f}  {rng.random() * 30:.2f} s\n"
    else:
        lines = rng.choice(source).split("\n")
        first = rng.randrange(len(lines))
        for number, line in enumerate(lines[first : first + 60], start=first + 1):
            yield f"{number:6d}\t{line}\n"


def plain(path: Path) -> None:
    """Every byte read and hashed."""
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256").hexdigest()


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, once."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Prints both speeds and their ratio; exit 1 below what is wanted, or for a hit."""
    size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 50_000_000
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else DATA
    dapo = problems(folder, "dapo_math_unique.jsonl")
    needles = Needles(questions(folder), dapo[::2])
    quoted = dapo[1::2] + problems(folder, "math_train.jsonl")
    scans: list[Scan] = []
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "native.jsonl"
        path.write_bytes(trajectory(quoted, size=size))
        source = Source(name=path.name, path=path)
        ways = {
            "reading and hashing": lambda: plain(path),
            "literal forms": lambda: scans.append(scan([source], needles, Limits(wrappings=0))),
            "all that is opened": lambda: scans.append(scan([source], needles)),
        }
        turns = [{name: seconds(work) for name, work in ways.items()} for _ in range(TURNS)]
    least = {name: min(turn[name] for turn in turns) for name in ways}
    for name, taken in least.items():
        ratio = least["reading and hashing"] / taken
        print(f"{name:22s} {size / taken / 1e6:8,.0f} MB/s   {taken:6.2f} s   {ratio:.3f} of reading and hashing")
    hits = sum(len(one.hits) for one in scans)
    print(f"{len(needles.all)} texts, {hits} hits")
    raise SystemExit(size / least["literal forms"] / 1e6 < WANTED or hits > 0)


if __name__ == "__main__":
    main()
