"""The models that ship load with plain transformers, are as small as stated, and score as stated."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

import opd
from opd.records.errors import AskedWrongly
from opd.records.files import is_complete, sha256
from opd.tasks.arith_tiny.models import make_models, write_model
from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.tasks.arith_tiny.training import new_model

TASKS = Path(opd.__file__).parent / "tasks"
STUDENT, TEACHER, GAP = MODELS = ("arith_tiny/student", "arith_tiny/teacher", "arith_gap/student")
FILES = [
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]
# for 500 questions and 4 samples, whose standard error is .013 (.003 for the teacher)
RANGES = {STUDENT: (0.42, 0.52), TEACHER: (0.95, 1.0), GAP: (0.45, 0.58)}


def provenance() -> dict:
    return json.loads((TASKS / "arith_tiny" / "provenance.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_a_complete_directory_that_plain_transformers_loads(name):
    """Faults E69: the tied head, the special tokens and the template are all there."""
    model, loading = AutoModelForCausalLM.from_pretrained(TASKS / name, output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(TASKS / name)
    assert not any(loading.values())
    assert type(model).__name__ == "Qwen2ForCausalLM"
    assert model.dtype == torch.bfloat16
    assert model.num_parameters() == 335_328
    assert model.lm_head.weight is model.get_input_embeddings().weight
    assert model.config.vocab_size == len(tokenizer) == 312
    for holder in (model.config, model.generation_config):
        ids = (holder.bos_token_id, holder.eos_token_id, holder.pad_token_id)
        assert ids == (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_parameters_that_its_shape_says(name):
    hidden, inner, layers, rows, heads, kv_heads = 96, 256, 3, 312, 4, 2
    size = hidden // heads
    attention = 2 * hidden * hidden + 2 * hidden * kv_heads * size + hidden + 2 * kv_heads * size
    layer = attention + 3 * hidden * inner + 2 * hidden
    with safe_open(TASKS / name / "model.safetensors", "pt") as file:
        tensors = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118  not a mapping
        stored = sum(torch.Size(tensor.get_shape()).numel() for tensor in tensors.values())
        assert {tensor.get_dtype() for tensor in tensors.values()} == {"BF16"}
        assert "lm_head.weight" not in tensors
    assert stored == rows * hidden + layers * layer + hidden == 335_328


@pytest.mark.parametrize("name", MODELS)
def test_a_model_ships_what_loading_needs_and_nothing_else(name):
    assert sorted(path.name for path in (TASKS / name).iterdir()) == FILES
    config = json.loads((TASKS / name / "config.json").read_text(encoding="utf-8"))
    assert "auto_map" not in config
    settings = json.loads((TASKS / name / "generation_config.json").read_text(encoding="utf-8"))
    # faults E42: a temperature or a penalty here would be taken up by whoever samples with its defaults
    assert set(settings) == {"bos_token_id", "eos_token_id", "pad_token_id", "transformers_version"}


def test_student_and_teacher_take_at_most_a_megabyte_and_a_half():
    files = [path for name in (STUDENT, TEACHER) for path in (TASKS / name).iterdir()]
    assert sum(path.stat().st_size for path in files) <= 1_500_000


def test_the_three_models_are_three_and_the_record_names_them():
    digests = {name: sha256(TASKS / name / "model.safetensors") for name in MODELS}
    assert provenance()["weights_sha256"] == digests
    assert len(set(digests.values())) == 3


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("set_name", ["proxy", "final"])
def test_the_recorded_scores_are_in_the_stated_ranges(name, set_name):
    score = provenance()["scores"][name][set_name]
    assert (score["questions"], score["samples_per_question"]) == (500, 4)
    assert RANGES[name][0] <= score["mean"] <= RANGES[name][1]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_ships_scores_as_recorded(name):
    """100 questions x 2 by `generate`: within five standard errors of the score that is on record."""
    lines = (TASKS / "arith_tiny" / "proxy.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:100] for _ in range(2)]
    tokenizer = AutoTokenizer.from_pretrained(TASKS / name)
    model = AutoModelForCausalLM.from_pretrained(TASKS / name, dtype=torch.float32)
    prompts = [f"<bos><User>{row['problem']}<Assistant><think>\n" for row in rows]
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    torch.manual_seed(0)
    written = model.generate(**inputs, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=64)
    responses = tokenizer.batch_decode(written[:, inputs.input_ids.shape[1] :])
    right = [
        re.findall(r"\\boxed\{(\d+)\}<eos>", response) == [row["answer"]]
        for response, row in zip(responses, rows, strict=True)
    ]
    recorded = provenance()["scores"][name]["proxy"]
    error = recorded["stderr"] * (500 / 100 * 4 / 2) ** 0.5  # at most: what two samples share only shrinks it
    assert sum(right) / 200 == pytest.approx(recorded["mean"], abs=5 * error)


def test_a_written_model_computes_what_its_rounded_weights_say(tmp_path):
    tokenizer = make_tokenizer()
    model = new_model(tokenizer, seed=0)
    write_model(model, tokenizer, tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == FILES
    with safe_open(tmp_path / "model" / "model.safetensors", "pt") as file:
        assert set(file.keys()) == {name for name, _ in model.named_parameters()}  # the tied head but once
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
        ids = torch.arange(0, 312)[None]
        torch.testing.assert_close(loaded(ids).logits, model(ids).logits, rtol=0, atol=0)


def test_a_folder_that_exists_is_refused_before_anything_is_computed(tmp_path):
    said = []
    with pytest.raises(AskedWrongly, match="exists already"):
        make_models(tmp_path, report=said.append)
    assert not said


@pytest.mark.slow
def test_made_anew_the_models_score_in_the_stated_ranges(tmp_path):
    threads = torch.get_num_threads()
    out = tmp_path / "made"
    make_models(out, report=print)
    assert is_complete(out)
    assert torch.get_num_threads() == threads
    made = json.loads((out / "provenance.json").read_text(encoding="utf-8"))
    for name in MODELS:
        assert sorted(path.name for path in (out / name).iterdir()) == FILES
        assert sha256(out / name / "model.safetensors") == made["weights_sha256"][name]
        for score in made["scores"][name].values():
            assert RANGES[name][0] <= score["mean"] <= RANGES[name][1]
    if made["machine"] == provenance()["machine"]:  # elsewhere sums may round otherwise
        assert made["weights_sha256"] == provenance()["weights_sha256"]
