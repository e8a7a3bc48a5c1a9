"""Whether the final's questions stand anywhere in an attempt, under whatever wrapping its files have."""
