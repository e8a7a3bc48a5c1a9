"""One file for each verb: it parses, calls and prints. Heavy imports happen after parsing."""
