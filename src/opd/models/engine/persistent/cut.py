"""How a decoder is cut for the kernel: sizes, for which a library is compiled, and what a CTA has of each matrix."""

from dataclasses import asdict, dataclass

WORKERS = 128  # CTAs that share a layer
CTAS = 132  # those that share the head: all
WARPS = 8  # of a CTA, which share the columns
TILE = 16  # rows that are multiplied at once
DOWN_SPLIT = 4  # CTAs that share the columns of down


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The sizes of a decoder that shape.cuh is compiled for. Its layers and its vocabulary are free."""

    hidden: int
    inner: int
    heads: int
    key_heads: int
    head: int  # numbers of one
    normed: bool = False  # queries and keys have norms of their own

    @property
    def flags(self) -> tuple[str, ...]:
        """The sizes, said to the compiler."""
        return tuple(f"-DOPD_{name.upper()}={int(value)}" for name, value in asdict(self).items())

    @property
    def attended(self) -> int:
        """Columns of the output projection."""
        return self.heads * self.head

    @property
    def turned(self) -> int:
        """Pairs of rows of q, k and v that are rotated together; those of v only lie like them."""
        return (self.heads + 2 * self.key_heads) * self.head // 2

    @property
    def turned_each(self) -> int:
        """Such pairs of a CTA: an even number, and none is left for the last CTAs where they don't come out."""
        return 2 * -(-self.turned // (2 * WORKERS))

    @property
    def gated_each(self) -> int:
        """Rows of gate, and of up, of a CTA."""
        return self.inner // WORKERS

    @property
    def out_each(self) -> int:
        """Rows of the output projection and of down of a CTA: its features of the residual stream, by fours."""
        return 4 * -(-self.hidden // (4 * WORKERS))

    @property
    def layer_bytes(self) -> int:
        """Weights of a CTA and layer."""
        over_hidden, deep = 2 * (self.turned_each + self.gated_each), self.inner // DOWN_SPLIT
        return 2 * (over_hidden * self.hidden + self.out_each * (self.attended + DOWN_SPLIT * deep))

    def weight_bytes(self, *, layers: int, vocabulary: int) -> int:
        """Of the kernel's copy of the weights."""
        tiles_each = -(-vocabulary // (TILE * CTAS))
        return CTAS * (layers * self.layer_bytes + tiles_each * TILE * self.hidden * 2)


CUTS = {
    "Qwen2 1.5B": Cut(hidden=1_536, inner=8_960, heads=12, key_heads=2, head=128),
    "Qwen2 0.5B": Cut(hidden=896, inner=4_864, heads=14, key_heads=2, head=64),
    "Qwen3 1.7B": Cut(hidden=2_048, inner=6_144, heads=16, key_heads=8, head=128, normed=True),
    "Qwen3 0.6B": Cut(hidden=1_024, inner=3_072, heads=16, key_heads=8, head=128, normed=True),
    "Llama 3.2 1B": Cut(hidden=2_048, inner=8_192, heads=32, key_heads=8, head=64),
}
EXACT = CUTS["Qwen2 1.5B"]  # the exact mode's forward pass is made for it


def cut_with(**sizes: int) -> Cut | None:
    """The one with these sizes that the kernel is made for; whether heads have norms is not asked."""
    return next((cut for cut in CUTS.values() if sizes.items() <= asdict(cut).items()), None)


def blocks_in_order(columns: int) -> list[int]:
    """In which order a tile has a row's blocks of 32 columns. A warp has consecutive ones, the first warps one more.

    [stage][warp][unit]: the first two of each warp, the next two, …
    """
    each, rest = divmod(columns // 32, WARPS)
    first = [warp * each + min(warp, rest) for warp in range(WARPS + 1)]
    return [
        block
        for stage in range(-(-columns // 32 // WARPS // 2) + 1)
        for warp in range(WARPS)
        for block in range(first[warp] + 2 * stage, min(first[warp] + 2 * stage + 2, first[warp + 1]))
    ]
