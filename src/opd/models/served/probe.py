"""Known tokens and what the teacher gives them: what a server's answers are compared with.

    exact     the teacher's log-probabilities in float32 (in float64 where that is its dtype)
    rounded   the same weights in the dtype that the recipe gives it

The distance of the two is what rounding does, so that a bound needs no guess. Where the weights are on another
machine, this file is run there, and the run reads what it wrote:

    python -m opd.models.served.probe models/teacher --dtype bfloat16 --out probe.json
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from opd.models.load import DTYPES, LanguageModel, find_model, load_model, load_tokenizer
from opd.models.plain import PlainScorer
from opd.models.served.settings import ServedSettings
from opd.records.errors import AskedWrongly, OpdError
from opd.records.files import digest, write_json
from opd.records.rollouts import Prompt, Rollout, StopReason
from opd.records.settings import Settings, read

# likely and unlikely text, as a student writes it; a wrong step, so that not all is near zero
TEXTS = (
    "Let $x$ be the number of apples. Then $3x + 4 = 19$, so $x = 5$.\n</think>\nThe answer is \\boxed{5}.",
    "Compute 17*23. 17*20 = 340, 17*3 = 61, and 340+61 = 391. Wait, 17*3 = 51, so the sum is 391.",
    "Therefore, by Vieta's formulas, the roots add up to $-\\frac{b}{a}$; 北京 lies elsewhere, e.g. [7, 9).",
)


class KnownText(Settings):
    """Tokens of one text; what is known is of all but the first, which nothing predicts."""

    token_ids: tuple[int, ...]
    texts: tuple[str, ...]
    """Of each token alone, as the tokenizer decodes it."""
    exact: tuple[float, ...]
    """Nats, one less than token ids."""
    rounded: tuple[float, ...]


class Probe(Settings):
    """What a teacher gives known tokens."""

    model: str
    """Its directory's name."""
    dtype: str
    """Of `rounded`."""
    vocabulary: str
    """Digest of the tokenizer's words and their ids."""
    sequences: tuple[KnownText, ...]


def reference_for(settings: ServedSettings, teacher: Path, *, dtype: str) -> Probe:
    """What the teacher's servers are compared with: the recorded probe, or one of the directory's own weights.

    Raises `AskedWrongly` for a probe of another tokenizer or dtype than the teacher's.
    """
    if settings.probe is None:
        return computed(teacher, dtype)
    found = read(Probe, Path(settings.probe))
    again = f"record it again: python -m opd.models.served.probe MODEL --dtype {dtype} --out {settings.probe}"
    if found.vocabulary != vocabulary_digest(load_tokenizer(teacher)):
        raise AskedWrongly(f"{settings.probe} was recorded with another tokenizer than that of {teacher}; {again}")
    if found.dtype != dtype:
        raise AskedWrongly(
            f"{settings.probe} was recorded in {found.dtype}, and the teacher's dtype is {dtype}; {again}"
        )
    return found


@lru_cache(maxsize=16)  # a rehearsal and the run after it ask for the same, of each teacher
def computed(path: Path, dtype: str) -> Probe:
    """The probe of a model's directory, on the CPU; the weights are in memory twice over at no time."""
    exact = "float64" if dtype == "float64" else "float32"
    sequences, wide = _scored(path, exact)
    narrow = wide if dtype == exact else _scored(path, dtype)[1]
    tokenizer = load_tokenizer(path)
    return Probe(
        model=path.name,
        dtype=dtype,
        vocabulary=vocabulary_digest(tokenizer),
        sequences=tuple(
            KnownText(token_ids=ids, texts=texts_of(tokenizer, ids), exact=high, rounded=low)
            for ids, high, low in zip(sequences, wide, narrow, strict=True)
        ),
    )


def vocabulary_digest(tokenizer: Any) -> str:
    """Equal for tokenizers with the same words under the same ids."""
    return digest(tokenizer.get_vocab())


def texts_of(tokenizer: Any, ids: tuple[int, ...]) -> tuple[str, ...]:
    """The text of each token alone."""
    return tuple(tokenizer.decode([one], skip_special_tokens=False) for one in ids)


def token_ids(model: LanguageModel) -> list[tuple[int, ...]]:
    """The known tokens: the texts, each with an end of sequence and with the last id of the vocabulary."""
    last = (*sorted(model.stop_ids)[:1], model.vocabulary - 1)
    return [(*model.tokenizer(text, add_special_tokens=False)["input_ids"], *last) for text in TEXTS]


def _scored(path: Path, dtype: str) -> tuple[list[tuple[int, ...]], list[tuple[float, ...]]]:
    """The known tokens, and the log-probabilities of all but the first of each sequence."""
    model = load_model(path, dtype=dtype, device="cpu")
    sequences = [ids[: model.context_tokens] for ids in token_ids(model)]
    scored = PlainScorer(model).score([rollout_of(ids) for ids in sequences])
    return sequences, [one.teacher_logp for one in scored]


def rollout_of(ids: tuple[int, ...]) -> Rollout:
    """The tokens as if the first had been a prompt and the others its answer, which is how they are scored."""
    prompt = Prompt(row=0, problem="", answer="", token_ids=ids[:1])
    rest = ids[1:]
    return Rollout(prompt=prompt, sample=0, token_ids=rest, logp=(0.0,) * len(rest), stop=StopReason.LENGTH)


@click.command()
@click.argument("model")
@click.option(
    "--dtype", default="bfloat16", show_default=True, type=click.Choice(sorted(DTYPES)), help="The recipe's."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write.")
def main(model: str, dtype: str, out: Path) -> None:
    """Records what MODEL, a directory, gives known tokens, for machine.served.probe."""
    try:
        write_json(out, computed(find_model(model), dtype).resolved())
    except OpdError as error:
        raise click.UsageError(str(error)) from error


if __name__ == "__main__":
    main()
