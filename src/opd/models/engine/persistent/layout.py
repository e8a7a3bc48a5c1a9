"""In which order the kernel reads a layer's weights: each CTA its own, as they are used.

Shapes: C = 128 CTAs; blocks of 32 columns (64 bytes), R rows of a tile, B blocks of a CTA and layer.

    [CTA][layer]   q|k|v: a tile of 16 rows, 8 + 8 dimensions of one head that are rotated together
                   output projection: a tile of 12 rows
                   gate|up: 8 tiles of 8 + 8 rows that are multiplied with each other, and one of 6 + 6
                   down: 3 tiles of 16 rows, of a quarter of the columns; four CTAs share 48 rows
    a tile         [3 stages][8 warps][2 units][rows]: warp w has the blocks 6 w … 6 w + 5 of a row, two a stage
    a tile of down [4 stages][8 warps][2 units][rows], then [6 warps][rows]: 9 blocks for six warps, 8 for two

Inside a block the features stand as `packed` of cuda/words.cuh puts them.
"""

import torch

CTAS = 128
HIDDEN, INNER, HEAD, HEADS_AND_KEYS = 1_536, 8_960, 128, 16
QKV, OUT, GATE_UP, DOWN = range(4)  # the matrices, in the order in which a layer's addresses are given
MATRIX_BIT = 29  # a block's number has the matrix in the bits from here on
BLOCKS = HIDDEN // 32
DOWN_BLOCKS = INNER // 32 // 4  # of a quarter
WARPS = 8


def layer_blocks() -> torch.Tensor:
    """[C, B] int32: which block of which matrix stands where, for every layer alike; a matrix's rows one by one."""
    matrix = {
        which: torch.arange(rows * blocks).view(rows, blocks) + (which << MATRIX_BIT)
        for which, rows, blocks in (
            (QKV, HEADS_AND_KEYS * HEAD, BLOCKS),
            (OUT, HIDDEN, BLOCKS),
            (GATE_UP, 2 * INNER, BLOCKS),
            (DOWN, HIDDEN, INNER // 32),
        )
    }
    gate, up = matrix[GATE_UP].view(2, CTAS, INNER // CTAS, BLOCKS)
    eights = torch.cat([gate[:, :64].reshape(-1, 8, BLOCKS), up[:, :64].reshape(-1, 8, BLOCKS)], dim=1)
    sixes = torch.cat([gate[:, 64:], up[:, 64:]], dim=1)
    parts = (
        tiles(matrix[QKV][rotated_rows()]),
        tiles(matrix[OUT].view(CTAS, -1, BLOCKS)),
        tiles(eights).view(CTAS, -1),
        tiles(sixes),
        down_tiles(matrix[DOWN]),
    )
    return torch.cat(parts, dim=1).to(torch.int32)


def rotated_rows() -> torch.Tensor:
    """[C, 16]: each CTA's rows of q|k|v: 8 dimensions of a head, and the 8 that they are rotated with."""
    cta = torch.arange(CTAS)
    first = cta // 8 * HEAD + cta % 8 * 8
    eight = torch.arange(8)
    return first.unsqueeze(1) + torch.cat([eight, eight + HEAD // 2])


def tiles(rows_TRB: torch.Tensor) -> torch.Tensor:
    """[tiles, rows, 48 blocks] as a tile's blocks stand in memory, [tiles, blocks]."""
    count, rows, _ = rows_TRB.shape
    return rows_TRB.view(count, rows, WARPS, 3, 2).permute(0, 3, 2, 4, 1).reshape(count, -1)


def down_tiles(rows_HB: torch.Tensor) -> torch.Tensor:
    """[1536, 280 blocks] as the CTAs' tiles of down stand in memory, [C, blocks]."""
    first = [9 * warp if warp < 6 else 54 + 8 * (warp - 6) for warp in range(WARPS)]
    in_pairs = [first[warp] + 2 * stage + unit for stage in range(4) for warp in range(WARPS) for unit in range(2)]
    order = torch.tensor(in_pairs + [first[warp] + 8 for warp in range(6)])
    cut = rows_HB.view(CTAS // 4, 3, 16, 4, DOWN_BLOCKS).permute(0, 3, 1, 4, 2)  # [group, quarter, tile, block, row]
    return cut[:, :, :, order].reshape(CTAS, -1)


def packed_features() -> torch.Tensor:
    """[32]: the feature that stands at each place of a block; the inverse of `packed`."""
    features = torch.arange(32)
    place = (features >> 1 & 3) << 3 | (features >> 4 & 1) << 2 | (features >> 3 & 1) << 1 | features & 1
    return place.argsort()
