"""The operations of a decode step as Triton kernels, one small file each. `table.py` has them under their names.

    products.py    q|k|v, output and down projections in slices; gate|up with silu × up
    attention.py   rotation, write into the pools, attention over pages
    norms.py       residual sum and norm; the embedding's row
    logits.py      the head, and the sums of the vocabulary's blocks
    cuts.py        top-k, top-p, min-p
    draws.py       the token of a uniform number
    bookkeeping.py  positions → places in the pools; the board after a step
    plan.py        which tile for which number of rows
    launch.py      dependent launches, and what is asked of the L2 ahead

Each kernel is tested against the operation of the same name, in Triton's interpreter and on a GPU.
"""
