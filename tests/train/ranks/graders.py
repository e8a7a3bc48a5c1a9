"""A grader by which random answers are right now and then."""


def of_even_length(response: str, answer: str) -> bool:
    """Whether the response has an even number of characters."""
    return len(response) % 2 == 0
