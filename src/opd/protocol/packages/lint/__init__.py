"""What is wrong with a task before anybody has worked on it: `check.check` gives all of it at once.

findings.py    what a finding is, and the rules that there are
lines.py       where in task.toml a key stands
rules.py       what the contract says, against itself and against a declared benchmark
questions.py   what the files at hand say: digests, and final questions in a text that the explorer gets
packages.py    a rendered package against its task.toml, and any folder against links that lead out
"""
