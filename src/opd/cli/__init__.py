"""One file for each verb: it parses, calls and prints. Heavy imports happen after parsing."""

import time

BEGAN = time.monotonic()  # as near to the start of the process as Python gets: `opd.cli.main` gives it to the verbs
