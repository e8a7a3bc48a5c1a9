"""Boards, bars and lines: what a terminal shows while something runs."""
