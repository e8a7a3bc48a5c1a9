r"""What a judge is made of; `evaluate/judge.py` is the door.

prompt.py      question, gold and the answer part of a response  →  the user's turn that the judge reads
local.py  server.py  recorded.py      that turn  →  a reply, or the reason why there is none
reply.py       a reply  →  correct or wrong, read strictly or tolerantly, or why it says nothing
settings.py    which judge, what is referred to it, and what it is shown
exchange.py    the nouns that pass between these files
"""
