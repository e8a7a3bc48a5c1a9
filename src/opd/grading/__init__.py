"""From a text to a verdict. No tensors. Below `train` (reward) and `evaluate` (official score)."""
