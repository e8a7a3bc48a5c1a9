"""Small runs, scores and attempts on the disk, in the formats that the install writes, for pages to be looked at."""

import json
from array import array
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.view.conftest import byte_tokenizer, comparison, metrics, sample, score, scored

from opd.records.audits import Audit, Axis, Control, Coverage, Finding, Pointer
from opd.records.audits import Verdict as Found
from opd.records.files import write_json
from opd.records.receipts import NO_HEAD, Receipt, begin, seal
from opd.records.rollout_table import table_path, write_table
from opd.records.rollouts import Alternatives, ScoredRollout, StopReason
from opd.records.scores import Judgement, Sample, Verdict

QUESTIONS, EACH = 60, 4
STEPS = 40
GAPS = {5: 0.31, 6: -4.62, 13: 0.97, 14: 0.12, 22: -0.4}
"""Place of a token, from 0, and how much surer the teacher is, nats."""

ATTACK = "<img src=/nowhere onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
BIDI = "before\u202eafter\u2066x\x00\x1b[31m\ufeff end"
HOSTILE = f"{ATTACK} {BIDI} $\\href{{javascript:document.title='taken'}}{{x}}$ $\\htmlStyle{{color:red}}{{x}}$"
FORMULAS = "So \\(x = \\frac{1}{2}\\), and\n\\[ \\sum_{i=1}^{n} i \\]\nso \\boxed{\\sqrt{2}}. "
FORMULAS += "$\\fcolorbox{red}{blue}{x}$ $\\frac{$"
LONG = 1_000_000  # characters of one response

DEFAULTS = {
    "recipe": {
        "teachers.NAME.model": {"default": None, "required": True, "doc": "A model."},
        "teachers.NAME.prompt": {"default": None, "required": False, "doc": "What it is asked."},
        "optimizer.lr": {"default": 6e-4, "required": False, "doc": "How far an update goes."},
        "budget.steps": {"default": None, "required": True, "doc": "Updates."},
        "budget.max_wall_seconds": {"default": None, "required": False, "doc": "Of wall clock."},
    },
    "objectives": {"k1": {}},
}
PLAN = {
    "memory": {"needed_bytes": 900_000_000},
    "disk": {"needed_bytes": 21_000_000},
    "steps": 80,
    "rows_seen": 1_280,
    "rollout_tokens": 655_360,
    "notes": ["objective.clip never acts"],
    "lacks": [],
}
"""Of what `opd plan` says, that which a page shows."""


def make_train(
    folder: Path, *, lr: float = 6e-4, steps: int = STEPS, kept: Mapping[int, list[ScoredRollout]]
) -> Path:
    """A training run that was left behind by its process."""
    (folder / "rollouts").mkdir(parents=True)
    budget = {"steps": 2 * STEPS, "max_wall_seconds": None}
    write_json(folder / "recipe.json", {"optimizer": {"lr": lr}, "budget": budget, "objective": {"name": "k1"}})
    for step in range(1, steps + 1):
        add_step(folder, step)
    byte_tokenizer().save(str(folder / "rollouts" / "tokenizer.json"))
    for step, rollouts in kept.items():
        write_table(table_path(folder, step), rollouts)
    return folder


def make_taught(folder: Path) -> Path:
    """A training run of two teachers, one of which sees another prompt than the student."""
    tokenizer = byte_tokenizer()
    one = scored(tokenizer, response="73-9=64<eos>")
    ids = tuple(tokenizer.encode("Compute 73-9+7..", add_special_tokens=False).ids)
    kept = [
        replace(one, rollout=replace(one.rollout, prompt=replace(one.rollout.prompt, teacher=name, teacher_ids=seen)))
        for name, seen in (("plain", None), ("terse", ids), ("plain", None))
    ]
    make_train(folder, steps=0, kept={1: kept})
    recipe = json.loads((folder / "recipe.json").read_text())
    prompts = {"plain": None, "terse": "{problem}."}
    teachers = {name: {"model": "some/model", "prompt": prompt} for name, prompt in prompts.items()}
    write_json(folder / "recipe.json", {"teachers": teachers, **recipe})
    step = metrics(1).resolved() | {"kl": 0.34, "teachers": {"plain": {"kl": 0.093}, "terse": {"kl": 0.582}}}
    (folder / "metrics.jsonl").write_text(line(step))
    return folder


def add_step(folder: Path, step: int) -> None:
    """One more line of metrics, as a trainer adds it."""
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(line(metrics(step).resolved()))


def rollouts() -> list[ScoredRollout]:
    """One whose widest gap is known, one that was cut short, one that is hostile, two that are long."""
    tokenizer = byte_tokenizer()
    made = [
        scored(tokenizer, response="73-9=63\n63+7=70\n</think>\n\n\\boxed{70}<eos>", gaps=GAPS),
        scored(tokenizer, response="7\n" * 30, stop=StopReason.LENGTH),
        scored(tokenizer, problem=HOSTILE, response=f"{HOSTILE} é 数 🧮"),
        scored(tokenizer, response="64+7=71\n" * 900, gaps={6000: -9.0}),
        scored(tokenizer, response="64+7=71 " * 2000, gaps={12_000: -8.0}),  # in one line
    ]
    return [with_alternatives(one) for one in made]


def with_alternatives(one: ScoredRollout) -> ScoredRollout:
    """As if the teacher had found a `4` likeliest everywhere, before what was sampled."""
    four = byte_tokenizer().encode("4", add_special_tokens=False).ids[0]
    ids = array("i", (id_ for sampled in one.rollout.token_ids for id_ in (four, sampled)))
    logp = array("f", (nats for sampled in one.teacher_logp for nats in (-0.25, sampled)))
    return replace(one, alternatives=Alternatives(count=2, ids=ids, logp=logp))


def samples(right: int) -> list[Sample]:
    """Of each question that many are right, but the last is hostile, its neighbour long, and one has formulas."""
    made = [
        sample(question, index, Verdict.CORRECT if index < right else Verdict.WRONG)
        for question in range(1, QUESTIONS + 1)
        for index in range(EACH)
    ]
    reply = f"The answer is not the same. {HOSTILE}"
    judged = Judgement(
        verdict=Verdict.WRONG, extracted=HOSTILE, stage="judge", reason=HOSTILE, by="judge:strict", reply=reply
    )
    made[-1] = made[-1].model_copy(update={"response": HOSTILE, "judgement": judged, "tokens": 99})
    made[-2] = made[-2].model_copy(update={"response": ("x" * 79 + "\n") * (LONG // 80), "tokens": 12_000})
    made[1] = made[1].model_copy(update={"response": FORMULAS})
    return made


def make_score(folder: Path, *, right: int) -> Path:
    """A finished score."""
    folder.mkdir(parents=True)
    made = samples(right)
    correct = sum(one.correct for one in made)
    counts = {verdict: sum(one.judgement.verdict is verdict for one in made) for verdict in Verdict}
    summary = score(
        f"{folder.name}/checkpoint", correct / len(made), questions=QUESTIONS, samples=len(made), correct=correct,
        verdicts={verdict.value: count for verdict, count in counts.items()},
    ).resolved()  # fmt: skip
    write_json(folder / "protocol.json", {"protocol": summary["protocol"], "model_digest": summary["model_digest"]})
    with (folder / "samples.jsonl").open("w") as file:
        file.writelines(line(one.resolved()) for one in made)
    write_json(folder / "score.json", summary)
    return folder


def line(one: Mapping[str, Any]) -> str:
    """A line of JSON."""
    return json.dumps(one, ensure_ascii=False) + "\n"


def audit() -> Audit:
    """One axis with nothing, one that is confirmed."""

    def finding(axis: Axis, verdict: Found, sentence: str) -> Finding:
        return Finding(
            check=axis.value,
            axis=axis,
            verdict=verdict,
            sentence=sentence,
            details=(HOSTILE,),
            evidence=(Pointer(file="run.json", sha256="0" * 64),),
            coverage=Coverage(files=3, bytes=12_000),
            controls=(Control(name="an input that changed", found=True),),
        )

    return Audit(
        findings=(
            finding(Axis.FIXED_INPUTS, Found.NONE_FOUND, "All inputs are as the task pins them."),
            finding(Axis.BUDGET_USE, Found.CONFIRMED, "Half of the time was left unused."),
        )
    )


def make_attempt(folder: Path, *, page: str = "<!doctype html><p>All went well.</p>") -> Path:
    """An attempt that was explored, trained, audited and reported with this page."""
    folder.mkdir(parents=True)
    write_json(folder / "run.json", {"case": "command__made_up__none__none", "task": "made_up"})
    write_json(folder / "task.lock.json", {"task": {"name": "made_up", "description": f"Add. {HOSTILE}"}})
    (folder / "events.jsonl").write_text(
        '{"seq": 1, "kind": "created", "actor": "operator"}\n{"seq": 2, "kind": "began"}\n'
    )
    device = [
        {"monotonic": 10.0 + at, "utc": f"t{at}", "processes": 2, "cpu_share": 0.5, "gpus": []} for at in range(30)
    ]
    desk = {"began": "2026-01-31T10:00:01.000Z", "seconds": 2.0, "command": "timer", "exit": 0, "said": [HOSTILE]}

    tries: Mapping[str, Mapping[str, str]] = {
        "explore/attempt-001": {"device.jsonl": "".join(map(line, device)), "desk.jsonl": line(desk)},
        "formal/attempt-001": {f"{number:03}.txt": "x" * number for number in range(300)},
        "audit/attempt-001": {"outcome.json": json.dumps(audit().resolved())},
        "report/attempt-001": {"index.html": page, "outcome.json": json.dumps({"files": ["index.html"]})},
    }  # fmt: skip
    for place, (name, files) in enumerate(tries.items()):
        partial = begin(folder / name)
        for file, text in files.items():
            (partial / file).write_text(text)
        seal(folder / name, _receipt(name.partition("/")[0], minute=10 * place))
    return folder


def _receipt(kind: str, *, minute: int) -> Receipt:
    return Receipt(
        kind=kind,
        outcome="completed",
        because=None,
        began_utc=f"2026-01-31T10:{minute:02}:00.000Z",
        ended_utc=f"2026-01-31T10:{minute + 5:02}:00.000Z",
        active_seconds=300.0,
        opd_version="0.1.0",
        made_from={"task": "a1" * 32},
        events=NO_HEAD,
        files=(),
    )


def compared() -> dict[str, Any]:
    """What `opd compare` would say of the two scores."""
    return comparison(score("start", 0.25), score("end", 0.75)).resolved()
