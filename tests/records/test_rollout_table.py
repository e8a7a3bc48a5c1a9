"""A step's rollouts come back from their table as they were, but for float32."""

from array import array
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.records.rollout_table import encoded, read_table, table_path, write_encoded, write_table
from opd.records.rollouts import Alternatives, Prompt, Rollout, ScoredRollout, StopReason

IDS = st.integers(0, 2**31 - 1)
NATS = st.floats(-1e30, 0)


@st.composite
def scored_rollouts(draw) -> ScoredRollout:
    tokens = draw(st.integers(1, 5))
    logps = st.lists(NATS, min_size=tokens, max_size=tokens).map(tuple)
    prompt = Prompt(
        row=draw(IDS),
        problem=draw(st.text(max_size=8)),
        answer=draw(st.text(max_size=3)),
        token_ids=tuple(draw(st.lists(IDS, min_size=1, max_size=4))),
    )
    rollout = Rollout(
        prompt=prompt,
        sample=draw(IDS),
        token_ids=tuple(draw(st.lists(IDS, min_size=tokens, max_size=tokens))),
        logp=draw(logps),
        stop=draw(st.sampled_from(StopReason)),
    )
    return ScoredRollout(rollout=rollout, teacher_logp=draw(logps))


def in_float32(values):
    return tuple(float(np.float32(value)) for value in values)


def contents(one: ScoredRollout, logp, teacher_logp):
    rollout = one.rollout
    return rollout.prompt, rollout.sample, rollout.token_ids, rollout.stop, logp, teacher_logp


@settings(max_examples=40)
@given(st.lists(scored_rollouts(), max_size=4))
def test_a_table_gives_back_every_rollout_with_its_log_probabilities_in_float32(tmp_path_factory, scored):
    path = tmp_path_factory.mktemp("table") / "rollouts/step-000001.parquet"
    write_table(path, scored)
    expected = [contents(one, in_float32(one.rollout.logp), in_float32(one.teacher_logp)) for one in scored]
    assert [contents(one, one.rollout.logp, one.teacher_logp) for one in read_table(path)] == expected
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_columns_are_those_that_other_programs_are_told_of(tmp_path):
    prompt = Prompt(row=3, problem="1+1", answer="2", token_ids=(7, 8), epoch=2)
    rollout = Rollout(prompt=prompt, sample=1, token_ids=(9,), logp=(-0.5,), stop=StopReason.LENGTH)
    path = table_path(tmp_path, 12)
    write_table(path, [ScoredRollout(rollout=rollout, teacher_logp=(-0.25,))])
    assert path == tmp_path / "rollouts/step-000012.parquet"
    assert pq.read_table(path).to_pylist() == [
        {
            "row": 3,
            "epoch": 2,
            "sample": 1,
            "problem": "1+1",
            "answer": "2",
            "stop": "length",
            "prompt_ids": [7, 8],
            "token_ids": [9],
            "student_logp": [-0.5],
            "teacher_logp": [-0.25],
        }
    ]


def with_alternatives(ids: list[int], count: int) -> ScoredRollout:
    prompt = Prompt(row=3, problem="1+1", answer="2", token_ids=(7, 8))
    logp = (-0.5,) * len(ids)
    rollout = Rollout(prompt=prompt, sample=1, token_ids=tuple(ids), logp=logp, stop=StopReason.EOS)
    others = range(100, 100 + count * len(ids))
    return ScoredRollout(
        rollout=rollout,
        teacher_logp=logp,
        alternatives=Alternatives(count=count, ids=array("i", others), logp=array("f", [-one / 8 for one in others])),
    )


def test_alternatives_are_two_more_columns_and_come_back(tmp_path):
    scored = [with_alternatives([9], 3), with_alternatives([9, 10, 11], 3)]
    path = table_path(tmp_path, 1)
    write_table(path, scored)
    assert read_table(path) == scored
    assert pq.read_schema(path).names[-2:] == ["alternative_ids", "alternative_logp"]
    rows = pq.read_table(path).to_pylist()
    assert [row["alternative_ids"] for row in rows] == [[100, 101, 102], list(range(100, 109))]
    assert rows[0]["alternative_logp"] == [-100 / 8, -101 / 8, -102 / 8]
    plain = ScoredRollout(rollout=scored[0].rollout, teacher_logp=(-0.5,))
    with pytest.raises(ValueError, match="1 of the step's 2 rollouts have alternatives"):
        write_table(path, [scored[0], plain])
    assert read_table(path) == scored


@pytest.mark.parametrize("having_alternatives", [False, True])
def test_tables_of_several_processes_make_the_table_of_one(tmp_path, having_alternatives):
    scored = [with_alternatives(list(range(9, 9 + length)), 2) for length in (1, 4, 2, 3, 5)]
    if not having_alternatives:
        scored = [replace(one, alternatives=None) for one in scored]
    whole, parts = tmp_path / "whole.parquet", tmp_path / "parts.parquet"
    write_table(whole, scored)
    shares = ([4, 0], [3], [], [1, 2])
    tables = [encoded([scored[place] for place in share]) for share in shares if share]
    places = [place for share in shares for place in share]
    write_encoded(parts, tables, order=sorted(range(5), key=places.__getitem__))
    assert read_table(parts) == scored
    assert parts.read_bytes() == whole.read_bytes()


def test_the_teacher_of_each_row_and_the_prompt_as_it_sees_it_are_two_more_columns(tmp_path):
    plain = with_alternatives([9], 1)
    seen = {"teacher": "code", "teacher_ids": (1, 7, 8)}, {"teacher": "math", "teacher_ids": None}
    scored = [
        replace(plain, rollout=replace(plain.rollout, prompt=replace(plain.rollout.prompt, **one))) for one in seen
    ]
    whole, parts = table_path(tmp_path, 1), table_path(tmp_path, 2)
    write_table(whole, scored)
    assert read_table(whole) == scored
    rows = pq.read_table(whole, columns=["teacher", "teacher_prompt_ids"]).to_pylist()
    assert rows == [
        {"teacher": "code", "teacher_prompt_ids": [1, 7, 8]},
        {"teacher": "math", "teacher_prompt_ids": None},
    ]
    write_encoded(parts, [encoded(scored[1:]), encoded(scored[:1])], order=[1, 0])
    assert read_table(parts) == scored


def test_a_table_that_can_not_be_written_leaves_the_old_one(tmp_path, full_disk):
    prompt = Prompt(row=3, problem="1+1", answer="2", token_ids=(7, 8))
    rollout = Rollout(prompt=prompt, sample=1, token_ids=(9,), logp=(-0.5,), stop=StopReason.EOS)
    old = [ScoredRollout(rollout=rollout, teacher_logp=(-0.25,))]
    path = tmp_path / "step-000001.parquet"
    write_table(path, old)
    with full_disk(100), pytest.raises(OSError, match="too large"):
        write_table(path, old * 2)
    too_large = Prompt(row=2**31, problem="", answer="", token_ids=(1,))
    with pytest.raises(pa.ArrowInvalid):
        write_table(
            path,
            [
                ScoredRollout(
                    rollout=Rollout(prompt=too_large, sample=0, token_ids=(9,), logp=(0.0,), stop=StopReason.EOS),
                    teacher_logp=(0.0,),
                )
            ],
        )
    assert read_table(path) == old
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
