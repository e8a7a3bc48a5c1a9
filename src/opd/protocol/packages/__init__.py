"""Tasks: found, explained, looked over, and rendered as packages that Harbor runs."""
