"""Settings from a file and from `--set`: what is taken, what is refused, and in which words."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PositiveFloat, PositiveInt, ValidationError, model_validator

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings, read, read_sets, validated


class Optimizer(Settings):
    learning_rate: PositiveFloat = 1e-6
    warmup_steps: PositiveInt = 10


class Judge(Settings):
    model: str
    retries: int = 0


class Run(Settings):
    steps: PositiveInt
    seeds: tuple[int, ...] = (1, 2)
    shuffle: bool = True
    name: str | None = None
    optimizer: Optimizer = Optimizer()
    judge: Judge | None = None
    panel: tuple[Judge, ...] = ()

    @model_validator(mode="after")
    def _short(self):
        if self.steps > 1000:
            raise AskedWrongly(f"steps = {self.steps}: at most 1000; train in two runs")
        return self


@pytest.fixture
def file(tmp_path):
    """`file(text)` or `file(text, "run.json")`: a settings file."""

    def write(text, name="run.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path, *sets):
    with pytest.raises(AskedWrongly) as caught:
        read(Run, path, sets=sets)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- files ----------------------------------------------------------------------------------------------


def test_what_a_file_leaves_out_has_its_default(file):
    run = read(Run, file("steps = 7\n[optimizer]\nlearning_rate = 2e-6\n"))
    assert run == Run(steps=7, optimizer=Optimizer(learning_rate=2e-6, warmup_steps=10))


def test_settings_can_consist_of_sets_alone():
    assert read_sets(Run, ["steps=7", "judge.model=x"]) == Run(steps=7, judge=Judge(model="x"))
    with pytest.raises(AskedWrongly, match="--set: 'steps' is required"):
        read_sets(Run, [])
    with pytest.raises(AskedWrongly, match="did you mean 'model'"):
        read_sets(Run, ["steps=7", "judge.modle=x"])


def test_toml_and_json_say_the_same(file):
    toml = file("steps = 7\nseeds = [3, 4]\n[judge]\nmodel = 'x'\n")
    assert read(Run, toml) == read(Run, file('{"steps": 7, "seeds": [3, 4], "judge": {"model": "x"}}', "run.json"))


def test_what_was_resolved_reads_back_as_itself(file):
    run = Run(steps=3, seeds=(5,), name="né", judge=Judge(model="m"), panel=(Judge(model="a"), Judge(model="b")))
    assert read(Run, file(json.dumps(run.resolved()), "run.json")) == run


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("steps = ", "run.toml", "is not TOML"),
        ("steps = 1\nsteps = 2\n", "run.toml", "is not TOML"),
        ('{"steps": 1', "run.json", "is not JSON"),
        ("[1, 2]", "run.json", "holds a list, not a table of settings"),
        ("null", "run.json", "holds a NoneType, not a table of settings"),
    ],
)
def test_a_damaged_file_is_named_with_its_form(file, text, name, found):
    message = refusal(file(text, name))
    assert name in message
    assert found in message


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path):
    assert refusal(tmp_path / "none.toml") == f"{tmp_path / 'none.toml'} does not exist"
    (tmp_path / "picture.toml").write_bytes(b"\x89PNG\xff")
    assert f"{tmp_path / 'picture.toml'} can't be read" in refusal(tmp_path / "picture.toml")
    assert f"{tmp_path} can't be read" in refusal(tmp_path)


# --- keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = 1\nshufle = false\n", "unknown key 'shufle'; did you mean 'shuffle'?"),
        ("steps = 1\n[optimizer]\nlearningrate = 1.0\n", "unknown key 'optimizer.learningrate'; did you mean "),
        ("steps = 1\n[optimizer]\nzzz = 1\n", "'optimizer.zzz'; known here: learning_rate, warmup_steps"),
        ("steps = 1\n[judge]\nmodle = 'x'\nmodel = 'x'\n", "unknown key 'judge.modle'; did you mean 'model'?"),
        ("steps = 1\n[[panel]]\nmodel = 'x'\nretry = 1\n", "unknown key 'panel.0.retry'; did you mean 'retries'?"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(file, text, message):
    assert message in refusal(file(text))


def test_a_key_that_is_required_is_asked_for(file):
    assert "'steps' is required" in refusal(file(""))
    assert "'judge.model' is required" in refusal(file("steps = 1\n[judge]\nretries = 1\n"))


def test_every_fault_of_a_file_is_said_at_once(file):
    message = refusal(file("steps = 0\nshufle = true\n"))
    assert "steps = 0" in message
    assert "shufle" in message


# --- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("steps = '3'", "steps = '3'"),
        ("steps = 3.0", "steps = 3.0"),
        ("steps = true", "steps = True"),
        ("steps = 3\nshuffle = 1", "shuffle = 1"),
        ("steps = 3\nshuffle = 'yes'", "shuffle = 'yes'"),
        ("steps = 3\nname = 4", "name = 4"),
        ("steps = 3\nseeds = '12'", "seeds = '12'"),
        ("steps = 3\nseeds = [1, '2']", "seeds.1 = '2'"),
        ("steps = 3\n[optimizer]\nlearning_rate = '1e-6'", "optimizer.learning_rate = '1e-6'"),
        ("steps = 3\noptimizer = 4", "optimizer = 4"),
    ],
)
def test_a_value_of_another_type_is_refused_not_converted(file, text, shown):
    assert shown in refusal(file(text))


@pytest.mark.parametrize("undefined", ["nan", "inf", "-inf"])
def test_an_undefined_number_is_refused_in_a_file_and_in_a_set(file, undefined):
    assert "learning_rate" in refusal(file(f"steps = 3\n[optimizer]\nlearning_rate = {undefined}"))
    assert "learning_rate" in refusal(file("steps = 3"), f"optimizer.learning_rate={undefined}")


def test_a_broken_rule_is_said_in_the_words_of_the_rule(file):
    path = file("steps = 2000")
    assert refusal(path) == f"{path}: steps = 2000: at most 1000; train in two runs"


def test_settings_are_never_changed_in_place():
    with pytest.raises(ValidationError, match="frozen"):
        Run(steps=1).steps = 2


# --- --set ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "key", "value"),
    [
        ("steps=9", "steps", 9),
        (" steps = 9 ", "steps", 9),
        ("seeds=[7, 8]", "seeds", (7, 8)),
        ("shuffle=false", "shuffle", False),
        ("name=plain words", "name", "plain words"),
        ("name='quoted'", "name", "quoted"),
        ("name=a=b", "name", "a=b"),
        ("name=", "name", ""),
        ("optimizer.learning_rate=2e-6", "optimizer", Optimizer(learning_rate=2e-6)),
        ("optimizer={learning_rate = 0.5}", "optimizer", Optimizer(learning_rate=0.5)),
        ("judge.model=x", "judge", Judge(model="x")),
    ],
)
def test_a_set_is_read_as_toml_and_text_needs_no_quotes(file, assignment, key, value):
    path = file("steps = 7")
    assert read(Run, path, sets=[assignment]) == Run(**({"steps": 7} | {key: value}))
    assert Run(steps=7).changed([assignment]) == Run(**({"steps": 7} | {key: value}))


def test_the_last_set_wins_over_earlier_ones_and_over_the_file(file):
    assert read(Run, file("steps = 7"), sets=["steps=8", "steps=9"]).steps == 9


@pytest.mark.parametrize("assignment", ["steps", "=3", " = 3", ""])
def test_a_set_of_another_form_is_refused_with_the_form(file, assignment):
    assert refusal(file("steps = 7"), assignment) == f"--set {assignment!r}: write it as section.key=value"


def test_a_set_is_validated_like_a_file(file):
    path = file("steps = 7")
    assert "did you mean 'learning_rate'" in refusal(path, "optimizer.learning_rat=1.0")
    assert "steps = 0" in refusal(path, "steps=0")
    assert "steps is a value, not a section: it has no 'count'" in refusal(path, "steps.count=3")


def test_a_change_leaves_the_settings_that_it_started_from(file):
    before = Run(steps=7)
    assert before.changed(["optimizer.warmup_steps=3"]).optimizer.warmup_steps == 3
    assert before == Run(steps=7)
    with pytest.raises(AskedWrongly, match=r"^--set: unknown key 'stesp'; did you mean 'steps'\?$"):
        before.changed(["stesp=1"])


# --- digests --------------------------------------------------------------------------------------------


def test_the_digest_is_the_sha256_of_every_key_in_canonical_form():
    written = '{"learning_rate":1e-06,"warmup_steps":10}'
    assert Optimizer().digest == hashlib.sha256(written.encode()).hexdigest()


def test_what_was_left_to_a_default_does_not_change_the_digest(file):
    short = read(Run, file("steps = 7"))
    full = read(Run, file("shuffle = true\nseeds = [1, 2]\nsteps = 7\n[optimizer]\nlearning_rate = 0.000001"))
    assert short.digest == full.digest


def test_a_whole_number_for_a_real_one_does_not_change_the_digest(file):
    whole, real = "optimizer.learning_rate=1", "optimizer.learning_rate=1.0"
    path = file("steps = 7")
    assert read(Run, path, sets=[whole]).digest == read(Run, path, sets=[real]).digest


@given(
    st.tuples(st.integers(1, 3), st.booleans(), st.sampled_from([None, "", "a"])),
    st.tuples(st.integers(1, 3), st.booleans(), st.sampled_from([None, "", "a"])),
)
def test_settings_are_equal_exactly_when_their_digests_are(a, b):
    one, other = (Run(steps=steps, shuffle=shuffle, name=name) for steps, shuffle, name in (a, b))
    assert (one.digest == other.digest) == (a == b)


def test_the_source_of_the_values_is_named():
    with pytest.raises(AskedWrongly, match=r"^objective k2: unknown key 'clip'"):
        validated(Optimizer, {"clip": 1}, source="objective k2")
