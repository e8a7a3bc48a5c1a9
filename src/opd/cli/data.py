"""`opd data`: what a file of problems holds, and the files that are made from it by leaving rows out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.train.corpus.description import Description, Lengths
    from opd.train.corpus.overlap import Overlap, Pair
    from opd.train.corpus.problems import Corpus

SHOWN = 8  # lines of a list on the screen; the files have all of it

FILE = UserPath()
SETS = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Put a value into the settings: fields.problem=question.",
)
OUT = click.option(
    "--out",
    required=True,
    type=FILE,
    help="New file, .jsonl or .parquet; the removed rows and a report go beside it.",
)
AGAINST = click.option(
    "--against", multiple=True, required=True, type=FILE, help="File with evaluation problems; may be given again."
)


@click.group()
def data() -> None:
    """Describe a file of problems, drop duplicates, find benchmark problems in it."""


@data.command(
    epilog=examples(
        "opd data describe train.jsonl --model models/student",
        "opd data describe train.jsonl --set fields.problem=question --json | jq .rows",
    )
)
@click.argument("file", type=FILE)
@JSON
@click.option("--model", metavar="DIR", help="Count tokens by the tokenizer of this model directory.")
@SETS
def describe(file: Path, as_json: bool, model: str | None, sets: tuple[str, ...]) -> None:
    """Rows, fields, duplicates, answers and lengths of FILE."""
    from opd.records.files import canonical_json
    from opd.train.corpus.description import describe as describe_corpus
    from opd.train.corpus.problems import Reading, read_corpus

    fields = Reading().changed(sets).fields
    said = describe_corpus(read_corpus(file, fields), count_tokens=_counter(model))
    click.echo(canonical_json(said.record()) if as_json else _described(said))


@data.command(
    epilog=examples(
        "opd data dedupe train.jsonl --out once.jsonl",
        "opd data dedupe train.jsonl --set same=words --out once.parquet",
    )
)
@click.argument("file", type=FILE)
@OUT
@SETS
def dedupe(file: Path, out: Path, sets: tuple[str, ...]) -> None:
    """Write FILE without rows that repeat an earlier one but for spelling (--set same=exact or words)."""
    from opd.train.corpus.duplicates import Deduplication, repeats
    from opd.train.corpus.problems import read_corpus
    from opd.train.corpus.selection import check_new, write_selection

    settings = Deduplication().changed(sets)
    check_new(out)
    source = read_corpus(file, settings.fields)
    found = repeats(source.problems, settings.same)
    gone = {repeat.dropped.row for repeat in found}
    records = [repeat.record(settings.same) for repeat in found]
    disagreeing = sum(not record["answers_agree"] for record in records)
    write_selection(
        out,
        source,
        kept=[row for row in range(len(source.rows)) if row not in gone],
        removed=records,
        settings=settings,
        findings={"disagreeing_rows": disagreeing},
    )
    click.echo(
        f"{len(source.rows):,} rows → {len(source.rows) - len(gone):,}; {len(gone):,} repeat an earlier one "
        f"({settings.same.value}), {disagreeing:,} of them with another answer → {out}"
    )


@data.command(
    epilog=examples(
        "opd data decontaminate train.jsonl --against math500.jsonl",
        "opd data decontaminate train.jsonl --against math500.jsonl --against aime24.jsonl --out clean.jsonl --json",
    )
)
@click.argument("file", type=FILE)
@AGAINST
@click.option("--out", type=FILE, help="New file without the found rows; the removed rows and a report go beside it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every pair.")
@SETS
def decontaminate(
    file: Path, against: tuple[Path, ...], out: Path | None, as_json: bool, sets: tuple[str, ...]
) -> None:
    """Find evaluation problems in FILE and say of each pair what differs.

    With --out, write FILE without the rows that are the same problem.
    """
    from opd.records.files import canonical_json
    from opd.train.corpus.overlap import Decontamination, overlap
    from opd.train.corpus.problems import read_corpus
    from opd.train.corpus.selection import check_new, provenance

    settings = Decontamination().changed(sets)
    if out is not None:
        check_new(out)
    source = read_corpus(file, settings.fields)
    benchmarks = [read_corpus(path, settings.against_fields) for path in against]
    found = [overlap(source.problems, benchmark, settings) for benchmark in benchmarks]
    if as_json:
        report = {"source": provenance(source), "against": [provenance(one) for one in benchmarks]}
        report |= {"settings": settings.resolved(), "settings_digest": settings.digest}
        click.echo(canonical_json(report | {"overlaps": [one.record() for one in found]}))
    else:
        click.echo("\n\n".join(_overlapping(one, rows=len(source.rows)) for one in found))
    if out is not None:
        left = _write_clean(out, source, benchmarks, found, settings)
        click.echo(f"{len(source.rows):,} rows → {left:,} → {out}", err=as_json)


@data.command(
    epilog=examples(
        "opd data project dapo.parquet --against aime.jsonl --protocol opd-dapo-aime-zero-overlap-v2 --out a.jsonl",
    )
)
@click.argument("file", type=FILE)
@AGAINST
@click.option(
    "--protocol", required=True, metavar="NAME|FILE", help="A rule by name, or a .toml file with its settings."
)
@OUT
def project(file: Path, against: tuple[Path, ...], protocol: str, out: Path) -> None:
    """Write the rows of FILE that share no run of words with an evaluation file, by a published rule.

    Besides OUT, which has the rows to train on, there are the removed and the reserved rows and a report.
    """
    from opd.train.corpus.problems import read_corpus
    from opd.train.corpus.projection import Fate, find_rule
    from opd.train.corpus.projection import project as place
    from opd.train.corpus.selection import beside, check_new, write_selection
    from opd.train.prompts.rows import write_rows

    rule = find_rule(protocol)
    check_new(out, "reserved.jsonl")
    source = read_corpus(file, rule.fields)
    benchmarks = [read_corpus(path) for path in against]
    evaluation = [problem for one in benchmarks for problem in one.problems]
    placed = place(source.problems, evaluation, rule)
    counts = {fate.value: sum(one.fate is fate for one in placed) for fate in Fate}
    write_rows(
        beside(out, "reserved.jsonl"), [source.rows[one.problem.row] for one in placed if one.fate is Fate.RESERVED]
    )
    kept = [one.problem for one in placed if one.fate is Fate.TRAIN]
    again = place(kept, evaluation, rule.model_copy(update={"reserved_rows": 0}))
    write_selection(
        out,
        source,
        kept=[problem.row for problem in kept],
        removed=[one.record() for one in placed if one.fate is not Fate.TRAIN],
        settings=rule,
        against=benchmarks,
        findings={"counts": counts, "still_overlapping": sum(one.fate is not Fate.TRAIN for one in again)},
    )
    first = len(placed) - counts["duplicate"]
    click.echo(
        f"{len(placed):,} rows → {first:,} first occurrences → {first - counts['overlap']:,} without overlap → "
        f"{counts['train']:,} to train on and {counts['reserved']:,} reserved → {out}\nrule {rule.digest}"
    )


def _counter(model: str | None) -> Callable[[str], int] | None:
    """What counts the tokens of a text, by the tokenizer of a model directory; no template, no special tokens."""
    if model is None:
        return None
    from tokenizers import Tokenizer

    from opd.records.errors import AskedWrongly
    from opd.records.places import locate

    path = locate(model) / "tokenizer.json"
    if not path.is_file():
        raise AskedWrongly(f"{path} does not exist; --model takes a directory with a tokenizer.json")
    tokenizer = Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _write_clean(
    out: Path, source: "Corpus", benchmarks: "Sequence[Corpus]", found: "Sequence[Overlap]", settings: Any
) -> int:
    """The number of rows that stay, once the files are written."""
    from opd.train.corpus.selection import write_selection

    pairs = [pair for one in found for pair in one.pairs]
    gone = {pair.training.row for pair in pairs if pair.removed}
    kept = [row for row in range(len(source.rows)) if row not in gone]
    write_selection(
        out,
        source,
        kept=kept,
        removed=[pair.record() for pair in sorted(pairs, key=lambda pair: pair.training.row) if pair.removed],
        settings=settings,
        against=benchmarks,
        findings={"overlaps": [one.record() for one in found]},
    )
    return len(kept)


def _described(said: "Description") -> str:
    lines = [f"{said.file}: {said.rows:,} rows, SHA-256 {said.sha256}", "", "fields"]
    for field in said.fields:
        read_as = ", ".join(
            role for role, name in said.read_from.items() if name and name.split(".")[0] == field.name
        )
        missing = said.rows - field.rows
        notes = [f"read as {read_as}"] * bool(read_as)
        notes += [f"blank in {field.blank:,}"] * bool(field.blank) + [f"missing in {missing:,}"] * bool(missing)
        lines.append(f"  {field.name:<22}{'/'.join(field.types) or 'null':<12}{'; '.join(notes)}".rstrip())
    lines += ["", "rows that repeat an earlier one"]
    for same, repeated in said.repeated.items():
        differ = f"; groups that disagree on the answer: {repeated.disagreeing_groups:,}" * bool(
            repeated.disagreeing_groups
        )
        share = repeated.rows / said.rows
        lines.append(f"  {_SAMENESS[same]:<30}{repeated.rows:>8,}  {share:.1%}{differ}")
        lines += [f"      {' · '.join(names)}" for names in repeated.examples[:3]]
    lines += ["", "answers"]
    lines += [f"  {kind:<30}{count:>8,}  {count / said.rows:.1%}" for kind, count in said.answers.items()]
    lines += ["", "length of a problem", f"  characters  {_lengths(said.characters)}"]
    lines += [f"  tokens      {_lengths(said.tokens)}"] if said.tokens else []
    lines += ["", *_oddities(said)]
    return "\n".join(lines)


_SAMENESS = {
    "exact": "the same text",
    "symbols": "the same but for spelling",
    "words": "the same letters and digits",
}


def _oddities(said: "Description") -> list[str]:
    """What a reader should look at, each on a line; what there is nothing of is said too."""
    names = ", ".join(said.doubled_braces[:SHOWN]) + ", …" * (len(said.doubled_braces) > SHOWN)
    lines = [
        f"blank problems: {said.blank_problems:,}",
        f"with Chinese, Japanese or Korean: {said.rows_with_cjk:,} rows, {said.cjk_share:.1%} of the characters",
        f"with doubled braces {{{{: {len(said.doubled_braces):,} rows" + f" ({names})" * bool(names),
    ]
    if said.shared_beginning.strip():
        lines.append(f"every problem begins with {said.shared_beginning!r}")
    if len(said.shared_end.strip()) > 1:  # a full stop is no instruction
        lines.append(f"every problem ends with {said.shared_end!r}")
    return lines


def _lengths(of: "Lengths") -> str:
    return (
        f"least {of.least:,}, median {of.median:,}, mean {of.mean:,.0f}, 95th percentile {of.percentile_95:,}, "
        f"most {of.most:,}"
    )


def _overlapping(found: "Overlap", *, rows: int) -> str:
    counts = found.counts()
    affected, removed, more = counts["affected_problems"], counts["removed_rows"], found.rows_sharing_more_than_stock
    kinds = ", ".join(f"{kind.replace('_', ' ')} {counts[kind]}" for kind in list(counts)[:-2])
    lines = [
        f"{found.against}: {affected:,} of {found.problems:,} problems in {removed:,} of {rows:,} rows",
        f"  pairs by how they were found: {kinds}",
        f"  rows that share a run of words: {found.rows_sharing_a_run:,}; {more:,} of them more than stock phrases",
    ]
    lines += [f'  stock: "{phrase}" in {count:,} problems' for phrase, count in found.stock_phrases[:3]]
    for removed, title in ((True, "  the same problem"), (False, "  alike, and another problem")):
        pairs = [pair for pair in found.pairs if pair.removed is removed]
        lines += [title] * bool(pairs) + [line for pair in pairs for line in _pair_lines(pair)]
    return "\n".join(lines)


def _pair_lines(pair: "Pair") -> list[str]:
    agree = {True: "answers agree", False: "answers differ", None: "no answer to compare"}[pair.answers_agree]
    measures = f"found by {pair.found.value.replace('_', ' ')}, Jaccard {pair.jaccard:.2f}; {agree}"
    line = f"    {pair.training.name} ~ {pair.evaluation.name}: {pair.comparison.verdict.value} ({measures})"
    shown = [one if len(one) <= 100 else one[:99] + "…" for one in pair.comparison.differences[:3]]
    return [line, *(f"        {one}" for one in shown)]
