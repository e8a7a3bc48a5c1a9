"""The 1.5B recipe's shape with random weights: does a step fit and run, before anyone has the real models?

    python benchmarks/bench_real_size.py [--limit-tokens 128] [--steps 2] [--scale 1.0]

Makes a student and a teacher of the 1,777,088,000-parameter Qwen2 configuration with random weights and a
stand-in tokenizer of the real size, and runs `opd train recipes/opd_math_1p5b.toml` on them through the command
line. Random models seldom write an end-of-sequence token, so rollouts have the length of the limit. Prints the
seconds of each phase, peak memory and the gap between sampler and trainer, as a table and a JSON line. On a
machine without a GPU, `--scale 0.05` checks the program itself.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

REAL_TOKENS = 151_665
ROWS = 151_936
TEMPLATE = "<bos>{% for m in messages %}<User>{{ m['content'] }}{% endfor %}<Assistant><think>\n"


def main() -> None:
    """Makes the pair, runs the recipe, prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit-tokens", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="of the hidden sizes; 1.0 is the real model")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for number, name in enumerate(("student", "teacher")):
            parameters = make_model(folder / name, seed=number, scale=asked.scale)
        rows = [{"problem": f"What is {n} + {n}?", "answer": str(2 * n), "projection": "train"} for n in range(64)]
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        start = time.perf_counter()
        train(folder, limit_tokens=asked.limit_tokens, steps=asked.steps, parameters=parameters)
        report(folder / "run", parameters=parameters, seconds=time.perf_counter() - start)


def make_model(folder: Path, *, seed: int, scale: float) -> int:
    """A complete model directory with random weights; how many parameters it has."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=ROWS,
        hidden_size=64 * round(1536 * scale / 64),
        intermediate_size=64 * round(8960 * scale / 64),
        num_hidden_layers=max(1, round(28 * scale)),
        num_attention_heads=12 if scale == 1 else 1,
        num_key_value_heads=2 if scale == 1 else 1,
        max_position_embeddings=131_072,
        rope_theta=10_000.0,
        tie_word_embeddings=False,
        bos_token_id=REAL_TOKENS - 2,
        eos_token_id=REAL_TOKENS - 1,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16)
        model = Qwen2ForCausalLM(config)
        torch.set_default_dtype(torch.float32)
    model.to(torch.bfloat16).save_pretrained(folder)
    stand_in_tokenizer().save_pretrained(folder)
    return int(model.num_parameters())


def stand_in_tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, and as many tokens that no text ever gives as make up the real tokenizer's number."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<User>", "<Assistant>", "<think>", "<bos>", "<eos>"]
    filler = [f"<filler {n}>" for n in range(REAL_TOKENS - len(alphabet) - len(specials))]
    core = Tokenizer(models.BPE(vocab={piece: n for n, piece in enumerate(alphabet + filler)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True) for token in specials])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<bos>", eos_token="<eos>", pad_token="<eos>", chat_template=TEMPLATE
    )


def train(folder: Path, *, limit_tokens: int, steps: int, parameters: int) -> None:
    """Runs the recipe; what it prints goes to the terminal."""
    recipe = Path(__file__).parents[1] / "recipes" / "opd_math_1p5b.toml"
    sets = {
        "student.model": folder / "student",
        "teacher.model": folder / "teacher",
        "student.parameters": parameters,
        "teacher.parameters": parameters,
        "data.path": folder / "rows.jsonl",
        "data.sha256": '"' + sha256(folder / "rows.jsonl") + '"',
        "rollouts.limit_tokens": limit_tokens,
        "budget.steps": steps,
        "machine.device": "auto",
        "optimizer.lr": 1e-6,
    }
    flags = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "opd", "train", str(recipe), "--out", str(folder / "run"), *flags]
    subprocess.run(command, check=True)


def sha256(path: Path) -> str:
    """Of the file's bytes."""
    from opd.records.files import sha256 as digest

    return digest(path)


def report(run: Path, *, parameters: int, seconds: float) -> None:
    """A table of the steps, and all of it as one JSON line."""
    summary = json.loads((run / "run.json").read_text())
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    machine = summary["machine"]
    print(f"\n{machine['name']}, torch {machine['torch']}, transformers {machine['transformers']}")
    print(f"{parameters:,} parameters each; {seconds:.0f} s with loading and saving")
    print("step  sample s  score s  update s  save s  tokens  ms a token  peak GiB  gap mean  gap max")
    for line in lines:
        took, gap = line["seconds"], line["gap"]
        longest = line["trained_tokens"] / line["rollouts"]
        print(
            f"{line['step']:4}  {took['sample']:8.2f}  {took['score']:7.2f}  {took['update']:8.2f}  "
            f"{took['save']:6.2f}  {line['trained_tokens']:6}  {1000 * took['sample'] / longest:10.1f}  "
            f"{line['peak_bytes'] / 2**30:8.1f}  {gap['mean']:8.4f}  {gap['largest']:7.3f}"
        )
    print(json.dumps({"machine": machine, "parameters": parameters, "steps": lines}))


if __name__ == "__main__":
    main()
