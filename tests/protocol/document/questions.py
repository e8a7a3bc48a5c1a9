"""Sixty made-up problems in the place of the final's, and 15,285 made-up rows in the place of the training data.

Each problem has a place and a thing that no other has, so that its text points to it alone. They are contest problems
in tone and length, and nobody's: the real ones are not needed to see whether a text was leaked.
"""

import json
from functools import cache
from pathlib import Path

from tests.protocol.document.facts import TRAINING_ROWS

FILES = ("aime24.jsonl", "aime25.jsonl")

_PLACES = """
Aberfeldy Bellinzona Cuxhaven Dornbirn Eskilstuna Fredrikstad Gmunden Hallein Imatra Jyväskylä Klosters Landshut
Mariehamn Nordhausen Oulu Passau Quimper Ravenna Skellefteå Tartu Uppsala Viborg Winterthur Ystad Zutphen Alkmaar
Bregenz Chur Delft Ebensee Faro Görlitz Husum Ioannina Jena Kalmar Lund Modena Narvik Olbia Porvoo Querfurt
Rovaniemi Sligo Trento Umeå Verden Wismar Xanthi Yverdon Zadar Assisi Bautzen Coburg Dinant Emden Fulda Gouda
Hamar Ilmenau
"""
_THINGS = """
lanterns barrels mosaics violins anchors kites ledgers looms canoes beehives clocks bridges orchards windmills
chimes wagons ferries tunnels turrets gardens statues quilts compasses telescopes umbrellas chandeliers bicycles
trellises aqueducts lighthouses sundials organs carousels vineyards greenhouses staircases fountains obelisks
tapestries sleighs gondolas cabinets archways pavilions towers harbours paddocks granaries foundries kilns presses
cellars balconies courtyards meadows ramparts causeways sluices jetties belfries
"""
_ASKED = """
A guild in {place} numbers its {n} {thing} from one upward and marks every one whose number leaves remainder {a}
on division by {b}. An apprentice then takes the marks off again wherever the digits of the number add up to a
multiple of {c}. How many {thing} of {place} are still marked in the evening?

Along the canal of {place} stand {n} {thing}, and a walker paints them in {b} colours so that no two that lie {a}
apart share one. Let $N$ be the number of ways to paint all {thing} of {place}. What is the remainder of $N$ when
it is divided by ${c}$?

The {thing} of {place} are drawn on a circle of radius ${n}$, at equal distances, {b} of them. A chord joins two
of them exactly when {a} others lie between them on one side. Determine the number of points inside the circle of
{place} at which at least {c} of these chords meet.

In {place} each of {b} merchants owns some of {n} {thing}, no two the same number, and the three richest own {a}
more than all the others together. What is the least number of {thing} that the poorest merchant of {place} can
own, if none of them owns fewer than {c}?
"""


def problem(number: int) -> str:
    """The text of a final question, by its number from 0 to 59."""
    values = {"n": 211 + 37 * number, "a": 3 + number % 7, "b": 11 + number % 13, "c": 5 + number % 6}
    asked = _ASKED.strip().split("\n\n")
    text = " ".join(asked[number % len(asked)].split())
    return text.format(place=_PLACES.split()[number], thing=_THINGS.split()[number], **values)


def answer(number: int) -> str:
    """Its answer, from 0 to 999."""
    return str((number * 137 + 29) % 1000)


def question_id(number: int) -> str:
    """Its name, as the benchmark's files have it."""
    year, within = 24 + number // 30, number % 30
    return f"aime{year}-{'I' if within < 15 else 'II'}-{within % 15 + 1:02d}"


def write_questions(folder: Path) -> None:
    """The two files of the final, thirty questions each."""
    folder.mkdir(parents=True)
    for file, first in zip(FILES, (0, 30), strict=True):
        rows = [
            {"id": question_id(number), "problem": problem(number), "answer": answer(number)}
            for number in range(first, first + 30)
        ]
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_training_rows(path: Path) -> None:
    """As many rows as the task has, none of which holds a final question."""
    path.write_text(_training_rows(), encoding="utf-8")


@cache
def _training_rows() -> str:
    rows = (
        {"problem": f"What is {7 * row + 3} + {5 * row + 11}?", "answer": str(12 * row + 14), "projection": "train"}
        for row in range(TRAINING_ROWS)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)
