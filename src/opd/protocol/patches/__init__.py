"""A submission is a patch: the workspace laid out, read from the disk, derived, checked, applied."""
