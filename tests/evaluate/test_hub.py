"""A benchmark's file from the hub: at one commit, and checked like any other."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import Benchmark, QuestionFile, find
from opd.evaluate.hub import HubFile, download
from opd.evaluate.questions import read_questions
from opd.records.errors import AskedWrongly

ROWS = b'{"id": "q1", "problem": "1+1?", "answer": "2"}\n{"id": "q2", "problem": "2+2?", "answer": "4"}\n'
PLACE = HubFile(repository="owner/sums", revision="a" * 40, file="test/sums.jsonl")


def benchmark(sha256: str = hashlib.sha256(ROWS).hexdigest()) -> Benchmark:
    file = QuestionFile(data="sums.jsonl", sha256=sha256, rows=2, hub=PLACE)
    return Benchmark(name="sums", files=(file,), questions=2, seeds=(1,), limit_tokens=8)


class Hub:
    """Gives these bytes for every file, and remembers what it was asked for."""

    def __init__(self, folder: Path, content: bytes = ROWS) -> None:
        self.path = folder / "cached"
        self.path.write_bytes(content)
        self.asked: list[HubFile] = []

    def __call__(self, hub: HubFile) -> Path:
        self.asked.append(hub)
        return self.path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_a_file_that_is_not_here_comes_from_its_place_on_the_hub(tmp_path: Path) -> None:
    hub = Hub(tmp_path)
    assert [question.id for question in read_questions(benchmark(), fetch=hub)] == ["q1", "q2"]
    assert hub.asked == [PLACE]


@pytest.mark.parametrize("place", ["sums.jsonl", "data/sums.jsonl", "given"])
def test_a_file_that_is_here_is_not_asked_for(tmp_path: Path, place: str) -> None:
    Path("data").mkdir()
    path = tmp_path / "elsewhere.jsonl" if place == "given" else Path(place)
    path.write_bytes(ROWS)
    hub = Hub(tmp_path)
    assert len(read_questions(benchmark(), path if place == "given" else None, fetch=hub)) == 2
    assert hub.asked == []


def test_what_the_hub_gives_is_checked_by_its_digest(tmp_path: Path) -> None:
    changed = ROWS.replace(b'"4"', b'"5"')
    with pytest.raises(AskedWrongly, match="has SHA-256"):
        read_questions(benchmark(), fetch=Hub(tmp_path, changed))


def test_what_the_hub_gives_is_checked_by_its_rows(tmp_path: Path) -> None:
    fewer = ROWS[: ROWS.index(b"\n") + 1]
    with pytest.raises(AskedWrongly, match="has 1 questions, sums has 2 there"):
        read_questions(benchmark(hashlib.sha256(fewer).hexdigest()), fetch=Hub(tmp_path, fewer))


@pytest.mark.parametrize("revision", ["main", "a" * 39, "A" * 40, "refs/pr/1"])
def test_a_branch_is_no_revision(revision: str) -> None:
    """It moves, and the score with it."""
    with pytest.raises(ValueError, match="revision"):
        HubFile(repository="owner/sums", revision=revision, file="sums.jsonl")


def test_the_client_is_asked_for_that_file_of_a_data_set_at_that_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    asked: list[dict[str, Any]] = []

    def give(**keywords: Any) -> str:
        asked.append(keywords)
        return "/cache/snapshots/x"

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", give)
    assert download(PLACE) == Path("/cache/snapshots/x")
    assert asked == [
        {"repo_id": "owner/sums", "filename": "test/sums.jsonl", "revision": "a" * 40, "repo_type": "dataset"}
    ]


def test_without_a_network_the_command_that_fetches_it_is_said() -> None:
    """The real client, which finds nothing in its cache and may not ask."""
    with pytest.raises(
        AskedWrongly, match=r"hf download --repo-type dataset owner/sums test/sums\.jsonl --revision a+"
    ):
        download(PLACE)


def test_the_files_of_a_benchmark_on_the_hub_are_those_of_one_commit() -> None:
    files = find("aime25_opencompass").files
    assert {(file.hub.repository, len(file.hub.revision)) for file in files if file.hub} == {
        ("opencompass/AIME2025", 40)
    }
    assert [file.hub.file for file in files if file.hub] == ["aime2025-I.jsonl", "aime2025-II.jsonl"]
