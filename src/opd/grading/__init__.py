r"""From a text to a verdict. No tensors. Below `train` (reward) and `evaluate` (official score).

    rows.py        a file of responses → verdicts, line by line
    grader.py      the door: responses and golds in, judgements out
    identity.py    which grader that is, to the byte
    answers.py     response → the answer as it stands
    folding.py  lexer.py  tokens.py  vocabulary.py     answer → tokens
    cursor.py  formula.py  brackets.py  numerals.py  grammar.py  trees.py      tokens → tree
    equality.py  structure.py  units.py  choices.py  exact.py                  are two trees the same answer?
    sets.py  conditions.py  realsets.py                                        and the same set?
    reference/     the public rule grader's behaviour, beside these rules
    pool.py        processes that can be killed; in them alone:
    worker.py  numeric.py  evaluation.py  symbolic.py  reference/formula.py

The house rules:

 1. The answer is the last complete `\boxed{}` or `\fbox{}`, wherever it stands; boxes with nothing but commas
    or "and" between them form one list.
 2. If the last opened box is not closed, or empty, there is no answer. A mention of the command is no box.
 3. Without a box there is no answer; nothing is mined from prose.
 4. Equality of value. Rounded decimals do not equal exact golds; there is no tolerance.
 5. Units and words such as percent, degree, dollars or ordinals are ignored when only one side has them; two
    different units differ; single letters are variables.
 6. Bare lists and sets are unordered, parentheses ordered; brackets of intervals matter; a condition on
    one variable equals its interval.
 7. Text counts without case and wrappers.
 8. x = 5 equals 5.
 9. Identical answers, layout aside, are equal without evaluation; an empty or unreadable gold equals nothing else.
10. A response that the limit cut short is graded as any other if it has a complete box.
11. A box inside the reasoning counts, and is reported.
"""
