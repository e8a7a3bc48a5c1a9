"""What the documentation says can be followed: links lead somewhere, snippets are code, verbs exist.

A fenced block is checked by the language that it names: python is compiled and its imports from `opd` are
looked up; toml and json are parsed; in bash, sh, shell and console every `opd …` and `./dev …` is looked up,
flags and all, and so is every file of this checkout that a command names. A block without a language is a
picture.
"""

import ast
import doctest
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from opd.cli.main import opd
from opd.records.metrics import StepMetrics

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md", "examples/**/*.md")
SHELLS = {"bash", "console", "sh", "shell"}
OURS = re.compile(r"(?:benchmarks|docs|examples|recipes|src|tests)/[\w./-]+")

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=indent)(?P=ticks) *$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|\b(?:src|href)=\"([^\"]+)\"|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE
)
SPAN = re.compile(r"`((?:opd|\./dev) [^`\n]+)`")
NAMED = re.compile(r"((?:`\w+`(?:, | and )?)+) in \[[^\]\n]+\]\(([^)\s]+)\)")  # names, and the file that has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    language: str
    body: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, dedented by what the fence is indented."""
    for found in FENCE.finditer(page):
        body = re.sub(rf"^{found['indent']}", "", found["body"], flags=re.MULTILINE)
        yield Block(language=found["language"], body=body, line=page.count("\n", 0, found.start()) + 1)


def prose(page: str) -> str:
    return FENCE.sub("", page)


def anchors(page: str) -> set[str]:
    """Where a `#…` can lead, as GitHub forms it from headings, and every explicit id."""
    titles = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", prose(page), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-") for title in titles]
    return set(plain) | set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", page))


def broken_links(page: str, path: Path) -> Iterator[str]:
    """Relative links of a page that lead nowhere. Those with a scheme are left alone: tests have no network."""
    bare = re.sub(r"`[^`\n]+`", "", prose(page))
    for target in (next(filter(None, groups)) for groups in LINK.findall(bare)):
        file, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = path.parent / file if file else path
        if not there.exists():
            yield f"{target}: there is no {file}"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text(encoding="utf-8")):
            yield f"{target}: {there.name} has no such heading"


def misplaced_names(page: str, path: Path) -> Iterator[str]:
    """Of what a page says to be in a file it links to: the names that the file doesn't have."""
    for names, target in NAMED.findall(prose(page)):
        file = path.parent / target
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        for name in re.findall(r"`(\w+)`", names):
            if not re.search(rf"\b{name}\b", text):
                yield f"{target} has no {name}"


def python_faults(block: Block, root: Path) -> Iterator[str]:
    """What keeps a snippet from being Python, and names that it imports from `opd` and `opd` doesn't have."""
    code = block.body
    if code.lstrip().startswith(">>>"):
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(code))
    try:
        tree = ast.parse(code)
        compile(tree, "snippet", "exec")
    except SyntaxError as error:
        yield f"not Python: {error.msg}, line {error.lineno} of the block"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "opd":
            yield from _missing_names(node, root)


def _missing_names(node: ast.ImportFrom, root: Path) -> Iterator[str]:
    place = root / "src" / str(node.module).replace(".", "/")
    module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not module.is_file():
        yield f"no module {node.module}"
        return
    defined = set(
        re.findall(r"^(?:class |def |async def )?(\w+)", module.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    for alias in node.names:
        if alias.name not in defined and not list(place.glob(f"{alias.name}*")):
            yield f"{node.module} has no {alias.name}"


def commands(block: Block) -> Iterator[list[str]]:
    """The words of every command in a shell block. In a block with prompts, other lines are output."""
    lines = block.body.replace("\\\n", " ").splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set("|&;"):
                words.append(word)
                continue
            while words and re.match(r"\w+=", words[0]):
                del words[0]
            if words:
                yield words
            words = []


def command_faults(words: list[str], *, opd: click.Command, dev_verbs: set[str], root: Path) -> Iterator[str]:
    """What a command line names that is not there: verbs, flags, files. A word like VERB stands for one."""
    program, *rest = words
    if program == "./dev":
        if rest and rest[0] not in dev_verbs and not _is_placeholder(rest[0]):
            yield f"./dev has no verb {rest[0]}"
    elif program.rpartition("/")[2] == "opd":
        yield from _opd_faults(opd, rest)
    for word in words:
        if OURS.fullmatch(word) and not (root / word).exists():
            yield f"there is no {word}"


def _opd_faults(command: click.Command, words: list[str], name: str = "opd") -> Iterator[str]:
    known = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"-h", "--help"}
    for index, word in enumerate(words):
        if word.startswith("-") and word.partition("=")[0] not in known:
            yield f"{name} has no flag {word}"
        if isinstance(command, click.Group) and not word.startswith("-"):
            inner = command.get_command(click.Context(command), word)
            if inner is not None:
                yield from _opd_faults(inner, words[index + 1 :], f"{name} {word}")
            elif not _is_placeholder(word):
                yield f"{name} has no verb {word}"
            return


def _is_placeholder(word: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9-]*", word) is None


@pytest.fixture(scope="module")
def pages(root) -> dict[Path, str]:
    found = {path: path.read_text(encoding="utf-8") for glob in PAGES for path in sorted(root.glob(glob))}
    assert root / "README.md" in found
    return found


@pytest.fixture(scope="module")
def look_up(root) -> Callable[[list[str]], list[str]]:
    usage = subprocess.run([root / "dev"], capture_output=True, text=True, check=True).stdout
    dev_verbs = set(re.findall(r"^  ([a-z]+) {2,}", usage, flags=re.MULTILINE))
    assert {"test", "check"} <= dev_verbs
    return lambda words: list(command_faults(words, opd=opd, dev_verbs=dev_verbs, root=root))


def test_relative_links_lead_somewhere(pages, root):
    found = [
        f"{path.relative_to(root)}: {fault}" for path, page in pages.items() for fault in broken_links(page, path)
    ]
    assert not found, "\n".join(found)


def test_names_stand_in_the_files_that_a_page_gives(pages, root):
    found = [
        f"{path.relative_to(root)}: {fault}" for path, page in pages.items() for fault in misplaced_names(page, path)
    ]
    assert not found, "\n".join(found)


def test_every_key_of_a_line_of_metrics_is_explained(root):
    table = (root / "docs/a-step.md").read_text().partition("| key | what it is |")[2]
    keys = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    assert sorted(re.findall(r"`(\w+)`", keys)) == sorted(StepMetrics.model_fields)


def test_every_page_is_in_the_index(root):
    index = (root / "docs/README.md").read_text(encoding="utf-8")
    pages = {one.name for one in (root / "docs").glob("*.md")} - {"README.md"}
    assert sorted(page for page in pages if f"]({page})" not in index) == []


def test_snippets_of_python_compile_and_import_what_exists(pages, root):
    found = [
        f"{path.relative_to(root)}:{block.line}: {fault}"
        for path, page in pages.items()
        for block in blocks(page)
        if block.language in {"python", "py", "pycon"}
        for fault in python_faults(block, root)
    ]
    assert not found, "\n".join(found)


def test_snippets_of_toml_and_json_parse(pages):
    parsers = {"toml": tomllib.loads, "json": json.loads}
    for path, page in pages.items():
        for block in blocks(page):
            try:
                parsers.get(block.language, str)(block.body)
            except ValueError as error:
                pytest.fail(f"{path.name}:{block.line}: not {block.language}: {error}", pytrace=False)


def test_commands_name_verbs_flags_and_files_that_exist(pages, root, look_up):
    found = []
    for path, page in pages.items():
        lines = [words for block in blocks(page) if block.language in SHELLS for words in commands(block)]
        spans = [span.split()[:2] for span in SPAN.findall(prose(page))]  # in running text the verb alone
        found += [f"{path.relative_to(root)}: {fault}" for words in lines + spans for fault in look_up(words)]
    assert not found, "\n".join(found)


PLANTED = """# Title, with `code`

[good](#title-with-code) [gone](nowhere.md) [astray](other.md#no-such) <img src="no.png"> [web](https://a.example)
`[not](a-link.md)`

```python
from opd.records.files import sha256, sha512
```

  ```bash
  $ LIMIT=3 opd train recipes/none.toml --out X && ./dev polish  # no such verb
  opd is quoted here as output
  $ opd task \\
      build --deep; opd VERB --help
  ```
"""


def test_planted_links_are_followed(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# Such\n")
    page.write_text(PLANTED)
    assert [fault.partition(":")[0] for fault in broken_links(PLANTED, page)] == [
        "nowhere.md",
        "other.md#no-such",
        "no.png",
    ]


def test_planted_names_are_looked_for(tmp_path):
    (tmp_path / "a.cu").write_text("int first(int second);\n")
    page = "`first`, `second` in [a.cu](a.cu), `firs` and `third` in [it](a.cu), `fourth` is in [a.cu](a.cu)"
    assert list(misplaced_names(page, tmp_path / "page.md")) == ["a.cu has no firs", "a.cu has no third"]


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("x = ", ["not Python: invalid syntax, line 1 of the block"]),
        (">>> 1 +\n", ["not Python: invalid syntax, line 1 of the block"]),
        (">>> 1 + 1\n2\n", []),
        ("from opd.records.files import sha256, sha512", ["opd.records.files has no sha512"]),
        ("from opd.records import files, fiels", ["opd.records has no fiels"]),
        ("from opd.recrods.files import sha256", ["no module opd.recrods.files"]),
        ("from numpy import anything", []),
    ],
)
def test_planted_python_is_judged(root, code, faults):
    assert list(python_faults(Block(language="python", body=code, line=1), root)) == faults


def test_planted_commands_are_looked_up(root):
    @click.group()
    def opd(): ...

    @opd.command()
    @click.option("--out")
    def train(out): ...

    @opd.group()
    def task(): ...

    @task.command()
    def build(): ...

    lines = [words for block in blocks(PLANTED) if block.language in SHELLS for words in commands(block)]
    assert [words[:2] for words in lines] == [
        ["opd", "train"],
        ["./dev", "polish"],
        ["opd", "task"],
        ["opd", "VERB"],
    ]
    faults = [fault for words in lines for fault in command_faults(words, opd=opd, dev_verbs={"test"}, root=root)]
    assert faults == [
        "there is no recipes/none.toml",
        "./dev has no verb polish",
        "opd task build has no flag --deep",
    ]
