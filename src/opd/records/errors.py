"""The two ways in which a command says no; the command line turns them into exit codes.

Anything else that is raised is a bug here, or a machine's failure, and is reported as such.
A message gives the value, the rule, and what to do.
"""


class OpdError(Exception):
    """What a person reads on one line, without a traceback."""

    exit_code = 1
    said_elsewhere = False  # by another process of the same run, in these words


class AskedWrongly(OpdError, ValueError):
    """The question can't be answered as it was put: a missing file, an unknown key, a value out of range."""

    exit_code = 2


class AnswerIsNo(OpdError):
    """The question was fine and the answer is no: a check failed, a digest differs, a run did not finish."""

    exit_code = 1
