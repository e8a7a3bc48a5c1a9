r"""The public rule grader's behaviour, for comparability: what it accepts and refuses, mistakes included.

Many published scores of math reasoners rest on one grader (JustRL, POLARIS and DeepScaleR call it
`grade_answer_verl`): the last `\boxed{…}` equals the gold when the normalisation of Hendrycks et al. (MATH, 2021)
makes them the same text, or when the checker of Lightman et al. (PRM800K, 2023) finds them equal. This is that
behaviour, described and written anew:

    rules.py        response → box → verdict; lists item by item; integers and fractions as text
    forms.py        the two normal forms
    plaintext.py    LaTeX → plain characters, as the reference's converter does it
    formula.py      plain characters → a sympy formula, in the worker processes

It differs from the house rules on purpose: an unreduced fraction is refused, an integer needs an integer, lists
have an order, unit names count for nothing, and `52_8` is 528. Where the reference hands its text to a parser that
runs it as code, a grammar reads it here; `docs/grading.md` lists what follows from that.
"""
