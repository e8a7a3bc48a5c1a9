"""Many attempts side by side, once all of them hold.

finding.py     which attempts the paths mean, each verified
standing.py    what one has come to
table.py       the table, task by task
pairing.py     whether the leading case can be told from the others, by the install's own `opd compare`
"""
