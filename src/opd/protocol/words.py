"""Strangers' words, made fit for a line of a terminal: what programs print and explorers say is shown to people."""


def one_line(text: str, *, most: int) -> str:
    """The text on one line without control characters, so that it can neither move a cursor nor end a line; cut."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(plain.split())[:most]
