"""The table of a step's rollouts as columns, without an object for each of millions of tokens.

tokens  ids student teacher     all rollouts one after the other
ends                            where each of them ends
others  ids logp                the teacher's likeliest K tokens at each of those places, where a run keeps them
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opd.records.repetition import repetition_onset
from opd.view.server.answers import Unreadable
from opd.view.server.places import Place

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "rollouts"
_NAME = re.compile(r"step-([0-9]{6,9})\.parquet")
_MOST_BYTES = 2 << 30  # of a table, unpacked: 100 million tokens
_FACTS = ("row", "epoch", "sample", "problem", "answer", "stop")
_LISTS = ("prompt_ids", "token_ids", "student_logp", "teacher_logp")
_TAUGHT = ("teacher", "teacher_prompt_ids")
_OTHERS = ("alternative_ids", "alternative_logp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """The `count` tokens that the teacher found likeliest at each of N places, the likeliest first."""

    count: int
    ids_NK: NDArray[np.int32]
    logp_NK: NDArray[np.float32]  # nats


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rollouts of a step. Log-probabilities in nats."""

    facts: Sequence[dict[str, Any]]  # row, epoch, sample, problem, answer, stop, taught_by of each
    prompts: "pa.ListArray"
    teacher_prompts: "pa.ListArray | None"  # null where the teacher sees what the student does
    ids: NDArray[np.int32]
    student: NDArray[np.float32]
    teacher: NDArray[np.float32]
    ends: NDArray[np.int64]
    loops: Sequence[int | None]  # where each begins to repeat itself
    others: Others | None
    worst: Sequence[int | None]  # the place of the largest |gap| in each; None where no gap is a number

    def span(self, index: int) -> slice:
        """Where the tokens of a rollout lie."""
        return slice(int(self.ends[index - 1]) if index else 0, int(self.ends[index]))

    def gaps(self, index: int) -> NDArray[np.float32]:
        """Log teacher - log student of each token."""
        span = self.span(index)
        return self.teacher[span] - self.student[span]


def table_steps(run: Place) -> list[int]:
    """The steps whose rollouts are kept, in order."""
    found = (_NAME.fullmatch(name) for name in run.at(FOLDER).names())
    return sorted(int(one[1]) for one in found if one)


def table_place(run: Place, step: int) -> Place:
    """Where the rollouts of a step lie."""
    return run.at(FOLDER, f"step-{step:06d}.parquet")


def read_table(place: Place) -> Table:
    """All of a step's table; raises `Unreadable` for one that is damaged."""
    import pyarrow as pa  # takes a good part of the time in which the first page is to be there
    import pyarrow.parquet as pq

    with place.open() as file:
        try:
            with pq.ParquetFile(file) as opened:
                if (
                    sum(opened.metadata.row_group(n).total_byte_size for n in range(opened.num_row_groups))
                    > _MOST_BYTES
                ):
                    raise Unreadable(
                        f"{place.path} unpacks to more than {_MOST_BYTES >> 30} GiB, too much for a page"
                    )
                others = [name for name in (*_TAUGHT, *_OTHERS) if name in opened.schema_arrow.names]
                table = opened.read(columns=[*_FACTS, *_LISTS, *others]).combine_chunks()
            table.validate(full=True)  # offsets that a flipped bit moved would be read as tokens
            return _columns(table, place)
        except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
            raise Unreadable(
                f"{place.path} can't be read as rollouts: {str(error).partition(chr(10))[0]:.200}"
            ) from error


def _columns(table: "pa.Table", place: Place) -> Table:
    lists = {name: _list(table, name) for name in _LISTS}
    ends = {name: np.cumsum(_lengths(lists[name])) for name in _LISTS[1:]}
    first, *others = ends.values()
    if any(not np.array_equal(first, other) for other in others):
        raise Unreadable(f"{place.path} has rollouts with another number of log-probabilities than of tokens")
    ids = _flat(lists["token_ids"], np.int32)
    student, teacher = (_flat(lists[name], np.float32) for name in _LISTS[2:])
    spans = [slice(int(first[one - 1]) if one else 0, int(first[one])) for one in range(table.num_rows)]
    return Table(
        facts=[
            {**facts, "taught_by": name}
            for facts, name in zip(table.select(list(_FACTS)).to_pylist(), _teachers(table), strict=True)
        ],
        prompts=lists["prompt_ids"],
        teacher_prompts=_list(table, _TAUGHT[1]) if _TAUGHT[1] in table.column_names else None,
        ids=ids,
        student=student,
        teacher=teacher,
        ends=first,
        others=_others(table, first),
        loops=[repetition_onset(ids[span]) for span in spans],
        worst=_worst(np.abs(teacher - student), spans),
    )


def _teachers(table: "pa.Table") -> list[str | None]:
    """The name of each row's teacher; None where rows name none."""
    if _TAUGHT[0] not in table.column_names:
        return [None] * table.num_rows
    names: list[str | None] = table.column(_TAUGHT[0]).to_pylist()
    if any(not isinstance(name, str | None) for name in names):
        raise ValueError(f"{_TAUGHT[0]} is a column of {table.column(_TAUGHT[0]).type}")
    return names


def _others(table: "pa.Table", ends: NDArray[np.int64]) -> Others | None:
    if not set(_OTHERS) <= set(table.column_names) or len(ends) == 0 or ends[-1] == 0:
        return None
    ids, logp = (_list(table, name) for name in _OTHERS)
    count, left = divmod(len(_inside(ids)), int(ends[-1]))
    if left or count == 0 or any(not np.array_equal(np.cumsum(_lengths(one)), count * ends) for one in (ids, logp)):
        raise ValueError("not every token has the same number of alternatives")
    return Others(
        count=count,
        ids_NK=_flat(ids, np.int32).reshape(-1, count),
        logp_NK=_flat(logp, np.float32).reshape(-1, count),
    )


def _list(table: "pa.Table", name: str) -> "pa.ListArray":
    import pyarrow as pa

    column = table.column(name)
    if not pa.types.is_list(column.type) or column.type.value_type not in {pa.int32(), pa.float32()}:
        raise ValueError(f"{name} is a column of {column.type}")
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)


def _lengths(lists: "pa.ListArray") -> NDArray[np.int64]:
    if lists.null_count:
        raise ValueError("a list of tokens is null")
    lengths: NDArray[np.int64] = np.diff(lists.offsets.to_numpy())
    return lengths


def _flat(lists: "pa.ListArray", kind: type) -> NDArray[Any]:
    flat: NDArray[Any] = _inside(lists).to_numpy(zero_copy_only=False).astype(kind, copy=False)
    return flat


def _inside(lists: "pa.ListArray") -> "pa.Array":
    """What the lists hold, one after the other; `flatten` would say the same, and load a module that takes 40 ms."""
    begin, end = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return lists.values[begin:end]


def _worst(sizes: NDArray[np.float32], spans: Sequence[slice]) -> list[int | None]:
    known = np.where(np.isnan(sizes), -1.0, sizes)  # below every size
    within = [known[span] for span in spans]
    return [int(one.argmax()) if one.max(initial=-1.0) >= 0 else None for one in within]
