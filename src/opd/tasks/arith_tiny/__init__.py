"""Chain arithmetic: the task that ships whole, for machines without a GPU or a network.

    problems.py    a seed → problems, their exact and their sloppy solutions, the three sets
    tokenizer.py   bytes, digits and a few words, with a chat template that opens the reasoning
    training.py    supervised steps on written-out solutions, and where the students branch off
    sampling.py    answers at temperature 1 by transformers, and the share that is right
    models.py      all of it once: the program that made student/ and teacher/
    final.jsonl  proxy.jsonl  train.jsonl      500, 500 and 2,000 problems, disjoint
    student/  teacher/                         complete Hugging Face directories
    provenance.json                            what made them, their digests and their scores

The harder pair, `arith_gap`, shares the problems, the tokenizer and the teacher.
"""
