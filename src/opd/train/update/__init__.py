"""From scored rollouts to moved weights: the only place that sums, divides and steps."""
