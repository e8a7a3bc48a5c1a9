"""What it takes to validate a checkpoint of the 1.5B recipe's shape: its files beside start and teacher, then a load.

    python benchmarks/bench_validate.py [--scale 1.0]

Makes a start and a teacher of 1,777,088,000 random bfloat16 parameters, and a checkpoint that is the start with each
value moved a little. Both parts run as programs of their own, as in `opd attempt validate`. Prints seconds, processor
seconds and peak memory of each, and of reading the same bytes once, as a table and a JSON line. `--scale 0.05` checks
the program itself.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("student", "teacher", "checkpoint-1")
STRUCTURE = """
import sys
from pathlib import Path
from opd.protocol.checkpoints.artifacts import sha256_of
from opd.protocol.checkpoints.structure import Input, check
from opd.records.tasks import ArtifactRule

mine, start, teacher = map(Path, sys.argv[1:])
inputs = [Input(role=path.name, folder=path, digest=sha256_of(path)) for path in (start, teacher)]
rule = ArtifactRule(most=3, architectures=("Qwen2ForCausalLM",))
found = check(mine, rule, start=inputs[0], others=inputs[1:])
assert found.valid, [fault.sentence for fault in found.faults]
"""
READ = "import hashlib, sys\nfor path in sys.argv[1:]: hashlib.file_digest(open(path, 'rb'), 'sha256')"


def main() -> None:
    """Makes the three, validates, prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the hidden sizes; 1.0 is the real model")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        make(asked.make, scale=asked.scale)
        return
    with tempfile.TemporaryDirectory() as scratch:
        # By another program: what this one held at its peak would count as its children's.
        subprocess.run([sys.executable, __file__, "--make", scratch, "--scale", str(asked.scale)], check=True)
        start, teacher, mine = (Path(scratch) / name for name in NAMES)
        weights = [str(path) for folder in (start, teacher, mine) for path in sorted(folder.glob("*.safetensors"))]
        loaded = Path(scratch, "loaded.json")
        took = {
            "read and hash": measured("-c", READ, *weights),
            "structure": measured("-c", STRUCTURE, str(mine), str(start), str(teacher)),
            "load": measured("-m", "opd", "load", str(mine), "--like", str(start), "--out", str(loaded)),
        }
        said = json.loads(loaded.read_text())
        assert said["faults"] == [], said["faults"]
    for part, figures in took.items():
        print(f"{part:<14} " + "  ".join(f"{value:>8.1f} {unit}" for unit, value in figures.items()))
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    print(json.dumps({"parameters": said["parameters"], "machine": machine, **took}))


def make(folder: Path, *, scale: float) -> None:
    """Start, teacher and checkpoint."""
    from bench_real_size import make_model

    start, teacher, mine = (folder / name for name in NAMES)
    make_model(start, seed=0, scale=scale)
    make_model(teacher, seed=1, scale=scale)
    moved(start, mine)


def moved(start: Path, folder: Path) -> None:
    """The start with each value a little changed, as a training leaves it."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            for part in parameter.view(-1).split(1 << 24):
                part.mul_(1 + 0.01 * torch.randn(part.shape, generator=generator, dtype=torch.float32).bfloat16())
    model.save_pretrained(folder)
    for path in (*start.glob("tokenizer*"), *start.glob("*.jinja")):
        shutil.copyfile(path, folder / path.name)


def measured(*arguments: str) -> dict[str, float]:
    """Seconds, processor seconds and peak memory of a program of this interpreter."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-I", *arguments]) as program:
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    assert program.returncode == 0, f"it ended with {program.returncode}"
    return {
        "s": round(time.perf_counter() - began, 1),
        "processor s": round(usage.ru_utime + usage.ru_stime, 1),
        "MB": round(usage.ru_maxrss / 1024, 1),
    }


if __name__ == "__main__":
    main()
