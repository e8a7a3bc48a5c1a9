"""What a recipe may say of its teacher's servers."""

import pytest

from opd.models.served.settings import ServedSettings
from opd.records.errors import AskedWrongly
from opd.records.settings import validated


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/"])
def test_an_address_is_taken_with_or_without_its_version(url: str) -> None:
    assert validated(ServedSettings, {"urls": [url]}, source="x").urls == ("http://127.0.0.1:8000",)


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        ([], "at least 1"),
        (["127.0.0.1:8000"], "write it as http"),
        (["ftp://127.0.0.1"], "write it as http"),
        (["http://"], "write it as http"),
        (["http://127.0.0.1:0"], "write it as http"),
        (["http://127.0.0.1:99999"], "out of range"),
        (["http://127.0.0.1:8000?key=secret-17"], "credentials, a query"),
        (["http://" + "me:secret-17@127.0.0.1:8000"], "credentials"),
        (["http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"], "twice"),
    ],
)
def test_an_address_that_can_not_be_one_is_refused_and_a_secret_in_it_is_not_shown(
    urls: list[str], said: str
) -> None:
    with pytest.raises(AskedWrongly, match=said) as error:
        validated(ServedSettings, {"urls": urls}, source="x")
    assert "secret-17" not in str(error.value)
