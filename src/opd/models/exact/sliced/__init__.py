"""The order of the persistent kernel, whose products are cut into slices: for the one shape that it runs.

products.py    matrix products, in slices that are added in order
operations.py  norm, rotation, gate, attention, log-probabilities: kernels that share the sampler's arithmetic
prefill.py     the engine's prefill done by them
order.py       all of it as an `Order`
"""
