"""`opd doctor`: what this machine is, and whether the training signal is right on it."""

from typing import TYPE_CHECKING, Any

import click

from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.train.identities import Check


@click.command(
    epilog=examples(
        "opd doctor",
        "opd doctor --json | jq '.checks[][] | select(.ok | not)'",
    )
)
@JSON
def doctor(as_json: bool) -> None:
    """Versions, devices, the sandbox and shipped files, and a self-check of the training signal, in seconds.

    Losses against closed forms, an update cut into micro-batches, the end-of-sequence token, templates, recorded
    scores, sampler against scorer; on the CPU, and on the GPU where there is one. Exit code 1: a check failed.
    """
    from opd.models.machine import choose_device, describe, memory_bytes
    from opd.records.errors import AnswerIsNo
    from opd.records.files import canonical_json
    from opd.train.selfcheck import self_check

    devices = list(dict.fromkeys(["cpu", choose_device("auto")]))
    machines = {
        device: describe(device) | {"memory": f"{memory_bytes(device) / (1 << 30):,.1f} GiB"} for device in devices
    }
    sandbox = _sandbox()
    checks = {device: self_check(device, expected_digests=_recorded()) for device in devices}
    if as_json:
        values = {device: [_values(check) for check in found] for device, found in checks.items()}
        click.echo(canonical_json({"machine": machines, "sandbox": sandbox, "checks": values}))
    else:
        refused = "".join(f"; not {name}: {reason}" for name, reason in sandbox["refused"].items())
        click.echo(f"sandbox {sandbox['rung']} {sandbox['version']}{refused}")
        for device, found in checks.items():
            _print(machines[device], found)
    failed = [f"{check.name} ({device})" for device, found in checks.items() for check in found if not check.ok]
    if failed:
        raise AnswerIsNo(
            f"{len(failed)} checks failed: {', '.join(failed)}; numbers of this machine can't be trusted"
        )


def _sandbox() -> dict[str, Any]:
    """On which rung of the ladder an attempt's programs run here, and why on none above; null where on none."""
    from opd.protocol.sandbox.ladder import climb
    from opd.records.errors import AskedWrongly

    try:
        chosen = climb()
    except AskedWrongly as error:  # training and evaluation need none
        return {"rung": None, "version": None, "refused": {"any": str(error)}}
    return {"rung": chosen.rung.name, "version": chosen.rung.version(), "refused": dict(chosen.refused)}


def _recorded() -> dict[str, str]:
    """The digests that were written down of what ships: weights by their provenance, questions by their benchmark."""
    from opd.evaluate import benchmark
    from opd.records.files import read_json
    from opd.records.places import SHIPPED, locate

    weights = read_json(locate(f"{SHIPPED}arith_tiny/provenance.json"))["weights_sha256"]
    files = [file for name in benchmark.names() for file in benchmark.find(name).files]
    return {f"{SHIPPED}{name}/model.safetensors": digest for name, digest in weights.items()} | {
        file.data: file.sha256 for file in files if file.data.startswith(SHIPPED)
    }


def _values(check: "Check") -> dict[str, object]:
    """A check as JSON; a number that is not finite, and a limit that is none, are null."""
    from math import isfinite

    numbers = {"number": check.number, "at_most": check.at_most, "at_least": check.at_least}
    return {
        "name": check.name,
        "looked_at": check.looked_at,
        "ok": check.ok,
        **{key: value if isfinite(value) else None for key, value in numbers.items()},
    }


def _print(machine: dict[str, str], checks: "list[Check]") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True, width=140)
    console.print(", ".join(f"{key} {value}" for key, value in machine.items()), markup=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for check in checks:
        bound = f"≤ {check.at_most:.0e}" if check.at_least == float("-inf") else f"≥ {check.at_least:.0e}"
        table.add_row(
            "ok" if check.ok else "NOT OK",
            check.name,
            f"{check.number:.1e}",
            bound,
            check.looked_at,
            style="" if check.ok else "bold red",
        )
    console.print(table)
