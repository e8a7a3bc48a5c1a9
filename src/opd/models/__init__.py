"""Whatever runs a model: loading, sampling, scoring, log-probabilities, export."""
