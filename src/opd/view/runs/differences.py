"""Recipes side by side: which keys are not the same in all of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ABSENT = object()
"""Stands for a key that a recipe does not have, which is not the same as null."""


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"optimizer": {"lr": 1e-6}}` → `{"optimizer.lr": 1e-6}`; an empty section stays, as itself."""
    return dict(_flat(values, prefix=""))


def differing(recipes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The keys of flat recipes that are not the same in all, in the order in which they first stand."""
    keys = dict.fromkeys(key for recipe in recipes for key in recipe)
    return tuple(key for key in keys if _differ([recipe.get(key, ABSENT) for recipe in recipes]))


def _differ(values: Sequence[Any]) -> bool:
    """By value and by kind: a text is no number, and true is not 1; a number is the same with a point or without."""
    first, *others = values
    return any(other != first or isinstance(other, bool) != isinstance(first, bool) for other in others)


def _flat(values: Mapping[str, Any], *, prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, prefix=f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
