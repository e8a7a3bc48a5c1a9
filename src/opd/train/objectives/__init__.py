"""One file an objective; the file's name is the objective's name."""
