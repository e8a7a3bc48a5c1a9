"""What guesses would have come to in tokens that are known by now: the same guesses as on the device, on the host.

So whoever did a window, it is known how many steps with guesses it would have taken, and nothing has to be tried out.
"""

from collections.abc import Sequence

from opd.models.engine.drafts.operations import LONGEST


class Hindsight:
    """The tokens of a sequence, and where each of its ends of up to LONGEST tokens stood last."""

    def __init__(self, ids: Sequence[int]) -> None:
        """Of a sequence that has these tokens so far."""
        self._ids: list[int] = []
        self._last: dict[tuple[int, ...], int] = {}  # where the newest of these tokens stood, when others followed
        self._read(ids)

    def __len__(self) -> int:
        """Tokens so far."""
        return len(self._ids)

    def steps(self, ids: Sequence[int], *, span: int) -> int:
        """How many steps of `span` rows these tokens would have taken; they are known from now on."""
        count, at = 0, 0
        while at < len(ids):
            kept = 1
            for guessed, said in zip(self.guess(span - 1), ids[at:], strict=False):
                if guessed != said:
                    break
                kept += 1
            self._read(ids[at : at + kept])
            at += kept
            count += 1
        return count

    def guess(self, count: int) -> list[int]:
        """What may follow, as `operations.following` has it; nothing where no end stood there before."""
        newest = len(self._ids) - 1
        for length in range(min(LONGEST, len(self._ids)), 0, -1):
            place = self._last.get(tuple(self._ids[-length:]))
            if place is not None:
                return [self._ids[place + 1 + ahead % (newest - place)] for ahead in range(count)]
        return []

    def _read(self, ids: Sequence[int]) -> None:
        for one in ids:
            for length in range(1, min(LONGEST, len(self._ids)) + 1):
                self._last[tuple(self._ids[-length:])] = len(self._ids) - 1
            self._ids.append(one)
