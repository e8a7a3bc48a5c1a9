"""A patch as lines, against the two texts that it was made from."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from opd.view.attempts.patch import LONGEST, Mark, changed_files

LINES = st.lists(
    st.sampled_from(
        ["", "a", "b", "-- a", "++ b", "@@ -1 +1 @@", "diff --git a/x b/x", "\\ No newline", "index 1..2"]
    )
)


@given(LINES, LINES)
def test_every_line_has_the_number_and_the_text_that_it_has_in_its_file(before: list[str], after: list[str]) -> None:
    """The lines look like a patch's own headers: what they are follows from the counts alone."""
    body = "\n".join(difflib.unified_diff(before, after, "a/f", "b/f", n=1, lineterm=""))
    files = changed_files(f"diff --git a/f b/f\nindex 1..2 100644\n{body}\n")
    assert [one.path for one in files] == ["f"]
    lines = files[0].lines
    assert all(line.text == before[line.before - 1] for line in lines if line.before is not None)
    assert all(line.text == after[line.after - 1] for line in lines if line.after is not None)
    removed = [line.text for line in lines if line.mark is Mark.REMOVED]
    added = [line.text for line in lines if line.mark is Mark.ADDED]
    kept = [line.text for line in lines if line.mark is Mark.BESIDE]
    assert len(before) - len(removed) == len(after) - len(added) >= len(kept)
    assert (files[0].added, files[0].removed) == (len(added), len(removed))


def test_files_follow_each_other_and_what_is_neither_text_nor_header_is_kept() -> None:
    patch = (
        "diff --git a/old name b/new name\nsimilarity index 90%\nrename from old name\nrename to new name\n"
        "diff --git a/x.bin b/x.bin\nGIT binary patch\nliteral 3\nKcmZ\n"
        "diff --git a/run.sh b/run.sh\n--- a/run.sh\n+++ b/run.sh\n"
        "@@ -1 +1,2 @@\n-a\n+b\n+c\n\\ No newline at end of file\n"
    )
    files = changed_files(patch)
    assert [one.path for one in files] == ["new name", "x.bin", "run.sh"]
    assert [line.text for line in files[0].lines] == [
        "similarity index 90%",
        "rename from old name",
        "rename to new name",
    ]
    assert (files[2].added, files[2].removed) == (2, 1)
    signs = "".join(line.sign for line in files[2].lines)
    assert signs == " −++ "


def test_what_is_not_shown_is_counted() -> None:
    long = "".join(f"diff --git a/{name} b/{name}\n@@ -0,0 +1,9 @@\n" + "+x\n" * 9 for name in "abc")
    files = changed_files(long, most=15)
    assert [len(one.lines) for one in files] == [10, 5, 0]
    assert [one.left_out for one in files] == [0, 5, 10]
    (line,) = changed_files("diff --git a/a b/a\n@@ -0,0 +1 @@\n+" + "x" * 9_999)[0].lines[1:]
    assert len(line.text) == LONGEST


def test_a_patch_of_nothing_has_no_files_and_a_broken_one_is_shown_as_it_is() -> None:
    assert changed_files("") == ()
    (only,) = changed_files("what is this\n@@ -1,99999 +1 @@\n+a")
    assert [line.text for line in only.lines] == ["what is this", "@@ -1,99999 +1 @@", "a"]
