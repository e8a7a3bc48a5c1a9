"""The program that made the models that ship: teacher, student, and the student of `arith_gap`.

    out/                      right answers at temperature 1    and when the likeliest token is taken
      arith_tiny/student/     .46                               .96: unsure of what it mostly knows
      arith_tiny/teacher/     .98                               1.00
      arith_gap/student/      .50                               .88: knows less
      provenance.json         settings, versions, digests, scores
      .complete

Each model is a complete Hugging Face directory with weights in bfloat16. The same seed gives the same bytes
on the same kind of processor with the same version of torch; on another, models with scores like these.

Seed, branching steps and share of slips were chosen by scores on the proxy set. Scores on the final
set were measured beside them and are recorded; no choice was made by them.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2ForCausalLM,
)

import opd
from opd.records.files import publish, sha256, write_json
from opd.tasks.arith_tiny.problems import sets
from opd.tasks.arith_tiny.sampling import pass_rate
from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.tasks.arith_tiny.training import Branch, Report, train_lineage

SEED = 1
TEACHER_STEPS = 700
BRANCHES = (
    Branch(name="arith_gap/student", leaves_at=220, steps=60, slip_share=0.0),
    Branch(name="arith_tiny/student", leaves_at=400, steps=60, slip_share=0.135),
)
TEACHER = "arith_tiny/teacher"
SAMPLES_PER_QUESTION = 4


def make_models(out: Path, *, seed: int = SEED, report: Report) -> None:
    """The folder `out` holds the three models and their provenance, whole or not at all; about 90 s.

    Raises `AskedWrongly` where `out` exists already.
    """
    with publish(out) as folder, _one_thread():
        tokenizer = make_tokenizer()
        lineage = train_lineage(tokenizer, teacher_steps=TEACHER_STEPS, branches=BRANCHES, seed=seed, report=report)
        models = {TEACHER: lineage["teacher"], **{branch.name: lineage[branch.name] for branch in BRANCHES}}
        for name, model in models.items():
            write_model(model, tokenizer, folder / name)
        scores = {name: _scores(folder, name, report) for name in models}
        write_json(folder / "provenance.json", _provenance(folder, seed=seed, scores=scores))


def write_model(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """A Hugging Face directory with this model in bfloat16, its tokenizer, and nothing that loading doesn't need.

    Tensors are rounded one by one: `model.to(bfloat16)` would round the frequencies of the positions as well,
    which are no weights, and leave another model in memory than the one that loads.
    """
    folder.mkdir(parents=True)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = torch.bfloat16
    model.config.save_pretrained(folder)
    ids = {name: getattr(model.config, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    GenerationConfig(**ids).save_pretrained(folder)
    weights = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
    del weights["lm_head.weight"]  # tied: it is the embedding
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # it is written for its owner alone
    tokenizer.save_pretrained(folder)


def _scores(folder: Path, name: str, report: Report) -> dict[str, Any]:
    """Pass rates of a written model, in float32, on both evaluation sets: 500 problems × 4 answers each."""
    model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder / name)
    problems = sets()
    scores = {}
    for set_name, chains in (("proxy", problems.proxy), ("final", problems.final)):
        score = pass_rate(model, tokenizer, chains, samples_per_question=SAMPLES_PER_QUESTION, seed=0)
        report(f"{name}: {score.mean:.3f} ± {score.stderr:.3f} on {set_name}")
        scores[set_name] = score.resolved()
    return scores


def _provenance(folder: Path, *, seed: int, scores: dict[str, Any]) -> dict[str, Any]:
    return {
        "program": "opd.tasks.arith_tiny.models",
        "opd": opd.__version__,
        "seed": seed,
        "teacher_steps": TEACHER_STEPS,
        "branches": {
            branch.name: {
                "leaves_at": branch.leaves_at,
                "steps": branch.steps,
                "slip_share": branch.slip_share,
            }
            for branch in BRANCHES
        },
        "machine": {
            "processor": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "weights_sha256": {name: sha256(folder / name / "model.safetensors") for name in scores},
        "scores": scores,
    }


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch computes on one thread inside, so that sums have one order; afterwards on as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
