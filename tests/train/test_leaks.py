"""A thousand steps: memory and tensors after the thousandth are what they were after the two hundredth."""

import gc
from collections import Counter
from pathlib import Path

import pytest
import torch

from opd.records.metrics import StepMetrics
from opd.train.run import prepare, run

STEPS, WARM, EVERY = 1_000, 200, 100
PAGE_BYTES = 4_096
STEP_BYTES = 8_192  # a step's line stays, 3.5 kB: warnings and the best checkpoints are worked out from them


def resident_bytes() -> int:
    """Of this process, now; `ru_maxrss` is the most that it ever was."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def tensors() -> Counter[tuple[int, ...]]:
    """Tensors that Python knows of, by shape; not the stand-ins that a compiler has left, which have no memory."""
    gc.collect()
    found: Counter[tuple[int, ...]] = Counter()
    for one in gc.get_objects():
        if type(one) in {torch.Tensor, torch.nn.Parameter}:
            found[tuple(one.shape)] += 1
    return found


@pytest.mark.patient
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_thousand_steps_leak_nothing(make_recipe, tmp_path: Path, device: str) -> None:
    """Through the whole loop: rollouts, scores, updates, metrics, checkpoints and states."""
    recipe = make_recipe(
        f"machine.device={device}",
        f"budget.steps={STEPS}",
        "rollouts.limit_tokens=3",
        "save.every=100",
        "save.rollouts=false",
        "optimizer.lr=1e-5",
    )
    seen: list[tuple[int, int, int, Counter[tuple[int, ...]]]] = []

    def look(metrics: StepMetrics) -> None:
        if metrics.step >= WARM and metrics.step % EVERY == 0:
            counted = tensors()
            on_device = torch.cuda.memory_allocated() if device == "cuda" else 0
            seen.append((metrics.step, resident_bytes(), on_device, counted))

    parts = prepare(recipe, tmp_path / "run")
    run(recipe, parts, tmp_path / "run", report=look)
    assert [step for step, *_ in seen] == list(range(WARM, STEPS + 1, EVERY))
    counts = [counted for *_, counted in seen]
    assert all(counted == counts[0] for counted in counts), counts[-1] - counts[0]
    resident = [size for _, size, _, _ in seen]
    assert resident[-1] - resident[0] < (STEPS - WARM) * STEP_BYTES, resident
    on_device = [size for _, _, size, _ in seen]
    assert max(on_device) == min(on_device), on_device
