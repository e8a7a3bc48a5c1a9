"""What is behind a score, as a page, as Markdown and on a terminal."""
