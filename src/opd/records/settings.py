"""Settings: what a person types or a file holds. Frozen, strict, closed to unknown keys, with a digest.

`read(Recipe, text)` and `--set key=value` go through one validation, and an error names the key, the value,
the rule and, for an unknown key, the nearest known one.
"""

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from opd.records.errors import AskedWrongly
from opd.records.files import digest


class Settings(BaseModel):
    """The base of everything that is typed by hand or read from disk."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        validate_default=True,
        protected_namespaces=(),
    )

    def resolved(self) -> dict[str, Any]:
        """Every key with its value, defaults included, as JSON values."""
        return self.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """SHA-256 of the resolved settings: equal settings, equal digest, whatever was left to a default."""
        return digest(self.resolved())

    def changed(self, sets: Sequence[str]) -> Self:
        """A copy after each `section.key=value` has been put in; validated like a file."""
        values = self.resolved()
        _assign(values, sets)
        return validated(type(self), values, source="--set")


S = TypeVar("S", bound=Settings)


def read(kind: type[S], path: Path, *, sets: Sequence[str] = ()) -> S:
    """The settings of a TOML or JSON file, after each `section.key=value` of `sets` has been put in.

    Raises `AskedWrongly` for a missing or unreadable file, an unknown key, a wrong type or a broken rule.
    """
    values = _parsed(path)
    _assign(values, sets)
    return validated(kind, values, source=str(path))


def read_sets(kind: type[S], sets: Sequence[str]) -> S:
    """The settings that consist of each `section.key=value` of `sets` alone; errors as in `read`."""
    values: dict[str, Any] = {}
    _assign(values, sets)
    return validated(kind, values, source="--set")


def validated(kind: type[S], values: Mapping[str, Any], *, source: str) -> S:
    """The settings that these JSON values stand for; every fault is one line that names its key."""
    try:
        # through JSON, so that strict settings take lists for tuples and text for paths, and nothing else
        return kind.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        faults = "; ".join(_fault(kind, fault) for fault in error.errors(include_url=False))
        raise AskedWrongly(f"{source}: {faults}") from error


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise AskedWrongly(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise AskedWrongly(f"{path} can't be read: {error}") from error
    try:
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        form = "JSON" if path.suffix == ".json" else "TOML"
        raise AskedWrongly(f"{path} is not {form}: {error}") from error
    if not isinstance(values, dict):
        raise AskedWrongly(f"{path} holds a {type(values).__name__}, not a table of settings")
    return values


def _assign(values: dict[str, Any], sets: Sequence[str]) -> None:
    for assignment in sets:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise AskedWrongly(f"--set {assignment!r}: write it as section.key=value")
        _put(values, key.strip().split("."), _toml_value(value.strip()))


def _toml_value(text: str) -> Any:
    """The value as TOML reads it; what isn't TOML is taken as text, so that quotes can be left out."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _put(values: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    for depth, key in enumerate(keys[:-1], start=1):
        if values.get(key) is None:  # a section that is left out
            values[key] = {}
        values = values[key]
        if not isinstance(values, dict):
            raise AskedWrongly(f"{'.'.join(keys[:depth])} is a value, not a section: it has no {keys[depth]!r}")
    values[keys[-1]] = value


def _fault(kind: type[Settings], fault: Mapping[str, Any]) -> str:
    place = [str(part) for part in fault["loc"]]
    key = ".".join(place)
    if fault["type"] == "extra_forbidden":
        known = _keys(kind, place[:-1])
        near = difflib.get_close_matches(place[-1], known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        return f"unknown key {key!r}; {hint}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] == "missing":
        return f"{key!r} is required"
    if not place:
        return message
    shown = "" if isinstance(fault["input"], dict) else f" = {fault['input']!r}"
    return f"{key}{shown}: {message[0].lower()}{message[1:]}"


def _keys(kind: type[Settings], place: Sequence[str]) -> list[str]:
    """The keys of the section that a place leads to; none where it leads to no section."""
    section: type[Settings] | None = kind
    named = False  # whether the next part is the name of a section in a table of them
    for part in place:
        if section is None:
            return []
        if named or part.isdecimal():  # a number is a place in a list of sections
            named = False
            continue
        field = section.model_fields.get(part)
        section = settings_in(field.annotation) if field else None
        named = field is not None and get_origin(field.annotation) is dict
    return sorted(section.model_fields) if section else []


def settings_in(annotation: Any) -> type[Settings] | None:
    """The settings in `Judge`, `Judge | None` or `tuple[Judge, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    return next(filter(None, map(settings_in, get_args(annotation))), None)
