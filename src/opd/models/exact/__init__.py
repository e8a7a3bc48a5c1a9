"""The forward pass whose log-probabilities are the sampler's, to the last bit. docs/exact.md has the order of sums.

products.py    matrix products, in slices that are added in order
operations.py  norm, rotation, gate, attention, log-probabilities: kernels that share the sampler's arithmetic
gradients.py   the same with a way back, which is the ordinary one
layers.py      a model's layers done by them
prefill.py     the engine's prefill done by them
"""
