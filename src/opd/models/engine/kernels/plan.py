"""Which product is done by which kernel, and how it is cut into programs.

What matters is how many bytes of weights are under way at any time, so the choices were measured: each is the best of
those tried for its number of rows, on an H200, with the sizes of a 1.5B Qwen2. They are constants, not measured anew
at every start, so that two runs on one machine add in the same order. Other sizes get the same tiles, and as many
slices as keep the machine as busy.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """How a product is cut: a program's block of rows and of outputs, and the columns of one turn of its loop."""

    rows: int
    outputs: int
    columns: int
    slices: int = 1  # of the columns, at most: each is a program of its own, and who reads the sums adds them
    warps: int = 4
    stages: int = 4  # loads under way, with the one in use
    turned: bool = False  # weights on the long side of the tensor core's product
    own_bytes: int = 0  # of each of its rows of weights: what a program asks the L2 for while it waits

    def sliced(self, columns: int) -> "Tile":
        """The same with as many slices as divide these columns evenly."""
        turns = columns // self.columns if columns % self.columns == 0 else 1
        return replace(self, slices=max(s for s in range(1, self.slices + 1) if turns % s == 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysTile:
    """How the keys of a row are cut."""

    splits: int  # programs that share the pages of a row and key head, at most
    least_tokens: int  # that one more split is worth
    tokens: int  # of one turn of the loop
    warps: int = 4
    stages: int = 3
    asks: bool = (
        False  # the L2 for the first pages, while the product ahead still runs; many rows keep it busy anyway
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The choices for some number of rows; a product without a tile is left to the vendor's library."""

    qkv: Tile | None
    out: Tile | None  # of attention: a square matrix, or nearly
    gate: Tile | None
    down: Tile | None  # of the MLP: a deep one
    head: Tile | None
    keys: KeysTile
    norm_warps: int = 8
    ahead_bytes: int = 0  # of gate and up, asked for while the norm before them is computed


_ONE = Plan(
    qkv=Tile(rows=16, outputs=16, columns=256, stages=5, own_bytes=512),
    out=Tile(rows=16, outputs=32, columns=128, slices=3, own_bytes=512),
    gate=Tile(rows=8, outputs=64, columns=128, stages=3, turned=True),
    down=Tile(rows=16, outputs=32, columns=256, slices=5),
    head=Tile(rows=16, outputs=64, columns=128),
    keys=KeysTile(splits=32, least_tokens=64, tokens=64, asks=True),
    ahead_bytes=8 << 20,
)
_FEW = replace(_ONE, keys=replace(_ONE.keys, splits=8))
_SOME = Plan(
    qkv=None,
    out=Tile(rows=64, outputs=32, columns=128, slices=3, own_bytes=512),
    gate=Tile(rows=64, outputs=64, columns=64),
    down=None,
    head=Tile(rows=64, outputs=64, columns=64, stages=5),
    keys=KeysTile(splits=2, least_tokens=128, tokens=64),
    ahead_bytes=8 << 20,
)
_MANY = Plan(
    qkv=None,
    out=None,
    gate=None,
    down=None,
    head=Tile(rows=128, outputs=128, columns=64, warps=8),  # the library is slow where V is odd, and real ones are
    keys=KeysTile(splits=4, least_tokens=2_048, tokens=32, stages=4),
)

PLANS = {  # by the largest number of rows that a plan is for
    1: _ONE,
    4: replace(_ONE, keys=replace(_ONE.keys, splits=16)),
    8: _FEW,
    16: replace(_FEW, gate=Tile(rows=16, outputs=64, columns=128, stages=3)),
    32: replace(
        _SOME,
        out=Tile(rows=32, outputs=32, columns=128, slices=3, own_bytes=512),
        gate=Tile(rows=32, outputs=64, columns=64, stages=5, turned=True),
        down=Tile(rows=32, outputs=64, columns=64, slices=5, stages=5),
        head=Tile(rows=32, outputs=64, columns=128),
        keys=KeysTile(splits=2, least_tokens=64, tokens=64),
    ),
    64: _SOME,
    128: replace(
        _MANY,
        out=Tile(rows=64, outputs=32, columns=128, slices=3),
        down=Tile(rows=64, outputs=64, columns=64, slices=5, stages=5),
    ),
    256: _MANY,
}


def plan_for(rows: int) -> Plan:
    """The plan for so many rows; what is beyond the largest is done like the largest."""
    return PLANS[min((most for most in PLANS if most >= rows), default=max(PLANS))]
