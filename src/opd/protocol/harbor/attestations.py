"""A statement for each receipt, in the form of in-toto: these files, by digest, came about so.

    explore--attempt-001.intoto.json     predicate: the receipt, without its list of files
    formal--attempt-002.intoto.json      predicate: SLSA provenance; what the candidate's training was built from

The statements are not signed. Whoever signs them wraps each, byte for byte, in an envelope of their own.
"""

from typing import Any

from opd.protocol.harbor.facts import Facts, Try
from opd.protocol.stages.submission import PATCH
from opd.records.attempts import Formal, Stage
from opd.records.receipts import RECEIPT
from opd.records.trees import Kind

STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
RECEIPT_TYPE = "urn:opd:receipt:v1"
BUILD_TYPE = "urn:opd:formal-replay:v1"


def file_name(one: Try) -> str:
    """Where the statement about a try lies."""
    return f"attestations/{one.name.replace('/', '--')}.intoto.json"


def statement(facts: Facts, one: Try) -> dict[str, Any]:
    """The statement about a try: every file of it is a subject, and so is its receipt."""
    files = [(entry.path, entry.sha256) for entry in one.receipt.files if entry.kind is Kind.FILE]
    subjects = [(RECEIPT, one.receipt_sha256), *files]
    said = _formal(facts, one) if one.stage is Stage.FORMAL else None
    return {
        "_type": STATEMENT,
        "subject": [{"name": f"{one.name}/{path}", "digest": {"sha256": sha256}} for path, sha256 in subjects],
        "predicateType": RECEIPT_TYPE if said is None else PROVENANCE,
        "predicate": one.receipt.model_dump(mode="json", exclude={"files"})
        if said is None
        else _built(facts, one, said),
    }


def _formal(facts: Facts, one: Try) -> Formal | None:
    """What a formal try says of itself; None for one that was ended before it could."""
    seen = next(seen for seen in facts.evidence.sealed(Stage.FORMAL) if seen.place.name == one.name)
    return facts.evidence.facts(Formal, seen)


def _built(facts: Facts, one: Try, said: Formal) -> dict[str, Any]:
    materials = {
        f"task:{facts.task.name}": facts.identity.task_sha256,
        "base": facts.identity.base_sha256,
        PATCH: said.patch_sha256,
        "checkout": said.checkout_sha256,
        **said.inputs_sha256,
    }
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "task": facts.task.name,
                "command": ["bash", "run.sh"],
                "patch": {"sha256": said.patch_sha256},
                "given_seconds": said.given_seconds,
            },
            "internalParameters": {"isolation": said.isolation},
            "resolvedDependencies": [
                {"name": name, "digest": {"sha256": sha256}} for name, sha256 in materials.items()
            ],
        },
        "runDetails": {
            "builder": {
                "id": f"urn:opd:install:sha256:{facts.identity.install_sha256}",
                "version": {"opd": one.receipt.opd_version},
            },
            "metadata": {
                "invocationId": f"{facts.identity.case}/{one.name}",
                "startedOn": one.receipt.began_utc,
                "finishedOn": one.receipt.ended_utc,
            },
            "byproducts": [
                {"name": f"{one.name}/outcome", "content": one.receipt.outcome},
                {"name": f"{one.name}/stop", "content": said.stop},
            ],
        },
    }
