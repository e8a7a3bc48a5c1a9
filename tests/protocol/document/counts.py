"""Correct answers by question, made up so that their sum and their clustered error are the printed ones.

With k_q of K samples right and Q questions, the error is √((Σk² - (Σk)²/Q) / ((Q - 1) K² Q)). Σk is printed; Σk² is
the whole number, odd or even as Σk, that the printed error rounds from: to six digits there is exactly one for each
score of the document.
"""

import math
from functools import cache
from random import Random


def stderr(correct: int, squares: int, *, questions: int, samples: int) -> float:
    """Clustered standard error of the mean, from Σk and Σk²."""
    spread = squares - correct**2 / questions
    return math.sqrt(spread / ((questions - 1) * samples**2 * questions))


def squares_of(correct: int, printed: float, *, questions: int, samples: int) -> int:
    """The Σk² whose error is nearest to the printed one."""
    near = round(printed**2 * (questions - 1) * samples**2 * questions + correct**2 / questions)
    candidates = [one for one in range(near - 3, near + 4) if (one - correct) % 2 == 0]
    return min(
        candidates,
        key=lambda one: abs(stderr(correct, one, questions=questions, samples=samples) - printed),
    )


def difficulties(questions: int, *, mean: float, seed: int) -> tuple[float, ...]:
    """The chance of each question, for all models of a family alike: some never, many always, some between."""
    random = Random(seed)
    never, always = 0.55 * (1 - mean), 0.72 * mean
    found = []
    for _ in range(questions):
        kind = random.random()
        if kind < never:
            found.append(0.04 * random.random())
        elif kind < never + always:
            found.append(0.95 + 0.05 * random.random())
        else:
            found.append(0.1 + 0.8 * random.random())
    return tuple(found)


@cache
def counts(chances: tuple[float, ...], *, samples: int, correct: int, printed: float, seed: int) -> tuple[int, ...]:
    """k_q for each question, drawn by its chance and then moved, one answer at a time, to the two sums."""
    random = Random(seed)
    found = [sum(random.random() < chance for _ in range(samples)) for chance in chances]
    target = squares_of(correct, printed, questions=len(chances), samples=samples)
    places = range(len(found))
    while (missing := correct - sum(found)) != 0:
        place, step = random.choice(places), 1 if missing > 0 else -1
        if 0 <= found[place] + step <= samples and 0 < found[place] < samples:
            found[place] += step
    while (missing := target - sum(count * count for count in found)) != 0:
        up, down = random.choice(places), random.choice(places)
        change = 2 * (found[up] - found[down] + 1)
        allowed = up != down and found[up] < samples and found[down] > 0
        if allowed and change and abs(missing - change) < abs(missing):
            found[up] += 1
            found[down] -= 1
    return tuple(found)
