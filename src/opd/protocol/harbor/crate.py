"""ro-crate-metadata.json: an attempt as a Process Run Crate, one action for each try.

CreateAction ─ instrument (opd, or the harness that explored), object (what went in, by digest), result (the
statement about it, which names every file), start, end, status, error
"""

import mimetypes
from collections.abc import Iterable
from typing import Any

from opd.protocol.harbor.attestations import file_name
from opd.protocol.harbor.facts import Facts, Try
from opd.records.attempts import Explored, Handed, Replayed, Stage, Validated

METADATA = "ro-crate-metadata.json"

_CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
_CRATE = "https://w3id.org/ro/crate/1.1"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_DID_ITS_WORK = frozenset(
    {Explored.SUBMITTED, Explored.NO_CANDIDATE, Handed.SEALED, Replayed.COMPLETED, *Validated, "scored"}
)


def crate(facts: Facts, paths: Iterable[str]) -> dict[str, Any]:
    """The metadata; `paths` are the other files of the export."""
    files = sorted(paths)
    materials = {digest: name for one in facts.tries for name, digest in sorted(one.receipt.made_from.items())}
    actions = [_action(one) for one in facts.tries]
    return {
        "@context": _CONTEXT,
        "@graph": [
            {
                "@id": METADATA,
                "@type": "CreativeWork",
                "about": {"@id": "./"},
                "conformsTo": {"@id": _CRATE},
            },
            _root(facts, files, actions),
            {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
            *_instruments(facts),
            *(
                {"@id": _id(digest), "@type": "CreativeWork", "name": name}
                for digest, name in sorted(materials.items())
            ),
            *actions,
            *({"@id": path, "@type": "File", "encodingFormat": _format(path)} for path in files),
        ],
    }


def _root(facts: Facts, files: list[str], actions: list[dict[str, Any]]) -> dict[str, Any]:
    official = facts.status.official
    come_to = f"official score {official.mean:.6f}" if official else f"no official score: {facts.status.missing}"
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": facts.identity.case,
        "description": f"One attempt on {facts.task.name} by {facts.identity.harness}; {come_to}.",
        "datePublished": facts.ended_utc,
        "license": "not stated",
        "conformsTo": {"@id": _PROFILE},
        "hasPart": [{"@id": path} for path in files],
        "mentions": [{"@id": action["@id"]} for action in actions],
    }


def _instruments(facts: Facts) -> list[dict[str, Any]]:
    one = facts.identity
    return [
        {
            "@id": "#opd",
            "@type": "SoftwareApplication",
            "name": "opd",
            "softwareVersion": one.opd_version,
            "identifier": _id(one.install_sha256),
        },
        {
            "@id": "#explorer",
            "@type": "SoftwareApplication",
            "name": one.harness,
            "description": " ".join(part for part in (*one.command, one.model, one.effort) if part),
        },
    ]


def _action(one: Try) -> dict[str, Any]:
    done = one.receipt.outcome in _DID_ITS_WORK
    said = one.receipt.because or one.receipt.outcome
    return {
        "@id": f"#{one.name}",
        "@type": "CreateAction",
        "name": f"{one.name}: {one.receipt.outcome}",
        "instrument": {"@id": "#explorer" if one.stage is Stage.EXPLORE else "#opd"},
        "object": [{"@id": _id(digest)} for _, digest in sorted(one.receipt.made_from.items())],
        "result": [{"@id": file_name(one)}],
        "startTime": one.receipt.began_utc,
        "endTime": one.receipt.ended_utc,
        "actionStatus": {"@id": f"http://schema.org/{'Completed' if done else 'Failed'}ActionStatus"},
        **({} if done else {"error": said}),
    }


def _id(sha256: str) -> str:
    return f"urn:sha256:{sha256}"


def _format(path: str) -> str:
    return mimetypes.guess_type(path)[0] or "text/plain"
