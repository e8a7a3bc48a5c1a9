"""Ids that lead back to the questions for those who have them all, and for nobody else."""

from opd.protocol.contamination.needles import Needles, Question


def test_ids_are_stable_and_lead_back_and_need_all_questions(questions: list[Question]) -> None:
    one, again = Needles(questions), Needles(questions, ["an ordinary text"] * 5)
    ids = [one.id(number) for number in range(4)]
    assert ids == [again.id(number) for number in range(4)]
    assert [one.ids[name] for name in ids] == [0, 1, 2, 3]
    assert set(ids).isdisjoint(Needles(questions[:3]).ids)  # who knows three of four can't name them
