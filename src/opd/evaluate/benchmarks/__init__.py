"""One file a benchmark; the file's name is the benchmark's name."""
