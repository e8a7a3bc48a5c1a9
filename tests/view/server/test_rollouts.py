"""Rollouts are listed, filtered and taken apart as the plain definitions say; damage is said and shown as such."""

import json
import math
import sys
from array import array
from dataclasses import replace
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, decoders, models

from opd.records.repetition import repetition_onset
from opd.records.rollout_table import read_table, table_path
from opd.records.rollouts import Alternatives, StopReason
from opd.view.server.answers import Gone, Unreadable
from opd.view.server.grades import Grades
from opd.view.server.places import Place
from opd.view.server.programs import Programs
from opd.view.server.rollouts import Rollouts
from opd.view.server.texts import Texts, _word

EXACT = """
import json, sys
for line in open(sys.argv[2]):
    row = json.loads(line)
    right = row["response"].endswith("{" + row["gold"] + "}")
    print(json.dumps({"verdict": "correct" if right else "wrong", "correct": right, "extracted": None}))
"""
LOOP = "73-9=64\n" * 40


@pytest.fixture
def make(make_train, scored_of, tmp_path):
    def made(scored=None):
        usual = [
            scored_of(response="73-9=64\n\\boxed{64}<eos>", gaps={3: -4.0, 5: 1.5}),
            scored_of(response="\\boxed{71}<eos>", gaps={0: -0.5}),
            scored_of(response=LOOP, stop=StopReason.LENGTH),
            scored_of(response="é😀<script>\\boxed{71}<eos>", gaps={2: -9.0}),
            scored_of(response="73-9", stop=StopReason.LENGTH),
        ]
        folder = make_train(tmp_path / "run", steps=2, kept={2: usual if scored is None else scored})
        return Place(root=folder, inside=PurePosixPath())

    return made


@pytest.fixture
def rollouts():
    return Rollouts(Texts(), Grades(Programs([sys.executable, "-c", EXACT])))


def page(rollouts, run, step=2, **changes):
    asked = {"offset": 0, "limit": 50, "filters": [], "teachers": [], "sort": "order", "graded": False}
    return rollouts.page(run, step, **(asked | changes))


def test_a_row_says_of_a_rollout_what_its_tokens_say(make, rollouts):
    run = make()
    for row, one in zip(page(rollouts, run)["rows"], read_table(table_path(run.path, 2)), strict=True):
        gaps = [t - s for t, s in zip(one.teacher_logp, one.rollout.logp, strict=True)]
        widest = max(range(len(gaps)), key=lambda place: (abs(gaps[place]), -place))
        assert row["worst"] == {"place": widest + 1, "gap": pytest.approx(gaps[widest], abs=2e-6)}
        assert row["mean_gap"] == pytest.approx(math.fsum(gaps) / len(gaps), abs=2e-6)
        assert row["student_mean"] == pytest.approx(math.fsum(one.rollout.logp) / len(gaps), abs=2e-6)
        assert row["tokens"] == len(one.rollout.token_ids)
        assert (row["stop"], row["row"], row["sample"]) == (one.rollout.stop.value, 41, 2)
        onset = repetition_onset(one.rollout.token_ids)
        assert (row["repeated"], row["repeats_at"]) == (onset is not None, None if onset is None else onset + 1)


@pytest.mark.parametrize(
    ("filters", "indices"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["truncated"], [2, 4]),
        (["ended"], [0, 1, 3]),
        (["repeated"], [2]),
        (["truncated", "ended"], [0, 1, 2, 3, 4]),
        (["truncated", "repeated"], [2]),
        (["ended", "repeated"], []),
        (["right"], [1, 3]),
        (["wrong", "truncated"], [2, 4]),
    ],
)
def test_filters_of_one_kind_add_up_and_of_several_all_have_to_hold(make, rollouts, filters, indices):
    found = page(rollouts, make(), filters=filters)
    assert [row["index"] for row in found["rows"]] == indices
    assert (found["matching"], found["total"]) == (len(indices), 5)
    assert (found["counts"]["truncated"], found["counts"]["repeated"]) == (2, 1)


def test_right_and_wrong_are_unknown_until_they_are_asked_for(make, rollouts):
    run = make()
    plain = page(rollouts, run)
    assert (plain["graded"], plain["counts"]["right"], plain["rows"][1]["verdict"]) == (False, None, None)
    graded = page(rollouts, run, graded=True)
    assert (graded["graded"], graded["counts"]["right"], graded["counts"]["wrong"]) == (True, 2, 3)
    assert [row["verdict"] == "correct" for row in graded["rows"]] == [False, True, False, True, False]


@pytest.mark.patient
def test_the_install_s_own_grader_says_right_and_wrong(make):
    rollouts = Rollouts(Texts(), Grades(Programs()))
    graded = page(rollouts, make(), graded=True)
    assert graded["grades_missing"] is None
    assert [row["verdict"] for row in graded["rows"]] == ["wrong", "correct", "cut_short", "correct", "cut_short"]


def test_a_grader_that_fails_leaves_them_unknown_and_says_why(make):
    broken = Programs([sys.executable, "-c", "import sys; sys.exit('opd: no grader here')"])
    run = make()
    found = page(Rollouts(Texts(), Grades(broken)), run, graded=True)
    assert (found["graded"], found["grades_missing"], found["counts"]["right"]) == (False, "no grader here", None)
    too_few = Programs([sys.executable, "-c", "print('{}')"])
    assert (
        page(Rollouts(Texts(), Grades(too_few)), run, graded=True)["grades_missing"]
        == "1 verdicts came for 5 rollouts"
    )


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("order", lambda row: row["index"]),
        ("worst", lambda row: -abs(row["worst"]["gap"])),
        ("gap", lambda row: row["mean_gap"]),
        ("longest", lambda row: -row["tokens"]),
        ("shortest", lambda row: row["tokens"]),
    ],
)
def test_a_page_is_in_the_order_asked_for_and_pages_make_the_whole(make, rollouts, sort, key):
    run = make()
    rows = [row for offset in range(6) for row in page(rollouts, run, offset=offset, limit=1, sort=sort)["rows"]]
    assert [row["index"] for row in rows] == [row["index"] for row in sorted(page(rollouts, run)["rows"], key=key)]


def test_a_rollout_token_by_token_is_what_was_sampled(make, rollouts):
    run = make()
    for index, one in enumerate(read_table(table_path(run.path, 2))):
        found = rollouts.one(run, 2, index, begin=0, count=20_000)
        assert found["ids"] == list(one.rollout.token_ids)
        assert found["student"] == pytest.approx(one.rollout.logp, abs=1e-6)
        assert found["teacher"] == pytest.approx(one.teacher_logp, abs=1e-6)
        assert found["prompt"] == "<bos><User>Compute 73-9+7.<Assistant><think>\n"
        gaps = [abs(t - s) for t, s in zip(one.teacher_logp, one.rollout.logp, strict=True)]
        assert [abs(w["gap"]) for w in found["worst"]] == pytest.approx(sorted(gaps, reverse=True)[:50], abs=2e-6)
        pieces = [rollouts.one(run, 2, index, begin=begin, count=7) for begin in range(0, len(gaps), 7)]
        assert [text for piece in pieces for text in piece["texts"]] == found["texts"]
        assert all(piece["worst"] == found["worst"] for piece in pieces)
    assert "".join(rollouts.one(run, 2, 3, begin=0, count=99)["texts"]) == "é😀<script>\\boxed{71}<eos>"


def with_alternatives(one, tokenizer, count=3):
    """The sampled token, then one, two … ids further; the first of them a part of a character."""
    ids = [(id_ + 7 * rank) % tokenizer.get_vocab_size() for id_ in one.rollout.token_ids for rank in range(count)]
    nats = [-0.5 - rank - place / 1000 for place in range(len(one.rollout.token_ids)) for rank in range(count)]
    return replace(one, alternatives=Alternatives(count=count, ids=array("i", ids), logp=array("f", nats)))


def test_the_teachers_likeliest_tokens_are_those_of_the_places_that_are_shown(make, rollouts, scored_of, tokenizer):
    texts = ["73-9=64\n\\boxed{64}<eos>", "é😀<script>"]
    kept = [with_alternatives(scored_of(response=text), tokenizer) for text in texts]
    run = make(kept)
    for index, one in enumerate(kept):
        whole = rollouts.one(run, 2, index, begin=0, count=99)["alternatives"]
        assert whole["count"] == 3
        assert whole["ids"] == list(one.alternatives.ids)
        assert whole["logp"] == pytest.approx(list(one.alternatives.logp), abs=2e-6)
        assert whole["texts"].keys() == set(one.alternatives.ids)
        for id_, text in whole["texts"].items():
            assert text == tokenizer.decode([id_], skip_special_tokens=False)
        pieces = [rollouts.one(run, 2, index, begin=begin, count=4)["alternatives"] for begin in range(0, 40, 4)]
        assert [id_ for piece in pieces for id_ in piece["ids"]] == whole["ids"]
    (run.path / "rollouts" / "tokenizer.json").unlink()
    assert rollouts.one(run, 2, 0, begin=0, count=99)["alternatives"]["texts"] == {}


def test_a_run_that_kept_no_alternatives_has_none(make, rollouts):
    assert rollouts.one(make(), 2, 0, begin=0, count=99)["alternatives"] is None


def test_alternatives_that_do_not_fit_their_tokens_are_damage(make, rollouts, scored_of, tokenizer):
    run = make([with_alternatives(scored_of(response=text), tokenizer) for text in ("73-9", "73")])
    path = table_path(run.path, 2)
    whole = pq.read_table(path)

    def moved(lists):  # the next row has what is missing here
        first, second = lists
        return [first[:-1], [*first[-1:], *second]]

    for name in ("alternative_ids", "alternative_logp"):
        pq.write_table(with_column(whole, name, moved(whole[name].to_pylist())), path)
        with pytest.raises(Unreadable, match="not every token has the same number of alternatives"):
            page(rollouts, run)
    pq.write_table(whole.drop_columns(["alternative_logp"]), path)
    assert rollouts.one(run, 2, 0, begin=0, count=9)["alternatives"] is None


@pytest.mark.parametrize(("kind", "text"), [("ByteLevel", " the"), ("Metaspace", " the")])
def test_an_alternative_has_the_blank_that_it_would_have_within_a_text(kind, text):
    made = Tokenizer(models.WordLevel({"▁the" if kind == "Metaspace" else "Ġthe": 0}, unk_token="▁the"))
    made.decoder = decoders.Metaspace() if kind == "Metaspace" else decoders.ByteLevel()
    assert _word(0, made) == text
    assert _word(5, made) == _word(-1, made).replace("-1", "5") == "⟨id 5 has no text⟩"


def taught(one, tokenizer, *, by, sees=None):
    ids = None if sees is None else tuple(tokenizer.encode(sees, add_special_tokens=False).ids)
    return replace(one, rollout=replace(one.rollout, prompt=replace(one.rollout.prompt, teacher=by, teacher_ids=ids)))


def test_a_rollout_names_its_teacher_with_the_prompt_that_it_saw(make, rollouts, scored_of, tokenizer):
    one = scored_of(response="73-9=64<eos>")
    run = make(
        [
            taught(one, tokenizer, by="terse", sees="Compute 73-9+7.."),
            taught(one, tokenizer, by="plain"),
            taught(one, tokenizer, by="terse", sees="é"),
        ]
    )
    found = page(rollouts, run)
    assert [row["taught_by"] for row in found["rows"]] == ["terse", "plain", "terse"]
    assert found["teachers"] == {"plain": 1, "terse": 2}
    for names, indices in ((["terse"], [0, 2]), (["plain", "terse"], [0, 1, 2]), (["nobody"], [])):
        chosen = page(rollouts, run, teachers=names)
        assert ([row["index"] for row in chosen["rows"]], chosen["matching"]) == (indices, len(indices))
        assert chosen["teachers"] == found["teachers"]
    whole = [rollouts.one(run, 2, index, begin=0, count=9) for index in range(3)]
    assert [each["taught_by"] for each in whole] == ["terse", "plain", "terse"]
    assert [each["teacher_prompt"] for each in whole] == ["Compute 73-9+7..", None, "é"]


def test_rows_that_name_no_teacher_have_none(make, rollouts):
    run = make()
    found, one = page(rollouts, run), rollouts.one(run, 2, 0, begin=0, count=9)
    assert (found["teachers"], found["rows"][0]["taught_by"]) == ({}, None)
    assert (one["taught_by"], one["teacher_prompt"]) == (None, None)


def rewrite(run, change):
    path = table_path(run.path, 2)
    table = change(pq.read_table(path))
    pq.write_table(table, path)


def with_column(table, name, values):
    column = pa.array(values, table.schema.field(name).type)
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def test_what_is_no_number_is_null_and_no_gap_is_the_worst_for_it(make, rollouts):
    run = make()
    before = page(rollouts, run)["rows"][0]
    rewrite(
        run, lambda t: with_column(t, "teacher_logp", [[math.nan, *row[1:]] for row in t["teacher_logp"].to_pylist()])
    )
    row, one = page(rollouts, run)["rows"][0], rollouts.one(run, 2, 0, begin=0, count=99)
    assert (one["teacher"][0], row["mean_gap"], row["worst"]) == (None, None, before["worst"])
    rewrite(
        run,
        lambda t: with_column(t, "teacher_logp", [[-math.inf] * len(row) for row in t["teacher_logp"].to_pylist()]),
    )
    assert page(rollouts, run, sort="worst")["rows"][0]["worst"]["gap"] is None
    json.dumps([page(rollouts, run), rollouts.one(run, 2, 0, begin=0, count=99)], allow_nan=False)


def test_an_id_beyond_every_tokenizer_has_no_text_and_stops_nothing(make, rollouts):
    run = make()
    rewrite(
        run, lambda t: with_column(t, "token_ids", [[-1, 2**31 - 1, *row[2:]] for row in t["token_ids"].to_pylist()])
    )
    texts = rollouts.one(run, 2, 0, begin=0, count=99)["texts"]
    assert "has no text" in texts[0]
    assert "has no text" in texts[1]


DAMAGE = {
    "lists of unequal length": lambda t: with_column(
        t, "teacher_logp", [row[1:] for row in t["teacher_logp"].to_pylist()]
    ),
    "a log-probability that went to the next row": lambda t: with_column(
        t,
        "teacher_logp",
        [
            row[:-1] if n == 0 else [0.0, *row] if n == 1 else row
            for n, row in enumerate(t["teacher_logp"].to_pylist())
        ],
    ),
    "a missing list": lambda t: with_column(t, "token_ids", [None, *t["token_ids"].to_pylist()[1:]]),
    "a teacher that is no name": lambda t: t.append_column("teacher", pa.array([7] * len(t))),
    "a missing column": lambda t: t.drop_columns(["student_logp"]),
    "a column of another kind": lambda t: t.set_column(7, "token_ids", pa.array(["x"] * len(t))),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_table_is_named(make, rollouts, what):
    run = make()
    rewrite(run, DAMAGE[what])
    with pytest.raises(Unreadable, match="step-000002"):
        page(rollouts, run)


def test_a_file_that_is_no_table_is_named_at_every_length(make, rollouts):
    run = make()
    path = table_path(run.path, 2)
    whole = path.read_bytes()
    for length in (0, 3, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(Unreadable, match="step-000002"):
            page(rollouts, run)
    path.write_bytes(whole)
    assert page(rollouts, run)["total"] == 5


def test_a_table_without_a_rollout_is_an_empty_page(make, rollouts):
    run = make()
    rewrite(run, lambda t: t.slice(0, 0))
    assert page(rollouts, run)["rows"] == []
    with pytest.raises(Gone):
        rollouts.one(run, 2, 0, begin=0, count=1)


@pytest.mark.parametrize("damaged", [None, "", "{}", '{"model": {"type": "BPE"}}', "[" * 10_000])
def test_without_a_tokenizer_the_ids_are_shown_and_why(make, rollouts, damaged):
    run = make()
    path = run.path / "rollouts" / "tokenizer.json"
    path.unlink() if damaged is None else path.write_text(damaged)
    found = rollouts.one(run, 2, 1, begin=0, count=99)
    assert found["texts"] == [f"⟨{id_}⟩" for id_ in found["ids"]]
    assert "tokenizer.json" in found["text_missing"]
    assert rollouts.listing(run)["tokenizer"] is False
    assert page(rollouts, run, graded=True)["grades_missing"] == found["text_missing"]


def test_only_tables_of_steps_are_listed(make, rollouts):
    run = make()
    for name in ("step-000001.parquet.partial", "step-1.parquet", "x.parquet", "step-000009.parquet"):
        (run.path / "rollouts" / name).symlink_to("step-000002.parquet")
    assert [table["step"] for table in rollouts.listing(run)["tables"]] == [2]
    with pytest.raises(Gone, match="step 9"):
        page(rollouts, run, 9)
