"""Many attempts as a table, on a page and in a terminal."""
