"""The harder pair: a student that lacks knowledge where the one of `arith_tiny` lacks certainty.

`student/` left the teacher's own training at step 220 of 700 and never saw a wrong solution. Problems,
tokenizer and teacher are those of `arith_tiny`, whose `models.py` makes all three models in one run.
"""
