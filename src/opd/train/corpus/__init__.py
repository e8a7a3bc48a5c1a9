"""What can be said about a set of problems by reading it: duplicates, overlap with benchmarks. Text only."""
