"""The contract of a task for a person: of one of ours, of the public AI4AI-Bench layout, or of any Harbor task.

explanation.py    what is said, whatever the task's form
task.py           one of ours
bench.py          the AI4AI-Bench layout, by its task.toml and its declaration.py
harbor.py         any other Harbor task
literals.py       Python source read as data; nothing of it runs
folder.py         which of these a folder is
"""
