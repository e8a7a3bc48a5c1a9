"""Samples are found, filtered and shown as a reader of the whole file would, and only the lines shown are read."""

import json
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.scores import Sample, Verdict
from opd.view.server.answers import Gone, Unreadable
from opd.view.server.places import Place
from opd.view.server.samples import Samples

NASTY = [
    '", "tokens": 5, "x": "',
    '"response": "',
    "\\",
    '\\"',
    "\n",
    "\0\u202e<script>",
    "é😀",
    '"}',
    "\\u0022, \\u0022tokens\\u0022: ",
]
RESPONSES = st.lists(st.sampled_from(NASTY) | st.text(max_size=8), max_size=6).map("".join)


def place(folder):
    return Place(root=folder, inside=PurePosixPath())


def line(sample_of, question=0, index=0, **changes):
    return sample_of(question, index).resolved() | changes


def write(folder, lines, mode="w"):
    with (folder / "samples.jsonl").open(mode, encoding="utf-8", errors="surrogatepass") as file:
        file.writelines(
            (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)) + "\n" for one in lines
        )


def page(samples, folder, **changes):
    asked = {
        "offset": 0,
        "limit": 50,
        "verdicts": [],
        "question": None,
        "stop": None,
        "disputed": False,
        "sort": "order",
    }
    return samples.page(place(folder), **(asked | changes))


@given(responses=st.lists(RESPONSES, min_size=1, max_size=5), compact=st.booleans())
def test_the_index_says_what_parsing_every_line_says_whatever_a_model_wrote(tmp_path_factory, responses, compact):
    folder = tmp_path_factory.mktemp("score")
    lines = [
        {"question": f"q{n}", "sample": 0, "seed": 0, "response": text, "tokens": n, "stop": "eos", "gold": text[:5]}
        | {"judgement": {"verdict": "correct", "extracted": text, "stage": "x", "reason": text}, "opinions": []}
        for n, text in enumerate(responses)
    ]
    separators = (",", ":") if compact else None  # another writer's JSON is as good
    write(
        folder,
        [json.dumps(one, ensure_ascii=False, separators=separators).replace("\x85", "\\u0085") for one in lines],
    )
    samples = Samples()
    found = samples.index(place(folder))
    assert [(one.question, one.tokens, one.gold) for one in found.lines] == [
        (one["question"], one["tokens"], one["gold"]) for one in lines
    ]
    for number, one in enumerate(lines):
        shown = samples.one(place(folder), number, begin=0, count=10_000)
        assert (shown["response"], shown["characters"]) == (one["response"], len(one["response"]))
        assert shown["sample"] == {name: value for name, value in one.items() if name != "response"}


def test_what_the_install_writes_is_indexed_as_it_reads_it(tmp_path, sample_of):
    verdicts = list(Verdict)
    made = [sample_of(n, k, verdicts[(n + k) % len(verdicts)]) for n in range(7) for k in range(2)]
    write(tmp_path, [one.resolved() for one in made])
    samples = Samples()
    for number, one in enumerate(made):
        shown = samples.one(place(tmp_path), number, begin=0, count=200)
        assert Sample.model_validate_json(json.dumps(shown["sample"] | {"response": shown["response"]})) == one
    assert page(samples, tmp_path, limit=200)["matching"] == len(made)


@pytest.fixture
def many(tmp_path, sample_of):
    lines = []
    for n in range(60):
        one = sample_of(n // 4, n % 4, list(Verdict)[n % 4]).resolved() | {
            "tokens": (n * 37) % 50,
            "stop": ("eos", "length")[n % 3 == 0],
        }
        other = {
            "by": "reference",
            "verdict": ("correct", "wrong")[n % 2],
            "reason": "",
            "reply": None,
            "parsed": None,
        }
        lines.append(one | {"opinions": [other] if n % 5 == 0 else []})
    write(tmp_path, lines)
    return tmp_path, lines


FILTERS = [
    ({}, lambda _: True),
    ({"verdicts": ["wrong"]}, lambda one: one["judgement"]["verdict"] == "wrong"),
    ({"verdicts": ["wrong", "correct"]}, lambda one: one["judgement"]["verdict"] in {"wrong", "correct"}),
    ({"question": "arith-final-0003"}, lambda one: one["question"] == "arith-final-0003"),
    ({"stop": "length"}, lambda one: one["stop"] == "length"),
    (
        {"disputed": True},
        lambda one: any(
            (o["verdict"] == "correct") != (one["judgement"]["verdict"] == "correct") for o in one["opinions"]
        ),
    ),
    (
        {"stop": "eos", "verdicts": ["no_answer"]},
        lambda one: one["stop"] == "eos" and one["judgement"]["verdict"] == "no_answer",
    ),
]


@pytest.mark.parametrize(("asked", "passes"), FILTERS)
@pytest.mark.parametrize("sort", ["order", "longest", "shortest"])
def test_a_page_has_the_samples_that_pass_in_the_order_asked_for(many, asked, passes, sort):
    folder, lines = many
    sign = {"order": 0, "longest": -1, "shortest": 1}[sort]
    expected = sorted((n for n, one in enumerate(lines) if passes(one)), key=lambda n: (sign * lines[n]["tokens"], n))
    assert expected
    samples = Samples()
    found = [page(samples, folder, offset=offset, limit=7, sort=sort, **asked) for offset in range(0, 63, 7)]
    assert {one["matching"] for one in found} == {len(expected)}
    assert [row["line"] for one in found for row in one["rows"]] == expected


def test_a_response_comes_in_windows_of_characters(tmp_path, sample_of):
    text = "😀é\n\\" * 5_000
    write(tmp_path, [line(sample_of, response=text)])
    samples = Samples()
    parts = [samples.one(place(tmp_path), 0, begin=begin, count=999)["response"] for begin in range(0, 20_000, 999)]
    assert "".join(parts) == text
    assert samples.one(place(tmp_path), 0, begin=10**8, count=5)["response"] == ""
    row = page(samples, tmp_path)["rows"][0]
    assert (row["start"], row["end"]) == (text[:160], text[-240:])


def test_questions_are_counted_in_the_order_of_the_file(many):
    folder, lines = many
    found = Samples().questions(place(folder))
    for at, name in enumerate(found["questions"]):
        own = [one for one in lines if one["question"] == name]
        assert found["right"][at] == sum(one["judgement"]["verdict"] == "correct" for one in own)
        assert found["samples"][at] == len(own)
        assert found["cut_short"][at] == sum(one["stop"] == "length" for one in own)
        assert found["mean_tokens"][at] == pytest.approx(sum(one["tokens"] for one in own) / len(own))


BAD = [
    "nonsense",
    "[]",
    "{}",
    '{"question": 5}',
    '{"question": "q", "sample": 1e999}',
    "[" * 50_000,
    "null",
    '"response": "',
]


def test_lines_that_are_no_samples_are_counted_and_hide_no_others(tmp_path, sample_of):
    good = line(sample_of)
    bad = [
        *BAD,
        json.dumps(good | {"opinions": [{}]}),
        json.dumps(good | {"judgement": None}),
        json.dumps(good | {"stop": 1}),
    ]
    write(tmp_path, [good, *bad, line(sample_of, 1)])
    samples = Samples()
    assert samples.facts(place(tmp_path)) | {"stops": 0} == {"lines": 2, "verdicts": {"correct": 2}, "stops": 0} | {
        "damaged": f"{len(bad)} lines of samples.jsonl are no samples"
    }
    assert [row["question"] for row in page(samples, tmp_path)["rows"]] == ["arith-final-0000", "arith-final-0001"]


def test_a_file_that_grows_is_read_on_and_one_that_was_written_anew_is_read_anew(tmp_path, sample_of):
    samples = Samples()
    write(tmp_path, [line(sample_of, n) for n in range(3)])
    first = samples.index(place(tmp_path))
    write(tmp_path, [line(sample_of, 3)], mode="a")
    grown = samples.index(place(tmp_path))
    assert all(old is new for old, new in zip(first.lines, grown.lines[:3], strict=True))
    assert len(grown.lines) == 4
    write(tmp_path, [line(sample_of, n, tokens=99) for n in range(9, 4, -1)])
    assert samples.index(place(tmp_path)).lines[0].question == "arith-final-0009"


def test_a_file_that_is_replaced_between_index_and_look_is_not_shown_as_another_sample(tmp_path, sample_of):
    class Late(Samples):
        def index(self, score):
            found = super().index(score)
            write(tmp_path, [line(sample_of, n) for n in range(5, 9)])
            return found

    write(tmp_path, [line(sample_of, n) for n in range(3)])
    with pytest.raises(Unreadable, match="written anew"):
        Late().one(place(tmp_path), 1, begin=0, count=10)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xe6\x95", "\ufffd"),  # cut in the middle of a character
        (b"\xed\xa0\x80", "\ud800"),  # half a character, as a careless writer has it
        (b"\x00\x01", "\x00\x01"),
        (b"\\q", "\\q"),  # no escape that JSON knows
    ],
)
def test_a_response_that_is_no_text_hides_neither_itself_nor_its_neighbours(tmp_path, sample_of, written, shown):
    write(tmp_path, [line(sample_of, n, response=f"here ? there {n}") for n in range(3)])
    file = tmp_path / "samples.jsonl"
    file.write_bytes(file.read_bytes().replace(b"here ? there 1", b"here " + written + b" there 1"))
    samples = Samples()
    rows = page(samples, tmp_path)["rows"]
    assert [row["start"] for row in rows] == ["here ? there 0", f"here {shown} there 1", "here ? there 2"]
    assert samples.one(place(tmp_path), 1, begin=0, count=99)["response"] == f"here {shown} there 1"
    assert samples.facts(place(tmp_path))["damaged"] is None


def test_tokens_that_a_record_behind_the_response_counts_are_its_own(tmp_path, sample_of):
    value = line(sample_of, response="an answer", tokens=77)
    value["judgement"] |= {"reply": "well", "tokens": 5}
    value["opinions"] = [{"verdict": "wrong", "by": "another", "tokens": 6}]
    write(tmp_path, [value])
    samples = Samples()
    (found,) = samples.index(place(tmp_path)).lines
    assert (found.tokens, found.verdict, found.disputed) == (77, "correct", True)
    assert samples.one(place(tmp_path), 0, begin=0, count=99)["response"] == "an answer"


def test_a_score_without_a_sample_has_an_empty_page(tmp_path):
    assert page(Samples(), tmp_path)["rows"] == []


def test_there_is_no_sample_beyond_the_last(tmp_path, sample_of):
    with pytest.raises(Gone):
        Samples().one(place(tmp_path), 0, begin=0, count=1)
    write(tmp_path, [line(sample_of)])
    with pytest.raises(Gone, match="there is no sample 1"):
        Samples().one(place(tmp_path), 1, begin=0, count=1)
