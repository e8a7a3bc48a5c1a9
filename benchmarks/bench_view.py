"""How long `opd view` takes to answer, over a run of the size that people have.

    python benchmarks/bench_view.py [folder to keep what is made, a temporary one]

2,000 steps of metrics, 500 rollouts of 4,000 tokens, two evaluations of 2,000 responses of 12,000 tokens. Measured
are the first answers of a server that has just been started, when nothing was read yet, and the same again; each is
one request over loopback, from its sending to the last byte. Where there is a Chromium, then the pages: from the
address to the first paint, and until what the page is about is drawn, which a script in the page sees; each with a
browser profile of its own, at a server that is up and was asked for no run yet.
"""

import http.client
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, models, pre_tokenizers

STEPS, ROLLOUTS, ROLLOUT_TOKENS = 2_000, 500, 4_000
SAMPLES, SAMPLE_TOKENS, PER_QUESTION = 2_000, 12_000, 4
WANTED_SECONDS = 1.0
TURNS = 3
WATCH = """
new PerformanceObserver(list => list.getEntriesByName('first-contentful-paint')
  .forEach(one => console.debug(`painted ${one.startTime}`))).observe({ type: 'paint', buffered: true });
const look = () => requestAnimationFrame(() =>
  document.querySelector(SIGN)?.getClientRects().length
    ? requestAnimationFrame(drawn => console.debug(`drawn ${drawn}`)) : look());
look();
"""  # the frame after the one in which it stands there, milliseconds since the navigation began
WINDOW: Any = {"width": 1280, "height": 900}  # CSS pixels
_WORDS = ["so", "then", "we", "find", "that", "x", "=", "7", "+", "12", "\\frac{1}{2}", "because", "the", "sum", "\n"]


def make(folder: Path) -> None:
    """The run and two scores, unless they are there already."""
    if (folder / "other" / "score.json").exists():
        return
    noise = random.Random(0)
    _run(folder / "run", noise)
    _score(folder / "score", noise)
    _score(folder / "other", noise)


def _run(run: Path, noise: random.Random) -> None:
    (run / "rollouts").mkdir(parents=True, exist_ok=True)
    (run / "recipe.json").write_text(json.dumps({"budget": {"steps": STEPS}, "optimizer": {"lr": 1e-6}}))
    with (run / "metrics.jsonl").open("w") as file:
        for step in range(1, STEPS + 1):
            line = {
                "step": step,
                "loss": noise.random(),
                "kl": noise.random(),
                "clamped": 0.01,
                "mean_tokens": 3990.0,
            }
            line |= {"gap": {"mean": 1e-7, "largest": 1e-5, "k3": 1e-13}, "objective": {"ratio": 1.0}}
            line |= {"seconds": dict.fromkeys(("sample", "score", "update", "save", "total"), 20.5), "warnings": []}
            file.write(json.dumps(line | {f"more_{number}": noise.random() for number in range(15)}) + "\n")
    vocabulary = {word: number for number, word in enumerate(["<eos>", *_WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<eos>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(run / "rollouts" / "tokenizer.json"))
    ids = np.random.default_rng(0).integers(1, len(vocabulary), (ROLLOUTS, ROLLOUT_TOKENS), dtype=np.int32)
    logp = -np.random.default_rng(1).exponential(0.3, (2, ROLLOUTS, ROLLOUT_TOKENS)).astype(np.float32)
    columns = {
        "row": pa.array(range(ROLLOUTS), pa.int32()),
        "epoch": pa.array([0] * ROLLOUTS, pa.int32()),
        "sample": pa.array([0] * ROLLOUTS, pa.int32()),
        "problem": ["Find x."] * ROLLOUTS,
        "answer": ["7"] * ROLLOUTS,
        "stop": ["eos"] * ROLLOUTS,
        "prompt_ids": pa.array([[1, 2, 3]] * ROLLOUTS, pa.list_(pa.int32())),
        "token_ids": pa.array(list(ids), pa.list_(pa.int32())),
        "student_logp": pa.array(list(logp[0]), pa.list_(pa.float32())),
        "teacher_logp": pa.array(list(logp[1]), pa.list_(pa.float32())),
    }
    pq.write_table(pa.table(columns), run / "rollouts" / f"step-{STEPS:06d}.parquet", compression="zstd")


def _score(score: Path, noise: random.Random) -> None:
    score.mkdir(parents=True, exist_ok=True)
    protocol = {"benchmark": "made_up", "questions": SAMPLES // PER_QUESTION, "samples_per_question": PER_QUESTION}
    (score / "protocol.json").write_text(json.dumps({"protocol": protocol, "model_digest": "0" * 64}))
    with (score / "samples.jsonl").open("w") as file:
        for number in range(SAMPLES):
            right = noise.random() < 0.5
            judgement = {
                "verdict": "correct" if right else "wrong",
                "extracted": "7",
                "stage": "integer",
                "reason": "",
            }
            line = {"question": f"q{number // PER_QUESTION}", "sample": number % PER_QUESTION, "seed": 0}
            line |= {"response": " ".join(noise.choices(_WORDS, k=SAMPLE_TOKENS)), "tokens": SAMPLE_TOKENS}
            line |= {"stop": "eos", "gold": "7", "judgement": judgement, "opinions": []}
            file.write(json.dumps(line) + "\n")
    (score / "score.json").write_text("{}")  # what is measured reads the samples


@contextmanager
def server(folder: Path) -> Iterator[tuple[http.client.HTTPConnection, dict[str, str], float]]:
    """A fresh server: a connection, the headers that it wants, and how long it took to be there, seconds."""
    code = f"from opd.cli.view import view; view([{str(folder)!r}, '--no-open'])"
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        there = time.perf_counter() - began
        place, _, token = address.removeprefix("http://").partition("/?token=")
        connection = http.client.HTTPConnection(place, timeout=60)
        cookie = f"opd-view-{place.rpartition(':')[2]}={token}"
        try:
            yield connection, {"cookie": cookie, "accept-encoding": "gzip"}, there
        finally:
            connection.close()
            process.terminate()


def seconds(connection: http.client.HTTPConnection, headers: dict[str, str], path: str) -> tuple[float, bytes]:
    """How long a request takes, and what comes back."""
    began = time.perf_counter()
    connection.request("GET", path, headers=headers)
    answered = connection.getresponse()
    body = answered.read()
    assert answered.status == 200, (path, answered.status, body[:200])
    return time.perf_counter() - began, body


def ids_in(body: bytes) -> dict[str, str]:
    """The id of each run by its name in capitals, as it stands in the addresses here."""
    return {one["name"].upper(): one["id"] for one in json.loads(body)["runs"]}


def measured(folder: Path) -> dict[str, tuple[float, float]]:
    """By what is asked: seconds of the first answer, and of the second."""
    with server(folder) as (connection, headers, there):
        plain = {name: value for name, value in headers.items() if name != "accept-encoding"}
        first, body = seconds(connection, plain, "/api/runs")
        runs = ids_in(body)
        took = {"from the start to the first answer": (there + first, there + first)}
        took["/api/runs"] = (first, seconds(connection, headers, "/api/runs")[0])
        for name in (
            "/api/runs/RUN",
            "/api/runs/RUN/metrics?points=1000",
            f"/api/runs/RUN/rollouts/{STEPS}?sort=worst&limit=50",
            f"/api/runs/RUN/rollouts/{STEPS}/7",
            "/api/runs/SCORE",
            "/api/runs/SCORE/questions",
            "/api/runs/SCORE/samples?verdict=wrong&limit=50",
            "/api/runs/SCORE/samples/1234",
        ):
            path = addressed(name, runs)
            took[name] = (seconds(connection, headers, path)[0], seconds(connection, headers, path)[0])
    return took


def addressed(name: str, ids: Mapping[str, str]) -> str:
    """The address with the ids for the names."""
    return re.sub("[A-Z]{3,}", lambda found: ids[found[0]], name)


def painted(folder: Path, browser: Any, ids: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """By page: seconds to the first paint, and until what it is about is drawn."""
    pages = {  # the address, and what has to be there
        "/": ".row",
        "/run/RUN": "[data-curve=kl] .uplot canvas",
        f"/rollouts/RUN?step={STEPS}&sort=worst": ".tokens .t",
        "/score/SCORE?line=1234": "article.sample .response .block",
        "/compare?a=SCORE&b=OTHER": ".pairs .cell",
    }
    took = {}
    for path, sign in pages.items():
        with server(folder) as (connection, headers, _), browser.new_context(viewport=WINDOW) as context:
            seconds(connection, headers, "/")  # it is up, and has read no run yet
            name, _, value = headers["cookie"].partition("=")
            base = f"http://{connection.host}:{connection.port}"
            context.add_cookies([{"name": name, "value": value, "url": base}])
            page = context.new_page()
            page.add_init_script(WATCH.replace("SIGN", json.dumps(sign)))
            with (
                page.expect_console_message(lambda said: said.text.startswith("painted ")) as first,
                page.expect_console_message(lambda said: said.text.startswith("drawn ")) as drawn,
            ):
                page.goto(base + addressed(path, ids), wait_until="commit")
            paint, there = (float(one.value.text.partition(" ")[2]) / 1e3 for one in (first, drawn))
            took[f"page {path}"] = (paint, there)
    return took


def looked_at(folder: Path) -> list[dict[str, tuple[float, float]]]:
    """The pages, some turns long; none without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium on the PATH: the pages were not looked at")
        return []
    from playwright.sync_api import sync_playwright

    with server(folder) as (connection, headers, _):
        ids = ids_in(seconds(connection, {"cookie": headers["cookie"]}, "/api/runs")[1])  # of their paths, for good
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        return [painted(folder, browser, ids) for _ in range(TURNS)]


def main() -> None:
    """Prints the least of some turns for each request; exit 1 when one, or a page, takes longer than is wanted."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        make(folder)
        answers = [measured(folder) for _ in range(TURNS)]
        pages = looked_at(folder)
    slow = table(answers, "first     again, ms")
    if pages:
        slow |= table(pages, "paint     drawn, ms")
    raise SystemExit(slow)


def table(turns: Sequence[Mapping[str, tuple[float, float]]], heads: str) -> bool:
    """Prints the least of both columns over the turns; whether one is longer than is wanted."""
    print(f"{'':52s} {heads}")
    slow = False
    for name in turns[0]:
        one, other = (min(turn[name][way] for turn in turns) for way in range(2))
        slow |= max(one, other) > WANTED_SECONDS
        print(f"{name:52s} {one * 1e3:7.0f}   {other * 1e3:7.0f}")
    return slow


if __name__ == "__main__":
    main()
