"""The sinks, a file each; see `train/sink.py`."""
