"""Known secrets are found in whatever form a file holds them; what only looks like one is not looked for."""

import base64
import json
import os
import random
from pathlib import Path
from urllib.parse import quote

import pytest

from opd.protocol.harbor import secrets
from opd.protocol.harbor.secrets import check, secrets_of
from opd.records.errors import AnswerIsNo

VALUE = 'sk-"made/up"+ü-0001'

FORMS = {
    "as it is": VALUE.encode(),
    "in JSON": json.dumps({"key": VALUE}).encode(),
    "in JSON that keeps letters": json.dumps({"key": VALUE}, ensure_ascii=False).encode(),
    "in JSON in JSON in JSON": json.dumps({"a": json.dumps({"b": json.dumps([VALUE])})}).encode(),
    "in base64 of several lines": base64.encodebytes(b"x" * 50 + VALUE.encode() + b"y" * 50),
    "in base64 of several lines in JSON": json.dumps(
        base64.encodebytes(b"x" * 50 + VALUE.encode()).decode()
    ).encode(),
    "in a URL": f"https://host.example/?key={quote(VALUE, safe='')}&x".encode(),
    "in hexadecimal digits": b"0x" + VALUE.encode().hex().encode() + b"ff",
    "in large hexadecimal digits": VALUE.encode().hex().upper().encode(),
    **{
        f"in base64 behind {before} bytes": base64.b64encode(b"u" * before + VALUE.encode() + b":p")
        for before in range(6)
    },
    "in base64 for URLs": base64.urlsafe_b64encode(b"xx" + VALUE.encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_each_form(form: str, tmp_path: Path) -> None:
    check({"a": b"nothing", "b": b"sk-made-up-0002"}, {"MY_KEY": VALUE})
    with pytest.raises(AnswerIsNo, match=r"nothing was written: log holds the value of MY_KEY\."):
        check({"log": b"before " + FORMS[form] + b" after"}, {"MY_KEY": VALUE})
    (tmp_path / "log").write_bytes(FORMS[form])
    with pytest.raises(AnswerIsNo, match="log holds"):
        check({"log": tmp_path / "log"}, {"MY_KEY": VALUE})


def test_base64_of_random_values_is_found_wherever_they_begin() -> None:
    random_numbers = random.Random(5)
    for _ in range(300):
        value = "".join(random_numbers.choices("abcXYZ019+/=-_", k=random_numbers.randint(9, 40)))
        around = [random_numbers.randbytes(random_numbers.randint(0, 7)) for _ in range(2)]
        with pytest.raises(AnswerIsNo):
            check({"x": base64.b64encode(around[0] + value.encode() + around[1])}, {"T_TOKEN": value})


def test_a_secret_across_two_chunks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_CHUNK_BYTES", 64)
    for before in range(40, 70):
        (tmp_path / "x").write_bytes(b"." * before + b"secret-value-1234" + b"." * 100)
        with pytest.raises(AnswerIsNo):
            check({"x": tmp_path / "x"}, {"A_KEY": "secret-value-1234"})


def test_a_secret_in_a_files_name_is_found_and_every_file_and_variable_is_named() -> None:
    with pytest.raises(AnswerIsNo) as refused:
        check(
            {"out/aaaaaaaa1": b"bbbbbbbb2", "fine": b"", "more": b"aaaaaaaa1"},
            {"ONE": "aaaaaaaa1", "TWO": "bbbbbbbb2"},
        )
    said = str(refused.value)
    assert "out/aaaaaaaa1 holds the value of ONE" in said
    assert "holds the value of TWO" in said
    assert "more holds the value of ONE" in said
    assert "fine" not in said


def test_variables_are_secret_by_their_names_and_only_with_values_that_can_be() -> None:
    environment = {
        "ANTHROPIC_API_KEY": "sk-made-up", "github_token": "ghp-made-up", "DB_PASSWORD": "made up 1",
        "AWS_SECRET": "short", "HOME": "/home/somebody", "SSL_KEY_FILE": os.devnull, "EMPTY_KEY": "        ",
        "PYTHONPATH": "src:more",
    }  # fmt: skip
    assert set(secrets_of(environment)) == {"ANTHROPIC_API_KEY", "github_token", "DB_PASSWORD"}
    check({"x": b"short"}, {"AWS_SECRET": "short"})
