"""What was worked out is kept while its file stays as it was, and is made once however many ask."""

from threading import Event, Thread

import pytest

from opd.view.server.answers import Busy
from opd.view.server.shelf import Shelf


def test_a_value_is_made_anew_for_another_state_alone_and_is_given_the_one_before():
    shelf, made = Shelf(4), []

    def make(before):
        made.append(before)
        return len(made)

    assert [shelf.get("a", state, make) for state in (1, 1, 2, 2, 1)] == [1, 1, 2, 2, 3]
    assert made == [None, 1, 2]


def test_the_least_used_goes_first():
    shelf = Shelf(2)
    for key in ("a", "b", "a", "c"):
        shelf.get(key, 0, lambda _, key=key: key)
    made = []
    for key in ("a", "c", "b"):
        shelf.get(key, 0, lambda _, key=key: made.append(key))
    assert made == ["b"]


def test_a_making_that_fails_is_tried_again():
    shelf = Shelf(2)

    def fail(_):
        raise OSError("gone")

    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            shelf.get("a", 0, fail)
    assert shelf.get("a", 0, lambda before: before) is None


def test_those_who_ask_meanwhile_wait_for_one_making_and_no_more_than_may():
    shelf, began, go_on, made, found = Shelf(2, waiting=1), Event(), Event(), [], []

    def make(_):
        made.append(1)
        began.set()
        assert go_on.wait(60)
        return "made"

    def ask():
        found.append(shelf.get("a", 0, make))

    threads = [Thread(target=ask), Thread(target=ask)]
    threads[0].start()
    assert began.wait(60)
    threads[1].start()
    while shelf._waiting["a"] < 2:
        pass
    with pytest.raises(Busy):
        shelf.get("a", 0, make)
    assert shelf.get("b", 0, lambda _: "another") == "another"  # nobody waits for what others make
    go_on.set()
    for thread in threads:
        thread.join()
    assert (found, made) == (["made", "made"], [1])
    assert shelf.get("a", 0, make) == "made"
