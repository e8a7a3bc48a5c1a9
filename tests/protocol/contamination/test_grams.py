"""The sieve against its slow definition."""

import random

import numpy as np

from opd.protocol.contamination.grams import GRAM, LEAST, STRIDE, Sieve, grams

ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789"


def text(rng: random.Random, length: int) -> bytes:
    return bytes(rng.choices(ALPHABET, k=length))


def test_equal_runs_have_equal_numbers_and_others_have_not() -> None:
    rng = random.Random(1)
    one = text(rng, 3_000) * 2  # every run of the first half stands again in the second
    numbers = grams(one).tolist()
    runs = [one[at : at + GRAM] for at in range(len(one) - GRAM + 1)]
    assert len(numbers) == len(runs)
    assert len(set(numbers)) == len(set(runs))
    assert len(set(zip(numbers, runs, strict=True))) == len(set(runs))


def test_a_text_shorter_than_a_run_has_none() -> None:
    for length in range(GRAM + 3):
        assert len(grams(b"x" * length)) == max(0, length - GRAM + 1)


def test_a_shared_stretch_of_39_letters_is_found_wherever_it_stands() -> None:
    rng = random.Random(2)
    needle = text(rng, 200)
    sieve = Sieve([grams(text(rng, 100)), grams(needle)])
    least = GRAM - 1 + LEAST * STRIDE
    assert least == 39
    for place in range(40):
        start = rng.randrange(len(needle) - least)
        shared = needle[start : start + least]
        assert sieve.found(text(rng, place) + shared + text(rng, 300)) == (1,)


def test_a_run_of_half_that_length_is_passed_over() -> None:
    rng = random.Random(3)
    needle = text(rng, 200)
    sieve = Sieve([grams(needle)])
    for _ in range(40):
        start = rng.randrange(170)
        assert sieve.found(text(rng, 500) + needle[start : start + 20] + text(rng, 500)) == ()


def test_texts_that_share_runs_are_both_found() -> None:
    rng = random.Random(4)
    needle = text(rng, 120)
    sieve = Sieve([grams(needle), grams(needle + text(rng, 50)), grams(text(rng, 90))])
    assert sieve.found(text(rng, 77) + needle) == (0, 1)
    assert Sieve([]).found(needle) == ()
    assert Sieve([np.empty(0, np.uint64)]).found(needle) == ()
