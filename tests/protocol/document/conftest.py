"""The document's case, built once; and others, in which a fact is another.

document        as the document has it
with_facts      `with_facts(pipeline_seconds=4_000)`: the same with these facts, built once for the session
evidence_of     what an audit collects of one, once for the session
tampered        a further one of the same files, to be changed
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.document.builder import Built, build, clone
from tests.protocol.document.facts import Facts

from opd.protocol.audit.collection import collect
from opd.protocol.audit.evidence import Evidence

WithFacts = Callable[..., Built]
EvidenceOf = Callable[[Built], Evidence]


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where attempts are built: in memory, where there is some."""
    memory = Path("/dev/shm")
    away = memory if os.access(memory, os.W_OK) else tmp_path_factory.getbasetemp()
    with tempfile.TemporaryDirectory(dir=away, prefix="opd-document-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def with_facts(shelf: Path) -> WithFacts:
    known: dict[Facts, Built] = {}

    def make(**changes: Any) -> Built:
        facts = Facts(**changes)
        if facts not in known:
            known[facts] = build(shelf / f"{len(known):02d}", facts)
        return known[facts]

    return make


@pytest.fixture(scope="session")
def document(with_facts: WithFacts) -> Built:
    return with_facts()


@pytest.fixture(scope="session")
def evidence_of() -> EvidenceOf:
    known: dict[Path, Evidence] = {}

    def look(built: Built) -> Evidence:
        if built.folder not in known:
            known[built.folder] = collect(built.attempt)
        return known[built.folder]

    return look


@pytest.fixture
def tampered(document: Built, shelf: Path) -> Iterator[Built]:
    with tempfile.TemporaryDirectory(dir=shelf, prefix="tampered-") as folder:
        yield clone(document, Path(folder) / "document")
