"""What every test can count on: one thread, no network, steady hypothesis, and these fixtures and marks.

shared          the folder of data and cases beside the checkout, or a skip that says what was not checked
golden          `golden("name", value)` compares with tests/golden/name.json; `./dev golden` writes it anew
gpu             a mark: skipped, with the reason, where torch sees no CUDA device
journey         a mark that everything in tests/journeys/ carries: what a person does, by the real commands
full_disk       `with full_disk(100):` a file can't grow beyond 100 bytes
random_models   student/ and teacher/ with random weights, as complete Hugging Face directories
untied_model    the like of another architecture, with a head of its own
"""

import json
import math
import os
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

TESTS = Path(__file__).parent
SHARED = TESTS.parent.parent / "shared"
GOLDEN = TESTS / "golden"
NO_SHARED = "reads ../shared, and there is no such folder beside this checkout"

# Before anything imports torch, and for the programs that tests start too: tensors here are tiny, and two
# threads on two busy cores take many times as long as one.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"  # the tests need nothing from outside, and must not find it by chance
if not Path("/dev/nvidiactl").exists():  # without a GPU, kernels are tested in Triton's interpreter
    os.environ["TRITON_INTERPRET"] = "1"
if "torch" in sys.modules:  # a plugin was quicker
    sys.modules["torch"].set_num_threads(1)

# A deadline measures how busy the machine is. CI draws the same examples each time; people draw new ones.
hypothesis.settings.register_profile("house", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="run the golden tests alone and rewrite their files")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(TESTS / "journeys"):
            item.add_marker("journey")
    if config.getoption("--golden"):
        others = [item for item in items if "golden" not in _fixtures(item)]
        items[:] = [item for item in items if "golden" in _fixtures(item)]
        config.hook.pytest_deselected(items=others)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "shared" in _fixtures(item) and not SHARED.is_dir():
        pytest.skip(f"{item.name} {NO_SHARED}")
    if item.get_closest_marker("gpu") and not _sees_a_gpu():
        pytest.skip(f"{item.name} needs a CUDA device, and torch sees none")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the checkout; a test that asks for it is skipped where there is none."""
    if not SHARED.is_dir():  # asked for in the midst of a test, by `request.getfixturevalue("shared")`
        pytest.skip(f"this {NO_SHARED}")
    return SHARED


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(name, value, rel=1e-6)`: the value equals the recorded one; floats to a relative tolerance.

    With `--golden` the value is recorded instead. NaN and infinity are refused either way.
    """

    def compare(name: str, value: object, *, rel: float = 1e-6) -> None:
        path = GOLDEN / f"{name}.json"
        now = json.loads(json.dumps(value, allow_nan=False))
        if request.config.getoption("--golden"):
            record = {"made_by": f"./dev golden {request.node.nodeid}", "value": now}
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            return
        if not path.is_file():
            pytest.fail(f"{path.name} is not recorded yet: ./dev golden {request.node.nodeid}")
        recorded = json.loads(path.read_text(encoding="utf-8"))["value"]
        found = [f"{place}: recorded {old!r}, now {new!r}" for place, old, new in _differences(recorded, now, rel)]
        if found:
            more = f"\n… and {len(found) - 10} more" if len(found) > 10 else ""
            pytest.fail(f"{path.name} differs:\n" + "\n".join(found[:10]) + more, pytrace=False)

    return compare


def _differences(old: Any, new: Any, rel: float, place: str = "value") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            yield from _differences(old[key], new[key], rel, f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, rel, f"{place}[{index}]")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=rel):
            yield place, old, new
    elif old != new or type(old) is not type(new):  # 1 is neither True nor 1.0
        yield place, old, new


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def _sees_a_gpu() -> bool:
    import torch

    with warnings.catch_warnings(action="ignore"):  # a driver that is there and broken warns
        return torch.cuda.is_available()


@pytest.fixture(scope="session")
def random_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `student/` and `teacher/`: Qwen2, tied, random, with the tokenizer of the embedded task.

    320 rows for 312 token ids, so that 8 rows are padding; 512 positions; float32; distributions far from
    uniform. A test changes a copy, or what it loaded, never these files.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("random_models")
    for seed, name in enumerate(("student", "teacher"), start=1):
        _save_random(Qwen2ForCausalLM, Qwen2Config, folder / name, seed=seed, tie_word_embeddings=True)
    return folder


@pytest.fixture(scope="session")
def untied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The like of `random_models`, of another architecture (Qwen3) and with a head of its own."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("untied") / "model"
    _save_random(Qwen3ForCausalLM, Qwen3Config, folder, seed=3, tie_word_embeddings=False, head_dim=8)
    return folder


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """`with full_disk(100):` no file of this process grows beyond 100 bytes; a write past them is an `OSError`.

    The error is EFBIG rather than ENOSPC; both come out of the same calls.
    """

    @contextmanager
    def limit(size_bytes: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit


def _save_random(architecture: Any, configuration: Any, folder: Path, *, seed: int, **settings: Any) -> None:
    """A small model with random weights, as a complete Hugging Face directory."""
    import torch

    from opd.tasks.arith_tiny.tokenizer import make_tokenizer

    tokenizer = make_tokenizer()
    config = configuration(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = architecture(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
