"""The process's own random numbers. Nothing here draws from them, but other libraries seed them and do."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Whatever is drawn or seeded inside, Python's, NumPy's and torch's generators go on after it as if nothing were.

    Torch's of the CPU and of every CUDA device.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the old one is what libraries seed
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
