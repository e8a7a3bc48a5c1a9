"""What numbers of right and wrong answers say, and how surely: estimates, intervals, tests. No file is read."""
