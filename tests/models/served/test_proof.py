"""Whether a server is the teacher: told from its numbers, its limits and its names, at the start."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.models.served.conftest import SEQUENCE_TOKENS, rollouts_of

from opd.models.load import load_model
from opd.models.plain import PlainScorer
from opd.models.served.probe import Probe, computed, reference_for, rollout_of, token_ids
from opd.models.served.proof import compared, disagreement
from opd.models.served.reply import Scores
from opd.models.served.scorer import ServedScorer, served_scorer
from opd.models.served.settings import ServedSettings
from opd.records.errors import AskedWrongly
from opd.records.files import read_json, write_json


def test_the_teacher_is_taken_for_itself_and_recorded_with_its_numbers(serve, make_scorer, teacher) -> None:
    server = serve(teacher, name="mine")
    (record,) = make_scorer(server).records
    assert (record.url, record.model, record.limit_tokens) == (server.url, "mine", 512)
    assert record.version.startswith("opd ")
    assert record.agreement.tokens > 100
    assert record.agreement.mean < 1e-5
    assert record.agreement.largest < 1e-4
    assert record.agreement.mean_rounding == record.agreement.largest_rounding == 0
    assert record.agreement.other_text == 0


def test_the_longest_sequence_of_the_run_is_tried_at_the_start(serve, make_scorer, teacher) -> None:
    """E47."""
    server = serve(teacher)
    make_scorer(server)
    assert max(len(one["prompt"]) for one in server.door.requests) == SEQUENCE_TOKENS
    assert {len(one["prompt"]) for one in server.door.requests[-1:]} == {SEQUENCE_TOKENS}
    server.door.statuses = [0, 0, 0, 500]
    with pytest.raises(AskedWrongly, match="status 500"):
        make_scorer(server)
    assert not server.door.statuses


def test_another_model_is_refused_with_its_distance(serve, make_scorer, stranger) -> None:
    server = serve(stranger)
    with pytest.raises(AskedWrongly) as error:
        make_scorer(server)
    said = str(error.value)
    assert server.url in said
    assert "does not serve the teacher teacher" in said
    assert "nats off on average" in said
    assert "this looks like another model, another tokenizer" in said


def test_all_servers_that_are_at_fault_are_named_at_once(serve, make_scorer, teacher, stranger) -> None:
    good, other, gone = serve(teacher), serve(stranger), serve(teacher)
    gone.stop()
    with pytest.raises(AskedWrongly) as error:
        make_scorer(good, other, gone)
    assert [one.url in str(error.value) for one in (good, other, gone)] == [False, True, True]
    assert "ConnectError" in str(error.value)


@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_rounding_to_the_teachers_dtype_passes_and_to_another_is_refused(serve, random_models, dtype: str) -> None:
    narrow = load_model(random_models / "teacher", dtype=dtype, device="cpu")
    server = serve(narrow)
    settings = ServedSettings(urls=(server.url,))
    scorer = served_scorer(
        settings, random_models / "teacher", dtype=dtype, sequence_tokens=SEQUENCE_TOKENS, alternatives=0
    )
    agreement = scorer.records[0].agreement
    assert agreement.mean == pytest.approx(agreement.mean_rounding, rel=0.2)
    assert agreement.mean > 1e-3
    with pytest.raises(AskedWrongly, match="another dtype than float32"):
        served_scorer(
            settings, random_models / "teacher", dtype="float32", sequence_tokens=SEQUENCE_TOKENS, alternatives=0
        )


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_weights_are_refused_where_the_teacher_is_wider(serve, make_scorer, random_models, bits) -> None:
    quantised = load_model(random_models / "teacher", dtype="float32", device="cpu")
    with torch.no_grad():
        for parameter in quantised.module.parameters():
            if parameter.dim() == 2:
                scale = parameter.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / (2 ** (bits - 1) - 1)
                parameter.copy_((parameter / scale).round() * scale)
    with pytest.raises(AskedWrongly, match=r"nats off on average \(at most 0\.0010 is rounding\)"):
        make_scorer(serve(quantised))


def test_another_tokenizer_of_the_same_size_shows_as_text(serve, make_scorer, random_models, tmp_path: Path) -> None:
    """Two words have changed places: ids are scored as before, and mean something else."""
    shutil.copytree(random_models / "teacher", tmp_path / "teacher")
    path = tmp_path / "teacher" / "tokenizer.json"
    values = read_json(path)
    words = values["model"]["vocab"]
    words["x"], words["e"], words["1"], words["2"] = words["e"], words["x"], words["2"], words["1"]
    write_json(path, values)
    model = load_model(tmp_path / "teacher", dtype="float32", device="cpu")
    with torch.no_grad():  # so that it is refused at all
        model.module.get_output_embeddings().weight.mul_(1.01)
    with pytest.raises(AskedWrongly, match=r"and \d+ of the tokens are another text there"):
        make_scorer(serve(model))


def test_a_limit_that_is_too_short_is_said_with_the_one_that_suffices(serve, make_scorer, teacher) -> None:
    with pytest.raises(AskedWrongly, match=f"takes {SEQUENCE_TOKENS} tokens.*--max-model-len {SEQUENCE_TOKENS + 1}"):
        make_scorer(serve(teacher, limit_tokens=SEQUENCE_TOKENS))
    make_scorer(serve(teacher, limit_tokens=SEQUENCE_TOKENS + 1))


def test_a_name_that_is_not_served_is_said_with_those_that_are(serve, make_scorer, teacher) -> None:
    server = serve(teacher, name="mine")
    with pytest.raises(AskedWrongly, match=r"serves mine, and not machine\.served\.model = 'yours'"):
        make_scorer(server, model="yours")
    assert make_scorer(server, model="mine").records[0].model == "mine"


def test_something_else_at_the_address_is_no_server(serve, make_scorer, teacher) -> None:
    server = serve(teacher)
    with pytest.raises(AskedWrongly, match="status 404"):
        ServedScorer(
            ServedSettings(urls=(f"{server.url}/elsewhere",)),
            reference=computed(teacher.path, "float32"),
            sequence_tokens=SEQUENCE_TOKENS,
        ).start()


def test_a_probe_is_what_plain_scoring_gives_in_both_precisions(random_models) -> None:
    probe = computed(random_models / "teacher", "bfloat16")
    for dtype, name in (("float32", "exact"), ("bfloat16", "rounded")):
        model = load_model(random_models / "teacher", dtype=dtype, device="cpu")
        assert [one.token_ids for one in probe.sequences] == token_ids(model)
        scored = PlainScorer(model).score([rollout_of(one.token_ids) for one in probe.sequences])
        for one, expected in zip(probe.sequences, scored, strict=True):
            assert getattr(one, name) == pytest.approx(expected.teacher_logp, abs=1e-6)
    ends = {token for one in probe.sequences for token in one.token_ids[-2:]}
    assert ends == {min(model.stop_ids), model.vocabulary - 1}


def test_a_recorded_probe_stands_for_the_weights(serve, random_models, teacher, tmp_path: Path) -> None:
    weightless = tmp_path / "teacher"
    shutil.copytree(random_models / "teacher", weightless, ignore=shutil.ignore_patterns("*.safetensors"))
    file = tmp_path / "probe.json"
    write_json(file, computed(random_models / "teacher", "float32").resolved())
    server = serve(teacher)
    settings = ServedSettings(urls=(server.url,), probe=str(file))
    scorer = served_scorer(settings, weightless, dtype="float32", sequence_tokens=SEQUENCE_TOKENS, alternatives=0)
    rollouts = rollouts_of(5, 9)
    for found, expected in zip(scorer.score(rollouts), PlainScorer(teacher).score(rollouts), strict=True):
        assert found.teacher_logp == pytest.approx(expected.teacher_logp, abs=1e-5)


def test_a_probe_of_another_dtype_or_tokenizer_is_refused(reference: Probe, teacher, tmp_path: Path) -> None:
    file = tmp_path / "probe.json"
    settings = ServedSettings(urls=("http://127.0.0.1:1",), probe=str(file))
    write_json(file, reference.resolved())
    assert reference_for(settings, teacher.path, dtype="float32") == reference
    with pytest.raises(
        AskedWrongly, match=r"recorded in float32, and the teacher's dtype is bfloat16; record it again"
    ):
        reference_for(settings, teacher.path, dtype="bfloat16")
    write_json(file, reference.model_copy(update={"vocabulary": "0" * 64}).resolved())
    with pytest.raises(AskedWrongly, match="recorded with another tokenizer"):
        reference_for(settings, teacher.path, dtype="float32")


def test_the_bounds_are_a_multiple_of_what_rounding_does(reference: Probe) -> None:
    """0.01 nats of rounding allow 0.021 on average, and 0.1 + 0.04 at the most, by hand."""
    one = reference.sequences[0]
    places = len(one.exact)
    known = one.model_copy(update={"rounded": tuple(value - 0.01 for value in one.exact)})
    probe = reference.model_copy(update={"sequences": (known,), "dtype": "bfloat16"})

    def found(*off: float) -> Scores:
        shifts = [*off[1:], *[off[0]] * (places - len(off) + 1)]
        logp = tuple(value - shift for value, shift in zip(one.exact, shifts, strict=True))
        return Scores(logp=logp, texts=(None,) * places, alternatives=None)

    assert disagreement(compared(probe, [found(0.0205)]), probe) is None
    assert "0.0215 nats off on average (at most 0.0210" in str(disagreement(compared(probe, [found(0.0215)]), probe))
    assert disagreement(compared(probe, [found(0.01, 0.049)]), probe) is None
    assert "0.051 at the most (at most 0.050)" in str(disagreement(compared(probe, [found(0.01, 0.051)]), probe))


def test_padded_rows_that_have_a_share_of_the_softmax_show_as_distance(serve, make_scorer, teacher) -> None:
    """E33: eight rows beyond the tokenizer's, which a server that knows no tokenizer takes for tokens."""
    with pytest.raises(AskedWrongly, match="does not serve the teacher"):
        make_scorer(serve(replace(teacher, vocabulary=320)))
