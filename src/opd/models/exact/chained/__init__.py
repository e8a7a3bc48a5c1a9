"""The order of the graphs: a product is one chain over its columns, attention goes through stretches of 128 keys.

products.py    the product, for a few rows and for many
rows.py        norm, rotation, gate, log-probabilities
attention.py   attention of a step's rows, and of tiles of queries
operations.py  the trainer's operations, by these kernels
steps.py       the engine's, by the same
order.py       all of it as an `Order`
"""
