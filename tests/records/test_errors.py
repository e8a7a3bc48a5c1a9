"""The two ways of saying no, and the exit code of each."""

import pytest

from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError


@pytest.mark.parametrize(("kind", "code"), [(AskedWrongly, 2), (AnswerIsNo, 1)])
def test_each_no_has_its_exit_code(kind, code):
    assert kind("no").exit_code == code
    assert isinstance(kind("no"), OpdError)


def test_a_question_put_wrongly_passes_through_validators_and_an_answer_does_not():
    """Pydantic turns a `ValueError` into a fault of its field; a check that failed must not look like one."""
    assert issubclass(AskedWrongly, ValueError)
    assert not issubclass(AnswerIsNo, ValueError)
