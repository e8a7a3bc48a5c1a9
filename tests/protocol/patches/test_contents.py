"""What is no source is recognised by its bytes, whatever it calls itself, and source is not taken for it."""

import base64
import gzip
import io
import json
import lzma
import pickle
import random
import sqlite3
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from safetensors.numpy import save

from opd.protocol.patches.contents import judge_content, judge_name
from opd.protocol.patches.refusals import Rule

ROOT = Path(__file__).parents[3]
ARRAY = np.arange(600, dtype=np.float32) / 7
TABLE = pa.table({"problem": ["1 + 1"], "answer": ["2"]})


def written(write) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def arrow(stream) -> None:
    with pa.ipc.new_file(stream, TABLE.schema) as writer:
        writer.write_table(TABLE)


def archive(stream) -> None:
    with zipfile.ZipFile(stream, "w") as files:
        files.writestr("data.pkl", b"x")


def database() -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (x)")
        found = connection.serialize()
    connection.close()
    return found


FORMATS = {
    "safetensors": (Rule.WEIGHTS, save({"w": ARRAY})),
    "pickle": (Rule.WEIGHTS, pickle.dumps({"w": ARRAY.tolist()})),
    "npy": (Rule.WEIGHTS, written(lambda stream: np.save(stream, ARRAY))),
    "npz": (Rule.DATA, written(lambda stream: np.savez(stream, ARRAY))),
    "gguf": (Rule.WEIGHTS, b"GGUF\3\0\0\0"),
    "zip": (Rule.DATA, written(archive)),
    "parquet": (Rule.DATA, written(lambda stream: parquet.write_table(TABLE, stream))),
    "arrow": (Rule.DATA, written(arrow)),
    "sqlite": (Rule.DATA, database()),
    "gzip": (Rule.DATA, gzip.compress(b"x = 1\n")),
    "xz": (Rule.DATA, lzma.compress(b"x = 1\n")),
    "bytecode": (Rule.COMPILED, None),
    "elf": (Rule.COMPILED, b"\x7fELF\2\1\1" + b"\0" * 9),
    "utf-16": (Rule.TEXT, "x = 1\n".encode("utf-16")),
    "latin-1": (Rule.TEXT, b"# caf\xe9\n"),
    "a zero byte far behind": (Rule.TEXT, b"x = 1\n" * 3000 + b"\0"),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_format_is_known_by_its_bytes(kind, tmp_path):
    rule, content = FORMATS[kind]
    if content is None:
        import py_compile

        (tmp_path / "a.py").write_text("x = 1\n")
        content = Path(py_compile.compile(str(tmp_path / "a.py"), str(tmp_path / "a.dat"))).read_bytes()
    judged = judge_content(content)
    assert judged is not None
    assert judged.rule is rule


WEIGHTS = random.Random(7).randbytes(3000)
ENCODED = {
    "base 64 in one word": f'W = "{base64.b64encode(WEIGHTS).decode()}"\n',
    "base 64 in lines": "W = (\n" + textwrap.indent(base64.encodebytes(WEIGHTS).decode(), "    ") + ")\n",
    "base 64 in texts": "".join(f'    b"{line}"\n' for line in textwrap.wrap(base64.b64encode(WEIGHTS).decode(), 72)),
    "hexadecimal in one word": "W = '" + base64.b16encode(WEIGHTS).decode().lower() + "'\n",
    "numbers": "W = [\n" + "".join(f"    {value:.6f},\n" for value in np.linspace(-1, 1, 4000)) + "]\n",
    "numbers in one line": f"W = {list(range(5000))}\n",
    "bytes by number": "W = b'" + "".join(f"\\x{byte:02x}" for byte in WEIGHTS) + "'\n",
    "rows": "".join(json.dumps({"problem": f"{number} + 1", "answer": number + 1}) + "\n" for number in range(60)),
    "rows in a list": json.dumps([{"problem": f"{number} + 1"} for number in range(60)], indent=2),
    "rows in an object": json.dumps({"rows": [f"{number} + 1" for number in range(60)]}),
    "rows in Python": "ROWS = '''\n"
    + "".join(f'["{number} + 1", "{number + 1}"]\n' for number in range(60))
    + "'''\n",
}


@pytest.mark.parametrize("text", ENCODED.values(), ids=ENCODED)
def test_data_that_is_written_as_text_is_recognised(text):
    judged = judge_content(text.encode())
    assert judged is not None
    assert judged.rule is Rule.DATA


def test_sources_and_settings_are_neither_data_nor_weights():
    """Every source, recipe and text of this very repository."""
    suffixes = {".py", ".toml", ".md", ".css", ".j2", ".txt", ""}
    folders = ("src", "recipes", "docs", "examples")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in suffixes]
    read = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    assert len(read) > 100
    found = {path: judge_content(path.read_bytes()) for path in read}
    assert {path: judged for path, judged in found.items() if judged} == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "{}",
        "[]",
        json.dumps({"learning_rate": 1e-6, "betas": [0.9, 0.95], "steps": list(range(50))}, indent=2),
        "x = 1\n" * 40_000,
        "é 数 🙂\n",
        "[" * 100_000,
        "# " + "-" * 900 + "\n",
        "\n".join(f"step_{number} = schedule({number}, rate={number / 7})" for number in range(3000)),
    ],
)
def test_harmless_text_passes(text):
    assert judge_content(text.encode()) is None


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("src/model.safetensors", Rule.WEIGHTS),
        ("src/MODEL.SafeTensors", Rule.WEIGHTS),
        ("src/pytorch_model.bin", Rule.WEIGHTS),
        ("src/model.bin.1", Rule.WEIGHTS),
        ("src/w.npz", Rule.WEIGHTS),
        ("src/__pycache__/a.cpython-311.pyc", Rule.COMPILED),
        ("src/__pycache__/a.txt", Rule.COMPILED),
        ("src/lib.so", Rule.COMPILED),
        ("src/lib.so.1.2", Rule.COMPILED),
        ("src/train.parquet", Rule.DATA),
        ("src/x.data-00000-of-00001", Rule.DATA),
        ("src/a.tar.gz", Rule.DATA),
        ("src/a.py", None),
        ("src/bin", None),
        ("src/bin/a.py", None),
        ("run.sh", None),
        ("recipes/opd_math_1p5b.toml", None),
    ],
)
def test_a_name_says_what_it_says(name, rule):
    judged = judge_name(name)
    assert (judged and judged.rule) == rule
