"""From a checkpoint to a score with an error bar. Frozen: its digest is part of every score."""
