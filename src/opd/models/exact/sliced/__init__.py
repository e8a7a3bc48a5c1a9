"""The order of the persistent kernel, whose products are cut into slices, for Qwen2 at 1.5B.

Its kernels are in engine/persistent/cuda: forward.cu and sliced.cuh, which share the sampler's arithmetic.

products.py    matrix products, in slices that are added in order
operations.py  norm, rotation, gate, attention, log-probabilities
prefill.py     the engine's prefill done by them
order.py       all of it as an `Order`
"""
