"""In which order the kernel reads a layer's weights: each CTA its own, as they are used.

Shapes: C = 128 CTAs; blocks of 32 columns (64 bytes), R rows of a tile, B blocks of a row; P pairs of rows of a CTA.

    [CTA][layer]   q|k|v: tiles of 8 + 8 rows that are rotated with each other; what is left in a smaller one
                   output projection: a tile
                   gate|up: tiles of 8 + 8 rows that are multiplied with each other; what is left in a smaller one
                   down: tiles of 16 rows, of a quarter of the columns; four CTAs share the rows of four
    a tile         [blocks in order][rows]: `blocks_in_order` of cut.py

Where the rows don't come out even the last CTAs have the first ones once more, and nobody asks for theirs. Inside a
block the features stand as `packed` of cuda/words.cuh puts them.
"""

import torch

from opd.models.engine.persistent.cut import DOWN_SPLIT, TILE, WORKERS, Cut, blocks_in_order

QKV, OUT, GATE_UP, DOWN = range(4)  # the matrices, in the order in which a layer's addresses are given
MATRIX_BIT = 29  # a block's number has the matrix in the bits from here on
HALF = TILE // 2


def layer_blocks(cut: Cut) -> torch.Tensor:
    """[C, blocks] int32: which block of which matrix stands where, the same in every layer; a matrix's row by row."""
    sizes = {
        QKV: (2 * cut.turned, cut.hidden),
        OUT: (cut.hidden, cut.attended),
        GATE_UP: (2 * cut.inner, cut.hidden),
        DOWN: (cut.hidden, cut.inner),
    }
    matrix = {
        which: torch.arange(rows * columns // 32).view(rows, -1) + (which << MATRIX_BIT)
        for which, (rows, columns) in sizes.items()
    }
    gates_CP = torch.arange(cut.inner).view(WORKERS, -1)
    own_CR = torch.arange(WORKERS * cut.out_each).view(WORKERS, -1) % cut.hidden
    parts = (
        *paired_tiles(matrix[QKV], *turned_rows(cut)),
        tiles(matrix[OUT][own_CR]),
        *paired_tiles(matrix[GATE_UP], gates_CP, gates_CP + cut.inner),
        down_tiles(matrix[DOWN][own_CR.view(-1, cut.out_each * DOWN_SPLIT)]),
    )
    return torch.cat(parts, dim=1).to(torch.int32)


def turned_rows(cut: Cut) -> tuple[torch.Tensor, torch.Tensor]:
    """[C, P] twice: each CTA's rows of q|k|v, and those that they are rotated with."""
    pair_CP = torch.arange(WORKERS * cut.turned_each).view(WORKERS, -1) % cut.turned
    half = cut.head // 2
    low_CP = pair_CP // half * cut.head + pair_CP % half
    return low_CP, low_CP + half


def bias_rows(cut: Cut) -> torch.Tensor:
    """[C, 16 a tile]: the row of q|k|v whose bias a finish thread adds; padded where a tile is smaller."""
    padding = (0, -cut.turned_each % HALF)
    halves = [torch.nn.functional.pad(rows_CP, padding).view(WORKERS, -1, HALF) for rows_CP in turned_rows(cut)]
    return torch.stack(halves, dim=2).view(WORKERS, -1)


def paired_tiles(rows_RB: torch.Tensor, low_CP: torch.Tensor, high_CP: torch.Tensor) -> list[torch.Tensor]:
    """[C, blocks] of the tiles of 8 + 8 rows, and of a smaller one where pairs are left."""
    whole = low_CP.shape[1] // HALF * HALF
    eights = [rows_CP[:, :whole].reshape(WORKERS, -1, HALF) for rows_CP in (low_CP, high_CP)]
    left = [rows_CP[:, whole:] for rows_CP in (low_CP, high_CP)]
    return [tiles(rows_RB[torch.cat(some, dim=-1)]).view(WORKERS, -1) for some in (eights, left)]


def tiles(rows_RB: torch.Tensor) -> torch.Tensor:
    """[…, rows, B] as a tile's blocks stand in memory, […, blocks]."""
    order = blocks_in_order(32 * rows_RB.shape[-1])
    return rows_RB[..., order].transpose(-1, -2).flatten(-2)


def down_tiles(rows_GRB: torch.Tensor) -> torch.Tensor:
    """[groups of four CTAs, rows, B] as the CTAs' tiles of down stand in memory, [C, blocks]."""
    cut = rows_GRB.unflatten(1, (-1, TILE)).unflatten(3, (DOWN_SPLIT, -1))  # [group, tile, row, quarter, block]
    return tiles(cut.permute(0, 3, 1, 2, 4)).reshape(WORKERS, -1)


def packed_features() -> torch.Tensor:
    """[32]: the feature that stands at each place of a block; the inverse of `packed`."""
    features = torch.arange(32)
    place = (features >> 1 & 3) << 3 | (features >> 4 & 1) << 2 | (features >> 3 & 1) << 1 | features & 1
    return place.argsort()
