"""Samples that other harnesses wrote, read as our rows. One file each; `results.py` tells them apart."""
