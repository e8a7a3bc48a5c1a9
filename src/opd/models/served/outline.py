"""A teacher whose weights are elsewhere: what is needed of it here is its tokenizer and its configuration."""

from pathlib import Path

from opd.models.load import LanguageModel, load_skeleton, load_tokenizer, read_stop_ids


def outline(path: Path, *, dtype: str) -> LanguageModel:
    """The model of a directory without its weights: nothing can be computed with it, and it takes no memory.

    Raises `AskedWrongly` when configuration or tokenizer can't be read.
    """
    tokenizer = load_tokenizer(path)
    return LanguageModel(
        module=load_skeleton(path, dtype=dtype).eval(),
        tokenizer=tokenizer,
        path=path,
        vocabulary=max(tokenizer.get_vocab().values()) + 1,
        stop_ids=read_stop_ids(path, tokenizer),
        unpackable=None,
    )
