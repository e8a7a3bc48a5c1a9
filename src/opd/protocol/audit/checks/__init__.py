"""One file a check, which exports CHECK; the file's name is the check's name."""
