"""A checkpoint that is one, and all that only look like one: each is named by the rule that it breaks."""

import errno
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.checkpoints import small_files, structure
from opd.protocol.checkpoints.structure import Input, check
from opd.records.checkpoints import Rule, Structure
from opd.records.errors import AskedWrongly
from opd.records.files import write_json
from opd.records.tasks import ArtifactRule

Checked = Callable[[Path], Structure]
EMBEDDING, HEAD, MATRIX = "model.embed_tokens.weight", "lm_head.weight", "model.layers.0.mlp.up_proj.weight"
PARAMETERS = 40 * 50 + 30 * 50 + 50


def rules(found: Structure) -> list[Rule]:
    return [fault.rule for fault in found.faults]


def edit(path: Path, **changes: object) -> None:
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if value != "gone"}))


def mark(folder: Path) -> None:
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    write_json(folder / ".complete", {"files": files})


def test_a_trained_checkpoint_is_valid_and_its_record_says_what_it_is(trained: Path, checked: Checked) -> None:
    mark(trained)
    found = checked(trained)
    assert found.faults == ()
    assert (found.valid, found.tensors, found.parameters) == (True, 3, PARAMETERS)
    assert found.dtypes == {"BF16": PARAMETERS}
    assert found.bytes == sum(path.stat().st_size for path in trained.iterdir())
    start, teacher = found.compared
    assert (start.input, start.input_sha256) == ("start", "of the start")
    assert (teacher.input, teacher.input_sha256) == ("teacher", "of the teacher")
    assert (start.tensors, start.equal_tensors, start.parameters) == (3, 0, PARAMETERS)
    assert start.equal_parameters == PARAMETERS // 5  # one in five was not moved
    assert teacher.distinct_parameters == PARAMETERS
    assert teacher.equal_parameters == teacher.taken_parameters == 0
    moved = sum(((i * 13) % 5 - 2) ** 2 for size in (2000, 1500, 50) for i in range(size)) ** 0.5 / 128
    assert start.distance == pytest.approx(moved, rel=1e-6)
    assert teacher.start_distance == pytest.approx(PARAMETERS**0.5 / 8, rel=1e-6)


def test_what_opd_exports_of_a_model_that_moved_is_valid(random_models: Path, tmp_path: Path) -> None:
    import torch

    from opd.models.export import export
    from opd.models.load import load_model
    from opd.records.files import publish

    model = load_model(random_models / "student", dtype="float32", device="cpu")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)), alpha=1e-3)
    with publish(tmp_path / "checkpoint-1") as partial:
        export(model, partial)
    start, teacher = (Input(role=role, folder=random_models / role) for role in ("student", "teacher"))
    rule = ArtifactRule(most=3, architectures=("Qwen2ForCausalLM",))
    found = check(tmp_path / "checkpoint-1", rule, start=start, others=[teacher])
    assert found.faults == ()
    assert found.parameters == model.parameters


# a file more, less or of another kind


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "vocab.json")


def a_socket(folder: Path) -> None:
    before = Path.cwd()
    os.chdir(folder)  # a socket's name is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("merges.txt")
    finally:
        os.chdir(before)


def replaced(name: str, target: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return spoil


def written(name: str, content: str = "{}") -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def hard_link(folder: Path) -> None:
    os.link(folder / "model.safetensors", folder.parent / "another name")


def subfolder(folder: Path) -> None:
    (folder / "vocab.json").mkdir()


def crowd(folder: Path) -> None:
    for number in range(small_files.MOST_ENTRIES):
        (folder / f"{number}.json").touch()


def enormous_tokenizer(folder: Path) -> None:
    os.truncate(folder / "tokenizer.json", 1 << 40)  # sparse


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        pytest.param(written("modeling_qwen2.py", "print()"), Rule.CODE, id="code"),
        pytest.param(written("kernel.so"), Rule.CODE, id="a library"),
        pytest.param(written("pytorch_model.bin"), Rule.PICKLE, id="a pickle"),
        pytest.param(written("optimizer.pt"), Rule.PICKLE, id="an optimizer's pickle"),
        pytest.param(written("training_args.bin"), Rule.PICKLE, id="arguments as a pickle"),
        pytest.param(written("adapter_config.json"), Rule.ENTRIES, id="an adapter"),
        pytest.param(written("notes.txt"), Rule.ENTRIES, id="notes"),
        pytest.param(replaced("config.json", "/etc/passwd"), Rule.LINK, id="a link out"),
        pytest.param(replaced("model.safetensors", "../start/model.safetensors"), Rule.LINK, id="a link to weights"),
        pytest.param(replaced("vocab.json", "nowhere"), Rule.LINK, id="a link to nothing"),
        pytest.param(hard_link, Rule.LINK, id="a second name"),
        pytest.param(subfolder, Rule.SPECIAL, id="a folder"),
        pytest.param(fifo, Rule.SPECIAL, id="a FIFO"),
        pytest.param(a_socket, Rule.SPECIAL, id="a socket"),
        pytest.param(enormous_tokenizer, Rule.SIZE, id="a file of a terabyte"),
        pytest.param(crowd, Rule.ENTRIES, id="a thousand files"),
        pytest.param(lambda folder: (folder / "config.json").unlink(), Rule.ENTRIES, id="no configuration"),
        pytest.param(shutil.rmtree, Rule.SPECIAL, id="nothing"),
    ],
)
def test_a_folder_holds_the_files_of_a_model_and_nothing_else(
    trained: Path, checked: Checked, spoil: Callable[[Path], object], rule: Rule
) -> None:
    assert checked(trained).valid, "what is spoilt is whole before"
    spoil(trained)
    began = time.monotonic()
    found = checked(trained)
    assert time.monotonic() - began < 5, "nothing holds it up"
    assert rules(found) == [rule]
    assert not found.valid


def test_a_link_to_a_checkpoint_is_none(trained: Path, checked: Checked, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(trained)
    assert rules(checked(tmp_path / "link")) == [Rule.SPECIAL]


# configuration and tokenizer


@pytest.mark.parametrize(
    ("changes", "rule", "says"),
    [
        ({"auto_map": {"AutoModel": "x.Y"}}, Rule.CODE, "auto_map asks for code"),
        ({"sub": [{"auto_map": {}}]}, Rule.CODE, "auto_map"),
        ({"trust_remote_code": True}, Rule.CODE, "trust_remote_code"),
        ({"quantization_config": {"bits": 4}}, Rule.CONFIGURATION, "plain"),
        ({"architectures": ["LlamaForCausalLM"]}, Rule.CONFIGURATION, "one of Qwen2ForCausalLM"),
        ({"architectures": ["Qwen2ForCausalLM", "Other"]}, Rule.CONFIGURATION, "architectures"),
        ({"architectures": "gone"}, Rule.CONFIGURATION, "architectures = None"),
        ({"hidden_size": 51}, Rule.CONFIGURATION, "hidden_size = 51, the start has 50"),
        ({"vocab_size": "gone"}, Rule.CONFIGURATION, "vocab_size = None"),
        ({"tie_word_embeddings": False}, Rule.CONFIGURATION, "tie_word_embeddings"),
        ({"model_type": "qwen3"}, Rule.CONFIGURATION, "model_type"),
    ],
)
def test_a_configuration_is_the_starts(
    trained: Path, checked: Checked, changes: dict[str, object], rule: Rule, says: str
) -> None:
    edit(trained / "config.json", **changes)
    found = checked(trained)
    assert rules(found) == [rule]
    assert says in found.faults[0].says
    assert found.faults[0].path == "config.json"


def test_what_a_library_writes_of_itself_into_a_configuration_is_no_fault(trained: Path, checked: Checked) -> None:
    edit(trained / "config.json", transformers_version="6.0", dtype="float32", layer_types=["full_attention"])
    assert checked(trained).valid


@pytest.mark.parametrize(
    "content",
    ["[1]", "{", '{"a": 1, "a": 2}', "[" * 100_000, "\0" * 2_000_000],
    ids=["list", "cut", "twice", "deep", "long"],
)
def test_a_configuration_that_is_no_object_is_said_to_be_none(trained: Path, checked: Checked, content: str) -> None:
    (trained / "config.json").write_text(content)
    (fault,) = checked(trained).faults
    assert fault.rule in {Rule.JSON, Rule.SIZE}
    assert fault.path == "config.json"


def test_an_answer_ends_by_the_starts_ids(trained: Path, checked: Checked) -> None:
    edit(trained / "generation_config.json", temperature=0.1)
    assert checked(trained).valid
    edit(trained / "generation_config.json", eos_token_id=[3, 7])
    (fault,) = checked(trained).faults
    assert (fault.rule, fault.says) == (Rule.CONFIGURATION, "eos_token_id = [3, 7], the start has 3")


def test_a_tokenizer_is_the_starts_byte_for_byte(trained: Path, checked: Checked) -> None:
    (trained / "tokenizer.json").write_text('{"words": "of nobody"}')  # of one length with the start's
    (trained / "tokenizer_config.json").unlink()
    (trained / "merges.txt").write_text("a b")
    found = checked(trained)
    assert rules(found) == [Rule.TOKENIZER] * 3
    assert [fault.path for fault in found.faults] == ["merges.txt", "tokenizer.json", "tokenizer_config.json"]


# the mark


def test_a_mark_names_every_file_as_it_is(trained: Path, checked: Checked) -> None:
    mark(trained)
    assert checked(trained).valid
    whole = json.loads((trained / ".complete").read_text())
    for spoilt, says in (
        ({"files": whole["files"] | {"vocab.json": "0"}}, "vocab.json is named and not there"),
        ({"files": {name: one for name, one in whole["files"].items() if name != "config.json"}}, "not named"),
        ({"files": whole["files"] | {"model.safetensors": "0" * 64}}, "model.safetensors: it is not what"),
        ({"files": []}, "names no files"),
        ({}, "names no files"),
    ):
        write_json(trained / ".complete", spoilt)
        (fault,) = checked(trained).faults
        assert fault.rule is Rule.MARK
        assert says in fault.says


def test_an_empty_mark_is_a_finding_and_no_mark(trained: Path, checked: Checked) -> None:
    (trained / ".complete").touch()
    assert rules(checked(trained)) == [Rule.JSON]


# tensors


def renamed(tensors: dict[str, Any]) -> None:
    tensors["model.norm.scale"] = tensors.pop("model.norm.weight")


def without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        del tensors[name]

    return change


def transposed(tensors: dict[str, Any]) -> None:
    dtype, (rows, columns), data = tensors[MATRIX]
    tensors[MATRIX] = (dtype, [columns, rows], data)


def of_dtype(dtype: str, item: int) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        _, shape, data = tensors["model.norm.weight"]
        tensors["model.norm.weight"] = (dtype, shape, bytes(50 * item))
        assert len(data) == 100

    return change


def poisoned(bits: bytes) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        dtype, shape, data = tensors[MATRIX]
        tensors[MATRIX] = (dtype, shape, data[:200] + bits + data[202:])

    return change


def with_head(same: bool) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        dtype, shape, data = tensors[EMBEDDING]
        tensors[HEAD] = (dtype, shape, data if same else data[::-1])

    return change


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (renamed, Rule.NAMES),
        (without(MATRIX), Rule.NAMES),
        (transposed, Rule.SHAPE),
        (of_dtype("F64", 8), Rule.DTYPE),
        (of_dtype("I16", 2), Rule.DTYPE),
        (of_dtype("F8_E4M3", 1), Rule.DTYPE),
        (poisoned(b"\x80\x7f"), Rule.FINITE),  # infinity
        (poisoned(b"\xc1\xff"), Rule.FINITE),  # no number
        (with_head(same=False), Rule.NAMES),
    ],
)
def test_tensors_are_the_starts_by_name_and_shape_and_are_finite(
    tmp_path: Path, models: Callable[..., Path], checked: Checked, change: Callable[..., None], rule: Rule
) -> None:
    assert rules(checked(models(tmp_path / "spoilt", "student", change=change))) == [rule]


def test_a_tied_head_may_be_stored_and_counts_once(
    tmp_path: Path, models: Callable[..., Path], checked: Checked
) -> None:
    found = checked(models(tmp_path / "both", "student", change=with_head(same=True)))
    assert found.faults == ()
    assert (found.tensors, found.parameters) == (4, PARAMETERS)


def test_a_head_that_is_not_tied_is_a_tensor_like_any(tmp_path: Path, models: Callable[..., Path]) -> None:
    start = models(tmp_path / "untied start", "start", tied=False, change=with_head(same=True))
    own = models(tmp_path / "untied", "student", tied=False, change=with_head(same=False))
    rule = ArtifactRule(most=3, architectures=("Qwen2ForCausalLM",))
    found = check(own, rule, start=Input(role="start", folder=start))
    assert (found.faults, found.parameters) == ((), PARAMETERS + 40 * 50)
    lacking = models(tmp_path / "lacking", "student", tied=False)
    assert rules(check(lacking, rule, start=Input(role="start", folder=start))) == [Rule.NAMES]


def test_a_cut_file_is_refused_by_its_header_alone(
    trained: Path, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H25; no value is looked at."""
    path = trained / "model.safetensors"
    os.truncate(path, path.stat().st_size - 10)
    monkeypatch.delattr(structure, "look")
    found = checked(trained)
    assert rules(found) == [Rule.COVERAGE]
    assert found.parameters is None


# copies


def shard(folder: Path, files: Callable[..., bytes]) -> None:
    """The same tensors, one to a file of another name."""
    content = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    (folder / "model.safetensors").unlink()
    shards = {}
    for number, (name, entry) in enumerate(header.items()):
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        shards[name] = f"part-{number}.safetensors"
        (folder / shards[name]).write_bytes(files({name: (entry["dtype"], entry["shape"], content[begin:end])}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize(("kind", "rule"), [("start", Rule.START), ("teacher", Rule.COPY)])
def test_the_start_and_the_teacher_are_known_in_any_dtype_and_any_files(
    tmp_path: Path,
    models: Callable[..., Path],
    files: Callable[..., bytes],
    checked: Checked,
    dtype: str,
    sharded: bool,
    kind: str,
    rule: Rule,
) -> None:
    """H27."""
    folder = models(tmp_path / "copy", kind, dtype=dtype)
    if sharded:
        shard(folder, files)
    assert rules(checked(folder)) == [rule]


@pytest.mark.parametrize("kind", ["start", "teacher"])
def test_one_moved_value_makes_another_model_of_the_start_and_none_of_the_teacher(
    tmp_path: Path, models: Callable[..., Path], checked: Checked, kind: str
) -> None:
    found = checked(models(tmp_path / "moved", kind, change=poisoned(b"\x00\x3f")))
    assert rules(found) == ([] if kind == "start" else [Rule.COPY])
    assert found.compared[kind == "teacher"].equal_tensors == 2


def test_the_teacher_with_noise_on_every_value_is_still_the_teacher(
    tmp_path: Path, models: Callable[..., Path], checked: Checked
) -> None:
    def noisy(tensors: dict[str, Any]) -> None:
        import numpy as np

        for name, (dtype, shape, data) in tensors.items():
            values = np.frombuffer(data, np.float32)
            noise = np.random.default_rng(1).uniform(-0.02, 0.02, len(values)).astype(np.float32)
            tensors[name] = (dtype, shape, (values + noise).tobytes())

    found = checked(models(tmp_path / "noisy", "teacher", dtype="F32", change=noisy))
    assert found.compared[1].equal_parameters < PARAMETERS / 20
    assert rules(found) == [Rule.COPY]
    assert f"{PARAMETERS:,} are the teacher's or next to it" in found.faults[0].says


def test_the_digest_of_tensors_is_of_no_files_and_of_every_bit(
    tmp_path: Path, models: Callable[..., Path], files: Callable[..., bytes], checked: Checked
) -> None:
    whole, parts, wide = (
        models(tmp_path / name, "student", dtype=dtype)
        for name, dtype in (("whole", "BF16"), ("parts", "BF16"), ("wide", "F32"))
    )
    shard(parts, files)
    one, other, third = (checked(folder).tensor_sha256 for folder in (whole, parts, wide))
    assert one == other != third
    content = bytearray((whole / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (whole / "model.safetensors").write_bytes(content)
    assert checked(whole).tensor_sha256 != one


# whose fault it is


def test_weights_that_are_written_to_while_they_are_read_are_refused(
    trained: Path, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = structure.look

    def look(*given: Any) -> Any:
        with (trained / "model.safetensors").open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\0")
        return real(*given)

    monkeypatch.setattr(structure, "look", look)
    assert rules(checked(trained)) == [Rule.CHANGED]


def test_weights_that_are_cut_while_they_are_read_are_refused(
    trained: Path, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = structure.look

    def look(*given: Any) -> Any:
        os.truncate(trained / "model.safetensors", 1000)
        return real(*given)

    monkeypatch.setattr(structure, "look", look)
    assert rules(checked(trained)) == [Rule.CHANGED]


def test_a_disk_that_cannot_be_read_is_not_the_checkpoints_fault(
    trained: Path, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(OSError, match="Input/output"):
        checked(trained)


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors"])
def test_an_input_that_is_not_whole_is_not_the_checkpoints_fault(
    trained: Path, teacher: Path, start: Path, lost: str
) -> None:
    rule = ArtifactRule(most=3, architectures=("Qwen2ForCausalLM",))
    (start / lost).unlink()
    with pytest.raises(AskedWrongly, match="the start"):
        check(trained, rule, start=Input(role="start", folder=start))
    with pytest.raises(AskedWrongly, match="the teacher"):
        check(
            trained,
            rule,
            start=Input(role="start", folder=teacher),
            others=[Input(role="teacher", folder=start.parent / "nowhere")],
        )


def test_an_input_may_consist_of_links_as_a_hubs_cache_does(trained: Path, start: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for path in start.iterdir():
        (cache / path.name).symlink_to(path)
    rule = ArtifactRule(most=3, architectures=("Qwen2ForCausalLM",))
    assert check(trained, rule, start=Input(role="start", folder=cache)).valid
