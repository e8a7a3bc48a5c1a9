"""Whole decode steps of up to 8 sequences in one CUDA kernel. docs/persistent.md tells the story of a step.

fit.py       whether a machine and a decoder suit it, with the reason
build.py     the library: compiled at first use, kept by the digest of its sources
program.py   what a launch is given, as C sees it
layout.py    in which order the kernel reads the weights
steps.py     a window of the engine as launches; pages and weights laid out for it
cuda/        the kernel
"""
