"""Runs as folders: found, summed up, told apart, and as objects of Python."""
