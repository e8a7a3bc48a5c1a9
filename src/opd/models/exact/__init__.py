"""The forward pass whose log-probabilities are the sampler's, to the last bit. docs/exact.md has the order of sums.

order.py       what an order of sums is made of; there are two
sliced/        that of the persistent kernel
chained/       that of the graphs: for every decoder that the engine runs
model.py       which of them a model gets
trial.py       whether the chip sums alike, asked before step one
layers.py      a model's layers done by one
gradients.py   the way back, which is the ordinary one; gate_kernel.py is a part of it
"""
