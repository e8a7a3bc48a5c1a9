"""Each rule of a submission names the path, the rule, and what to do; and what keeps the rules passes."""

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from opd.protocol.patches.patch import derive
from opd.protocol.patches.refusals import Refused, Rule
from opd.protocol.patches.source import SourceFile, Tree, write
from opd.protocol.patches.surface import check
from opd.records.tasks import Surface

SURFACE = Surface(
    editable=("src/**", "recipes/*.toml", "run.sh"),
    frozen=("src/frozen/**",),
    suffixes=(".py", ".toml", ".sh"),
    largest_patch_bytes=20_000,
    largest_file_bytes=5_000,
)
BASE: Tree = {
    PurePosixPath(name): SourceFile(content=content, executable=name == "run.sh")
    for name, content in {
        "run.sh": b"true\n",
        "notes.md": b"notes\n",
        "src/a.py": b"a = 1\n",
        "src/long.py": b"a = 1\n" * 1_000,
        "src/latin.py": b"# caf\xe9\na = 1\n",
        "src/picture.dat": b"\x89PNG\0\0",
        "src/frozen/judge.py": b"verdict = 0\n",
        "src/frozen/jury.py": b"verdict = 0\n",
        "src/.gitignore": b"*.log\n",
        "recipes/tiny.toml": b"lr = 1\n",
        "recipes/deep/tiny.toml": b"lr = 1\n",
    }.items()
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace to work in."""
    write(BASE, tmp_path / "workspace")
    return tmp_path / "workspace"


def refused(patch: bytes, base: Tree = BASE, surface: Surface = SURFACE) -> list[tuple[str, Rule]]:
    found = check(patch, base, surface)
    for one in found:
        assert one.sentence.startswith(one.path) or not one.path.isprintable()
        assert str(one.rule) in one.sentence
        assert one.remedy
    return sorted((one.path, one.rule) for one in found)


def put(name: str, content: bytes, mode: int = 0o644) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)

    return edit


def gone(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


ALLOWED = {
    "an edit": put("src/a.py", b"a = 2\n"),
    "a new file in a new folder": put("src/new/room/b.py", b"b = 1\n"),
    "a script": put("run.sh", b"false\n", 0o755),
    "a mode": put("src/a.py", b"a = 1\n", 0o755),
    "a file that goes": gone("src/a.py"),
    "a binary file that goes": gone("src/picture.dat"),
    "an empty file": put("src/__init__.py", b""),
    "a file at the limit": put("src/b.py", b"#" * 4_999 + b"\n"),
    "an edit of a file that was beyond the limit": put("src/long.py", b"a = 2\n" * 1_000),
    "an edit of a file that was no UTF-8": put("src/latin.py", b"# caf\xe9\na = 2\n"),
    "a recipe": put("recipes/mine.toml", b"lr = 2\n"),
    "a unicode name": put("src/größe.py", b"b = 1\n"),
}


@pytest.mark.parametrize("edit", ALLOWED.values(), ids=ALLOWED)
def test_what_keeps_the_rules_passes(workspace, edit):
    edit(workspace)
    derived = derive(workspace, BASE)
    assert derived.patch
    assert derived.refusals == ()
    assert refused(derived.patch) == []


REFUSED = {
    "a file outside": (put("notes.md", b"other\n"), "notes.md", Rule.SURFACE),
    "a new file outside": (put("sitecustomize.py", b"x = 1\n"), "sitecustomize.py", Rule.SURFACE),
    "a folder that a star does not reach": (
        put("recipes/deep/tiny.toml", b""),
        "recipes/deep/tiny.toml",
        Rule.SURFACE,
    ),
    "a frozen file": (put("src/frozen/judge.py", b"verdict = 1\n"), "src/frozen/judge.py", Rule.SURFACE),
    "a frozen file that goes": (gone("src/frozen/judge.py"), "src/frozen/judge.py", Rule.SURFACE),
    "a mode of a frozen file": (
        lambda root: (root / "src/frozen/judge.py").chmod(0o755),
        "src/frozen/judge.py",
        Rule.SURFACE,
    ),
    "attributes": (put("src/.gitattributes", b"* text\n"), "src/.gitattributes", Rule.GIT_FILE),
    "ignored names": (put("src/.gitignore", b"*\n"), "src/.gitignore", Rule.GIT_FILE),
    "modules": (put("src/.GitModules", b""), "src/.GitModules", Rule.GIT_FILE),
    "a folder of git's": (put("src/.github/a.py", b""), "src/.github/a.py", Rule.GIT_FILE),
    "weights": (put("src/w.safetensors", b"x"), "src/w.safetensors", Rule.WEIGHTS),
    "weights under another name": (put("src/w.py", b"GGUF and more"), "src/w.py", Rule.WEIGHTS),
    "bytecode": (put("src/__pycache__/a.pyc", b"\0"), "src/__pycache__/a.pyc", Rule.COMPILED),
    "data": (put("src/rows.py", b'{"problem": 1}\n' * 60), "src/rows.py", Rule.DATA),
    "an ending that is no source's": (put("src/rows.jsonl", b""), "src/rows.jsonl", Rule.SUFFIX),
    "no ending": (put("src/Makefile", b"all:\n"), "src/Makefile", Rule.SUFFIX),
    "a binary file": (put("src/b.py", b"\0\1"), "src/b.py", Rule.TEXT),
    "bytes that are no UTF-8": (put("src/b.py", b"# caf\xe9\n"), "src/b.py", Rule.TEXT),
    "a file over its size": (put("src/b.py", b"#" * 5_000 + b"\n"), "src/b.py", Rule.FILE_SIZE),
    "a file that grows over its size": (put("src/long.py", b"a = 1\n" * 1_001), "src/long.py", Rule.FILE_SIZE),
    "another case": (put("src/A.py", b"b = 1\n"), "src/A.py", Rule.CASE),
    "a folder in another case": (put("src/Frozen/b.py", b"b = 1\n"), "src/Frozen/b.py", Rule.CASE),
}


@pytest.mark.parametrize(("edit", "path", "rule"), REFUSED.values(), ids=REFUSED)
def test_what_breaks_a_rule_is_refused_by_path_and_rule(workspace, edit, path, rule):
    edit(workspace)
    derived = derive(workspace, BASE)
    assert derived.refusals == ()
    assert refused(derived.patch) == [(path, rule)]


def test_accents_that_are_composed_in_two_ways_are_one_name(workspace):
    put("src/caf\u00e9.py", b"a = 1\n")(workspace)
    put("src/cafe\u0301.py", b"b = 1\n")(workspace)
    assert [rule for _, rule in refused(derive(workspace, BASE).patch)] == [Rule.CASE, Rule.CASE]


def test_all_reasons_are_said_at_once(workspace):
    put("notes.md", b"other\n")(workspace)
    put("src/.gitignore", b"*\n")(workspace)
    put("src/frozen/w.pt", b"x")(workspace)
    assert refused(derive(workspace, BASE).patch) == [
        ("notes.md", Rule.SURFACE),
        ("src/.gitignore", Rule.GIT_FILE),
        ("src/frozen/w.pt", Rule.SURFACE),
        ("src/frozen/w.pt", Rule.WEIGHTS),
    ]


def test_a_patch_over_its_size_is_refused(workspace):
    for number in range(10):
        put(f"src/{number}.py", b"# a line\n" * 300)(workspace)
    assert refused(derive(workspace, BASE).patch) == [("", Rule.PATCH_SIZE)]


def test_nothing_changed_is_a_reason_of_its_own(workspace):
    assert refused(derive(workspace, BASE).patch) == [("", Rule.CHANGED)]


def section(name: str, mode: str) -> bytes:
    blob = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d"
    return (
        f"diff --git a/{name} b/{name}\nnew file mode {mode}\nindex {'0' * 40}..{blob}\n"
        f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+1\n"
    ).encode()


def mode_of(name: str) -> bytes:
    """A file becomes executable; its name is written byte by byte."""
    octal = "".join(f"\\{byte:03o}" for byte in name.encode())
    return f'diff --git "a/{octal}" "b/{octal}"\nold mode 100644\nnew mode 100755\n'.encode()


@pytest.mark.parametrize(
    ("name", "mode", "rule"),
    [
        ("src/b.py", "120000", Rule.MODE),
        ("src/b.py", "160000", Rule.MODE),
        ("src/b.py", "100664", Rule.MODE),
        ("src/b.py", "104755", Rule.MODE),
        ("src/b.py", "040000", Rule.MODE),
        ("src/../../b.py", "100644", Rule.PATH),
        ("../b.py", "100644", Rule.PATH),
        ("/b.py", "100644", Rule.PATH),
        ("src//b.py", "100644", Rule.PATH),
        ("src/./b.py", "100644", Rule.PATH),
        ("src/b.py/", "100644", Rule.PATH),
        ("src/.git/hooks/a.py", "100644", Rule.GIT_FILE),
    ],
)
def test_a_patch_that_was_written_by_hand_is_judged_by_what_it_says(name, mode, rule):
    assert [found for _, found in refused(section(name, mode))] == [rule]


def test_a_name_with_a_zero_byte_is_no_path():
    assert refused(mode_of("src/a.py\0.md")) == [("src/a.py\0.md", Rule.PATH)]


def test_a_binary_section_is_refused_before_it_is_unfolded():
    head = section("src/b.py", "100644").partition(b"--- ")[0]
    assert refused(head + b"GIT binary patch\nliteral 9\nno base 85\n\n") == [("src/b.py", Rule.TEXT)]


def test_a_patch_that_is_none_or_does_not_fit_is_refused_with_its_reason():
    assert refused(b"words\n") == [("", Rule.FORM)]
    assert refused(section("src/a.py", "100644")) == [("", Rule.APPLIES)]


def test_a_reason_is_one_line_of_plain_characters_whatever_the_name():
    name = "notes\n\x1b[2J\u202e\u200b.md"
    (outside,) = check(mode_of(name), BASE, SURFACE)
    assert outside.path == name
    assert outside.sentence.isprintable()
    assert outside.sentence.startswith(r"notes\n\x1b[2J\u202e\u200b.md: ")
    words = b"diff --git a/\x1b[2J b/\x1b[2J\nwords\n"
    (form,) = check(words, BASE, SURFACE)
    assert form.sentence.isprintable()


def test_an_error_says_the_first_reasons_and_keeps_all():
    reasons = [one for name in "abcdefg" for one in check(section(f"{name}.md", "100644"), BASE, SURFACE)]
    error = Refused(reasons)
    assert len(error.refusals) == len(reasons) > 5
    assert "a.md" in str(error)
    assert str(error).endswith(f"and {len(reasons) - 5} more")
    assert "\n" not in str(error)
