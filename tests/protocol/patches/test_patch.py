"""A patch gives exactly the workspace again, or it is refused; git's own ways are shown beside, as measured."""

import base64
import os
import random
import re
import resource
import shutil
import stat
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from opd.protocol.patches.objects import GitFailed, store
from opd.protocol.patches.patch import apply, checkout, derive, prove
from opd.protocol.patches.refusals import Refused, Rule
from opd.protocol.patches.sections import sections_of
from opd.protocol.patches.source import SourceFile, Tree, digest_of, write
from opd.protocol.patches.workspace import lay_out
from opd.records.errors import AnswerIsNo

BINARY = bytes(range(256)) * 8


def tree_of(files: dict[str, bytes], *, executable: tuple[str, ...] = ()) -> Tree:
    return {
        PurePosixPath(name): SourceFile(content=content, executable=name in executable)
        for name, content in files.items()
    }


BASE = tree_of(
    {
        "run.sh": b"#!/usr/bin/env bash\npython -m opd train\n",
        "src/long.py": "".join(f"line_{number} = {number}\n" for number in range(60)).encode(),
        "src/crlf.py": b"one = 1\r\ntwo = 2\r\nthree = 3\r\n",
        "src/lf.py": b"one = 1\ntwo = 2\nthree = 3\n",
        "src/latin.py": b"# caf\xe9\nname = 1\n",
        "src/no_end.py": b"name = 1",
        "src/empty.py": b"",
        "src/data.dat": BINARY,
        "src/room/a.py": b"a = 1\n",
        "src/room/b.py": b"b = 1\n",
    },
    executable=("run.sh",),
)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace as an explorer finds it; for copies."""
    folder = tmp_path_factory.mktemp("laid_out") / "workspace"
    lay_out(BASE, folder)
    return folder


@pytest.fixture
def workspace(laid_out: Path, tmp_path: Path) -> Path:
    """A workspace to work in."""
    return Path(shutil.copytree(laid_out, tmp_path / "workspace"))


def on_disk(folder: Path) -> dict[bytes, tuple[bool, bytes]]:
    """Every file but those of the repository, read without anything of the code under test."""
    found = {}
    for path in folder.rglob("*"):
        if path.relative_to(folder).parts[0] != ".git" and not path.is_dir():
            mode = path.lstat().st_mode
            assert stat.S_ISREG(mode), path
            found[os.fsencode(path.relative_to(folder))] = bool(mode & 0o100), path.read_bytes()
    return found


def git(folder: Path, *arguments: str, stdin: bytes = b"", ok: bool = True) -> subprocess.CompletedProcess[bytes]:
    """git as people have it, in a folder of its own."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(folder)}
    who = [word for key in ("name", "email") for word in ("-c", f"user.{key}=x")]
    ended = subprocess.run(
        ["git", *who, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        env=os.environ | settings,
        check=False,
    )
    assert ended.returncode == 0 or not ok, ended.stderr
    return ended


def plain(folder: Path) -> Path:
    """The base in a folder without a repository, for `git apply` to work in."""
    write(BASE, folder)
    return folder


def put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def replace(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def swap_file_for_folder(root: Path) -> None:
    (root / "src/lf.py").unlink()
    put(root / "src/lf.py/inside.py", b"inside = 1\n")


def swap_folder_for_file(root: Path) -> None:
    shutil.rmtree(root / "src/room")
    put(root / "src/room", b"room = 1\n")


def odd_name(name: bytes) -> Callable[[Path], None]:
    return lambda root: put(root / os.fsdecode(name), b"odd = 1\n")


EDITS: dict[str, Callable[[Path], None]] = {
    "a line": lambda root: replace(root / "src/long.py", b"line_30 = 30", b"line_30 = 31"),
    "a binary file changes": lambda root: put(root / "src/data.dat", BINARY[::-1]),
    "a binary file goes": lambda root: (root / "src/data.dat").unlink(),
    "a binary file comes": lambda root: put(root / "src/new.dat", b"\0\1\2" * 999),
    "a line of a file with CR LF": lambda root: replace(root / "src/crlf.py", b"two = 2", b"two = 22"),
    "all lines from LF to CR LF": lambda root: replace(root / "src/lf.py", b"\n", b"\r\n"),
    "all lines from CR LF to LF": lambda root: replace(root / "src/crlf.py", b"\r\n", b"\n"),
    "lone CR, form feed, vertical tab": lambda root: put(root / "src/odd.py", b"a = 1\r\rb\fc\vd\n\n\r"),
    "executable": lambda root: (root / "src/lf.py").chmod(0o755),
    "no longer executable": lambda root: (root / "run.sh").chmod(0o644),
    "mode and content": lambda root: put(root / "src/lf.py", b"one = 11\n", 0o755),
    "an empty file comes": lambda root: put(root / "src/nothing.py", b""),
    "an empty executable file comes": lambda root: put(root / "src/nothing.sh", b"", 0o755),
    "an empty file goes": lambda root: (root / "src/empty.py").unlink(),
    "a file becomes empty": lambda root: put(root / "src/lf.py", b""),
    "an end of line comes": lambda root: put(root / "src/no_end.py", b"name = 1\n"),
    "an end of line goes": lambda root: put(root / "src/lf.py", b"one = 1\ntwo = 2\nthree = 3"),
    "a line in bytes that are no UTF-8": lambda root: replace(root / "src/latin.py", b"name", b"\xff\xfe name"),
    "white space alone": lambda root: replace(root / "src/lf.py", b"two = 2", b"two\t=  2  "),
    "blank lines at the end": lambda root: replace(root / "src/lf.py", b"three = 3\n", b"three = 3\n\n\n\n"),
    "lines that look like a patch": lambda root: put(
        root / "src/lf.py", b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-- \nGIT binary patch\n"
    ),
    "a unicode name": odd_name("src/größe_数.py".encode()),
    "a name that is no UTF-8": odd_name(b"src/caf\xe9.py"),
    "a name with a line end": odd_name(b"src/two\nlines.py"),
    "a name with quotes and backslashes": odd_name(rb'src/"a"\t\'b\'.py'),
    "a name with a tab": odd_name(b"src/a\tb.py"),
    "a name that begins with dashes": odd_name(b"--output=x.py"),
    "a name with blanks around": odd_name(b"src/ a.py "),
    "a name like a header": odd_name(b"src/x b/src/x"),
    "a name of nothing but control characters": odd_name(b"src/\x01\x7f\r"),
    "a folder goes": lambda root: shutil.rmtree(root / "src/room"),
    "a file becomes a folder": swap_file_for_folder,
    "a folder becomes a file": swap_folder_for_file,
    "a file moves": lambda root: (root / "src/long.py").rename(root / "src/moved.py"),
    "names that differ in case": lambda root: put(root / "src/LF.py", b"other = 1\n"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_base_and_patch_are_the_workspace_byte_for_byte_and_mode_for_mode(tmp_path, workspace, edit):
    edit(workspace)
    changed = on_disk(workspace)
    assert changed != on_disk(plain(tmp_path / "base"))
    derived = derive(workspace, BASE)
    assert derived.refusals == ()
    assert all(line.isascii() for line in derived.patch.split(b"\n") if line.startswith(b"diff --git "))
    checkout(derived.patch, BASE, tmp_path / "checkout")
    assert on_disk(tmp_path / "checkout") == changed
    assert prove(derived.patch, BASE, workspace) == ()
    git(tmp_path / "base", "apply", "-", stdin=derived.patch)  # and so it is for anyone who has git
    assert on_disk(tmp_path / "base") == changed


def test_an_unchanged_workspace_is_an_empty_patch_which_gives_the_base(tmp_path, workspace):
    derived = derive(workspace, BASE)
    assert (derived.patch, derived.refusals) == (b"", ())
    assert apply(b"", BASE) == BASE
    assert checkout(b"", BASE, tmp_path / "checkout") == digest_of(BASE)
    assert on_disk(tmp_path / "checkout") == on_disk(workspace)


def test_the_same_change_is_the_same_patch_whatever_else_happened_in_the_workspace(tmp_path, workspace):
    put(workspace / "src/new.dat", b"\0" * 5000)
    first = derive(workspace, BASE).patch
    git(workspace, "add", "-A")
    git(workspace, "commit", "-m", "mine")
    os.utime(workspace / "src/new.dat", (1, 1))
    (workspace / "src/long.py").chmod(0o600)  # the umask's bits are not git's
    assert derive(workspace, BASE).patch == first


def test_a_plain_diff_of_a_binary_file_does_not_apply_and_a_derived_one_does(tmp_path, workspace):
    put(workspace / "src/data.dat", b"\0other")
    careless = git(workspace, "diff").stdout
    refused = git(plain(tmp_path / "base"), "apply", "-", stdin=careless, ok=False)
    assert b"without full index line" in refused.stderr
    with pytest.raises(Refused) as caught:
        apply(careless, BASE)
    assert caught.value.refusals[0].rule is Rule.FORM
    assert apply(derive(workspace, BASE).patch, BASE)[PurePosixPath("src/data.dat")].content == b"\0other"


def test_a_file_that_the_workspace_ignores_is_carried(workspace):
    put(workspace / ".gitignore", b"*.log\n/src/secret.py\n")
    put(workspace / "src/secret.py", b"secret = 1\n")
    put(workspace / ".git/info/exclude", b"*\n")
    git(workspace, "add", "-A")
    assert b"secret" not in git(workspace, "diff", "--cached").stdout, "git would have left it out"
    made = apply(derive(workspace, BASE).patch, BASE)
    assert made[PurePosixPath("src/secret.py")].content == b"secret = 1\n"


def test_attributes_of_the_workspace_change_no_byte(tmp_path, workspace):
    attributes = b"* text eol=crlf ident whitespace=trailing-space diff=evil\nsrc/data.dat -diff -text\n"
    put(workspace / ".gitattributes", attributes)
    put(workspace / ".git/info/attributes", attributes)
    put(workspace / "src/lf.py", b"one = 1\r\ntwo = '$Id: mine $'\nthree = 3 \n")
    put(workspace / "src/data.dat", BINARY[::-1])
    git(workspace, "add", "-A")
    assert git(workspace, "show", ":src/lf.py").stdout != (workspace / "src/lf.py").read_bytes(), "git would bend it"
    derived = derive(workspace, BASE)
    checkout(derived.patch, BASE, tmp_path / "checkout")
    assert on_disk(tmp_path / "checkout") == on_disk(workspace)


def test_nothing_of_the_workspaces_repository_is_run_or_believed(tmp_path, workspace):
    replace(workspace / "src/lf.py", b"two = 2", b"two = 3")
    expected = derive(workspace, BASE).patch
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    put(program, f"#!/bin/sh\ntouch '{ran}'\ncat\n".encode(), 0o755)
    keys = ["core.fsmonitor", "core.pager", "core.editor", "diff.external", "diff.evil.command", "diff.evil.textconv"]
    for key in [*keys, "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.sshCommand"]:
        git(workspace, "config", key, str(program))
    git(workspace, "config", "core.hooksPath", str(tmp_path))
    git(workspace, "config", "core.worktree", str(tmp_path))
    git(workspace, "config", "diff.noprefix", "true")
    put(workspace / ".git/hooks/post-index-change", program.read_bytes(), 0o755)
    put(workspace / ".git/objects/info/alternates", b"/nonexistent\n")
    git(workspace, "-c", "core.worktree=.", "status", ok=False)
    assert ran.exists(), "git itself runs what the configuration names"
    ran.unlink()
    assert derive(workspace, BASE).patch == expected
    assert prove(expected, BASE, workspace) == ()
    shutil.rmtree(workspace / ".git")
    assert derive(workspace, BASE).patch == expected
    (workspace / ".git").symlink_to(tmp_path)
    assert derive(workspace, BASE).patch == expected
    assert not ran.exists()


def test_the_environment_of_the_caller_does_not_reach_git(tmp_path, workspace, monkeypatch):
    replace(workspace / "src/lf.py", b"two = 2", b"two = 3")
    expected = derive(workspace, BASE).patch
    put(
        tmp_path / "config",
        b"[diff]\n\tnoprefix = true\n\trenames = copies\n\tcontext = 9\n[core]\n\tautocrlf = true\n",
    )
    put(tmp_path / "home/.gitconfig", b"[core]\n\tattributesFile = /nonexistent\n")
    for name, value in {
        "GIT_CONFIG_GLOBAL": str(tmp_path / "config"),
        "HOME": str(tmp_path / "home"),
        "GIT_DIR": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_EXTERNAL_DIFF": "/bin/false",
        "GIT_OBJECT_DIRECTORY": "/nonexistent",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_DIFF_OPTS": "-u1",
        "LC_ALL": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    assert derive(workspace, BASE).patch == expected
    assert apply(expected, BASE)[PurePosixPath("src/lf.py")].content == b"one = 1\ntwo = 3\nthree = 3\n"


# --- patches that came another way ---


@pytest.fixture
def patch(workspace: Path) -> bytes:
    """Four sections: a changed file of CR LF, two hunks, a mode, a new file without a last line end."""
    replace(workspace / "src/crlf.py", b"two = 2", b"two = 22")
    replace(workspace / "src/long.py", b"line_5 =", b"five =")
    replace(workspace / "src/long.py", b"line_50 =", b"fifty =")
    (workspace / "run.sh").chmod(0o644)
    put(workspace / "src/new.py", b"new = 1\nlast = 2")
    return derive(workspace, BASE).patch


def rules(patch: bytes, base: Tree = BASE) -> set[Rule]:
    with pytest.raises(Refused) as caught:
        apply(patch, base)
    assert str(caught.value)
    return {one.rule for one in caught.value.refusals}


def test_a_patch_that_was_sent_as_text_with_cr_lf_is_refused_by_name(tmp_path, patch):
    sent = patch.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    folder = plain(tmp_path / "base")
    assert git(folder, "apply", "--check", "-", stdin=sent, ok=False).returncode != 0
    lenient = git(folder, "apply", "--ignore-whitespace", "-", stdin=sent, ok=False)
    if lenient.returncode == 0:  # as measured: it "succeeds", and the source has line ends that nobody wrote
        assert b"\r" in (folder / "src/long.py").read_bytes()
    assert rules(sent) == {Rule.TRANSPORT}


def test_a_patch_that_lost_its_last_line_end_is_refused_by_name(patch):
    """faults H30: bytes, one applier, no second way."""
    assert rules(patch.rstrip(b"\n")) == {Rule.TRANSPORT}


def test_a_patch_that_is_cut_off_anywhere_is_refused_or_is_whole_sections(patch):
    sections = [found.start() for found in re.finditer(rb"^diff --git ", patch, re.MULTILINE)]
    ends = [found.end() for found in re.finditer(rb"\n", patch)]
    assert len(sections) == 4
    for end in ends[:-1]:
        if end in sections:
            apply(patch[:end], BASE)  # nothing tells it from a smaller patch, but the digest that is sealed
        else:
            assert rules(patch[:end]) <= {Rule.FORM, Rule.TRANSPORT, Rule.APPLIES}, patch[:end]
    for end in range(1, len(patch)):
        if end not in ends:
            assert rules(patch[:end]) <= {Rule.TRANSPORT, Rule.FORM}


def test_a_hunk_that_is_cut_off_is_named_as_such(patch):
    cut = patch[: patch.rindex(b"+last")]
    with pytest.raises(Refused, match="1 lines too early") as caught:
        apply(cut, BASE)
    assert caught.value.refusals[0].rule is Rule.TRANSPORT


def test_a_patch_for_another_base_is_refused_though_git_would_move_it(tmp_path, workspace, patch):
    moved = dict(BASE)
    long = BASE[PurePosixPath("src/long.py")].content
    moved[PurePosixPath("src/long.py")] = SourceFile(content=b"# above\n" * 7 + long)
    write(moved, tmp_path / "moved")
    assert b"offset 7 lines" in git(tmp_path / "moved", "apply", "--verbose", "-", stdin=patch).stderr
    assert rules(patch, moved) == {Rule.APPLIES}
    missing = {path: file for path, file in BASE.items() if path.name != "crlf.py"}
    assert rules(patch, missing) == {Rule.APPLIES}


def test_a_patch_whose_text_was_edited_is_refused_though_git_would_take_it(tmp_path, patch):
    edited = patch.replace(b"+fifty = 50", b"+fifty = 51")
    assert edited != patch
    git(plain(tmp_path / "base"), "apply", "-", stdin=edited)
    assert rules(edited) == {Rule.APPLIES}


def test_hunks_that_are_out_of_place_are_refused_though_git_would_take_them(tmp_path, patch):
    edited = re.sub(rb"@@ -48,7 \+48,7 @@", b"@@ -40,7 +40,7 @@", patch)
    assert edited != patch
    git(plain(tmp_path / "base"), "apply", "-", stdin=edited)
    assert apply(edited, BASE) == apply(patch, BASE), "the ids hold: it is the very same change"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda patch: b"From: someone\n\n" + patch, Rule.FORM),
        (lambda patch: patch + b"-- \n2.39.5\n\n", Rule.FORM),
        (lambda patch: patch + b"trailing words\n", Rule.FORM),
        (lambda patch: patch.replace(b"diff --git a/src/new", b"words\ndiff --git a/src/new"), Rule.FORM),
        (lambda patch: re.sub(rb"index (\w{7})\w*\.\.(\w{7})\w*", rb"index \1..\2", patch), Rule.FORM),
        (lambda patch: patch.replace(b"a/src/", b"src/").replace(b"b/src/", b"src/"), Rule.FORM),
        (lambda patch: patch.replace(b"b/src/new.py", b"b/src/newer.py"), Rule.FORM),
        (lambda patch: patch.replace(b"+++ b/src/new.py", b"+++ b/src/newer.py"), Rule.APPLIES),
        (lambda patch: patch + patch, Rule.APPLIES),
        (lambda patch: b"\xef\xbb\xbf" + patch, Rule.FORM),
        (lambda patch: b"\n", Rule.FORM),
        (lambda patch: b"nothing at all", Rule.FORM),
        (lambda patch: patch.decode("latin-1").encode("utf-16"), Rule.FORM),
    ],
)
def test_what_is_not_gits_own_form_is_refused(patch, change, rule):
    changed = change(patch)
    assert changed != patch
    assert rules(changed) == {rule}


def test_a_rename_is_refused_and_says_how_to_write_it(workspace):
    git(workspace, "mv", "src/long.py", "src/moved.py")
    renamed = git(workspace, "diff", "--cached", "--binary", "--full-index", "--find-renames").stdout
    assert b"rename from" in renamed
    with pytest.raises(Refused, match="--no-renames"):
        apply(renamed, BASE)


# --- patches that mean harm ---

ONE = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d"  # of b"1\n"


def adding(name: str, *, mode: str = "100644", content: bytes = b"1\n", blob: str = ONE) -> bytes:
    """A section as git would write it, with any name and mode."""
    lines = [
        f"diff --git a/{name} b/{name}",
        f"new file mode {mode}",
        f"index {'0' * 40}..{blob}",
        "--- /dev/null",
        f"+++ b/{name}",
        "@@ -0,0 +1 @@",
    ]
    return "".join(f"{line}\n" for line in lines).encode() + b"+" + content


def test_a_section_written_by_hand_is_what_git_writes():
    assert apply(adding("src/one.py"), BASE)[PurePosixPath("src/one.py")].content == b"1\n"


@pytest.mark.parametrize(
    "name",
    ["../x", "src/../../x", "/x", "src//x", "./x", "src/./x", ".git/hooks/pre-commit", "src/.git/config", ".GIT/x"],
)
def test_a_path_that_leads_out_is_refused(name):
    assert rules(adding(name)) == {Rule.APPLIES}


@pytest.mark.parametrize("name", ["src/lf.py/inside.py", "run.sh/deep/inside.py", "src/room"])
def test_a_file_can_not_be_where_a_folder_is_nor_below_a_file(name):
    assert rules(adding(name)) == {Rule.APPLIES}


def test_a_path_that_git_changes_and_our_reading_of_the_patch_lacks_is_refused(monkeypatch, patch):
    """Whatever git may read differently one day."""
    said = sections_of(patch)
    monkeypatch.setattr("opd.protocol.patches.patch.sections_of", lambda patch: said[:-1])
    assert rules(patch) == {Rule.APPLIES}


def test_a_link_is_refused_though_git_would_make_it(tmp_path):
    link = adding("src/link", mode="120000", content=b"/etc/passwd\n\\ No newline at end of file\n", blob="0" * 40)
    folder = plain(tmp_path / "base")
    git(folder, "apply", "-", stdin=link)
    assert (folder / "src/link").is_symlink()
    (folder / "src/link").unlink()
    blob = git(folder, "hash-object", "--stdin", stdin=b"/etc/passwd").stdout.decode().strip()
    exact = link.replace(b".." + b"0" * 40, b".." + blob.encode())
    assert rules(exact) == {Rule.MODE}


def test_a_file_replaced_by_a_link_is_refused(tmp_path):
    folder = plain(tmp_path / "base")
    git(folder, "init")
    git(folder, "add", "-A")
    (folder / "src/lf.py").unlink()
    (folder / "src/lf.py").symlink_to("/etc/passwd")
    link = git(folder, "diff", "--binary", "--full-index", "--no-renames").stdout
    assert b"new file mode 120000" in link
    assert rules(link) & {Rule.MODE, Rule.APPLIES}


def test_nothing_is_written_through_a_link_of_the_same_patch(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    place = str(outside).encode()
    link = adding("src/door", mode="120000", content=place + b"\n\\ No newline at end of file\n")
    through = link + adding("src/door/evil.py")
    assert Rule.APPLIES in rules(through)
    with pytest.raises(Refused):
        checkout(through, BASE, tmp_path / "checkout")
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "checkout").exists()


def test_a_submodule_is_refused():
    module = adding("src/module", mode="160000", content=b"Subproject commit " + b"1" * 40 + b"\n", blob="1" * 40)
    assert rules(module) & {Rule.MODE, Rule.APPLIES}


def test_a_patch_that_unfolds_to_more_memory_than_it_may_is_refused_at_once():
    size = 512 << 20

    def number(value: int) -> bytes:
        digits = []
        while value >= 0x80:
            digits.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*digits, value])

    copy = b"\x80"  # copy 65,536 bytes from the beginning
    delta = number(len(BINARY)) + number(size) + copy * (size >> 16)
    bomb = section_of_delta(delta)
    assert len(bomb) < 1_000
    with pytest.raises(Refused, match="over limit"):
        apply(bomb, BASE)


def section_of_delta(delta: bytes) -> bytes:
    """A binary section whose forward half is this delta."""
    blob = subprocess.run(
        ["git", "hash-object", "--stdin"], input=BINARY, capture_output=True, check=True
    ).stdout.decode()
    packed = zlib.compress(delta, 9)
    lines = []
    for start in range(0, len(packed), 52):
        piece = packed[start : start + 52]
        length = chr(ord("A") + len(piece) - 1) if len(piece) <= 26 else chr(ord("a") + len(piece) - 27)
        lines.append(length.encode() + base64.b85encode(piece, pad=True) + b"\n")
    header = f"diff --git a/src/data.dat b/src/data.dat\nindex {blob.strip()}..{ONE} 100644\nGIT binary patch\n"
    return header.encode() + b"delta %d\n" % len(delta) + b"".join(lines) + b"\nliteral 0\nHcmV?d00001\n\n"


def test_a_disk_that_is_full_is_not_the_fault_of_the_patch(tmp_path, full_disk):
    new = {PurePosixPath("src/new.py"): SourceFile(content=random.Random(1).randbytes(5_000).hex().encode())}
    write({**BASE, **new}, tmp_path / "workspace")
    patch = derive(tmp_path / "workspace", BASE).patch
    with store() as objects:
        tree = objects.put(BASE)
        with full_disk(2_000), pytest.raises(GitFailed):  # the index has room, the new file has none
            objects.apply(patch, tree)
    assert apply(patch, BASE) == {**BASE, **new}


def test_a_delta_written_by_hand_is_one_that_git_unfolds():
    """So that the bomb above is refused for its size, and not for its form."""
    delta = bytes([0x80 | len(BINARY) & 0x7F, len(BINARY) >> 7, 2]) + b"\x021\n"
    assert apply(section_of_delta(delta), BASE)[PurePosixPath("src/data.dat")].content == b"1\n"


# --- proof and checkout ---


def test_what_is_written_after_the_patch_was_derived_is_named(workspace):
    replace(workspace / "src/lf.py", b"two", b"zwei")
    patch = derive(workspace, BASE).patch
    replace(workspace / "src/lf.py", b"zwei", b"deux")
    (workspace / "run.sh").chmod(0o644)
    (workspace / "src/empty.py").unlink()
    put(workspace / "src/late.py", b"late = 1\n")
    found = prove(patch, BASE, workspace)
    assert {one.path for one in found} == {"src/lf.py", "run.sh", "src/empty.py", "src/late.py"}
    assert {one.rule for one in found} == {Rule.REPRODUCES}


def test_a_patch_that_leaves_a_file_out_is_not_the_workspace(workspace, patch):
    start = patch.index(b"diff --git a/src/new.py")
    assert [one.path for one in prove(patch[:start], BASE, workspace)] == ["src/new.py"]


def test_a_checkout_is_refused_before_it_is_written_when_its_digest_is_not_the_recorded_one(tmp_path, patch):
    digest = digest_of(apply(patch, BASE))
    other = {**BASE, PurePosixPath("src/empty.py"): SourceFile(content=b"", executable=True)}
    with pytest.raises(AnswerIsNo, match="was recorded"):
        checkout(patch, other, tmp_path / "no", tree_sha256=digest)
    assert not (tmp_path / "no").exists()
    assert checkout(patch, BASE, tmp_path / "yes", tree_sha256=digest) == digest
    assert not (tmp_path / "yes/.git").exists()


def test_two_checkouts_are_the_same_tree_whatever_the_umask(tmp_path, patch):
    first = checkout(patch, BASE, tmp_path / "first")
    before = os.umask(0o077)
    try:
        assert checkout(patch, BASE, tmp_path / "second") == first
    finally:
        os.umask(before)


def test_ten_thousand_files_take_less_than_three_seconds(tmp_path):
    base = tree_of({f"src/{number % 100}/{number}.py": b"name = %d\n" % number * 40 for number in range(10_000)})
    write(base, tmp_path / "workspace")
    for number in range(0, 10_000, 100):
        replace(tmp_path / f"workspace/src/{number % 100}/{number}.py", b"name", b"other")
    began = processor_seconds()
    derived = derive(tmp_path / "workspace", base)
    assert prove(derived.patch, base, tmp_path / "workspace") == ()
    assert processor_seconds() - began < 3
    assert derived.patch.count(b"diff --git") == 100


def processor_seconds() -> float:
    """Of this process and of those that it started: how busy the machine is doesn't matter."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


# --- any edits at all ---

NAMES = st.lists(
    st.binary(min_size=1, max_size=5).filter(
        lambda name: not {0, ord("/")} & set(name) and name not in {b".", b".."} and name.lower() != b".git"
    ),
    min_size=1,
    max_size=3,
).map(lambda parts: os.fsdecode(b"/".join(parts)))
CONTENTS = st.one_of(
    st.binary(max_size=80),
    st.lists(st.sampled_from([b"a", b"b", b"", b" a", b"\r", b"\xff", b"-- "]), max_size=12).map(b"\n".join),
)
FILES = st.dictionaries(NAMES, st.tuples(CONTENTS, st.booleans()), max_size=6)


def without_conflicts(files: dict[str, tuple[bytes, bool]]) -> Tree:
    """Those files of which none lies below another one."""
    paths = {PurePosixPath(name): value for name, value in files.items()}
    return {
        path: SourceFile(content=content, executable=executable)
        for path, (content, executable) in paths.items()
        if not paths.keys() & set(path.parents)
    }


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=FILES, after=FILES, kept=st.randoms(use_true_random=False))
def test_any_tree_becomes_any_other_by_the_patch_between_them(tmp_path_factory, before, after, kept):
    base = without_conflicts(before)
    changed = without_conflicts({**{name: before[name] for name in before if kept.random() < 0.5}, **after})
    folder = tmp_path_factory.mktemp("any")
    write(changed, folder / "workspace")
    derived = derive(folder / "workspace", base)
    assert derived.refusals == ()
    assert apply(derived.patch, base) == changed
    assert prove(derived.patch, base, folder / "workspace") == ()
