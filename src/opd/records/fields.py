"""What stands in a row of a file: a value inside others, a number as text, the user's turn of a chat.

{"prompt": [{"role": "user", "content": "Find x."}], "reward_model": {"ground_truth": 3.0}}
value_in(row, "reward_model.ground_truth") → 3.0,  written(3.0) → "3",  users_turn(row["prompt"]) → "Find x."
"""

import json
import math
from collections.abc import Mapping
from typing import Any


def value_in(row: Mapping[str, Any], name: str) -> Any:
    """The value of a field, or None. A dot leads into a value, unless the row has a field of that very name."""
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def written(value: Any) -> str | None:
    """A text as it is; a number as JSON writes it, a whole one without a point (27.0 is 27); None for the rest."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else json.dumps(value)


def users_turn(value: Any) -> str | None:
    """A text as it is, or the user's first turn of a chat; None where there is no such text."""
    if isinstance(value, str):
        return value
    turns = value if isinstance(value, list) else []
    contents = [turn.get("content") for turn in turns if isinstance(turn, Mapping) and turn.get("role") == "user"]
    return contents[0] if contents and isinstance(contents[0], str) else None


def roles(value: Any) -> list[str]:
    """Who speaks in a chat, turn by turn; nobody in anything else."""
    turns = value if isinstance(value, list) else []
    return [str(turn.get("role")) for turn in turns if isinstance(turn, Mapping)]
