"""An attempt's report as a page: its text with each number's claim, and its pictures."""
