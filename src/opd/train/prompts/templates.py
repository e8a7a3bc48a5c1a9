"""Templates of the user's turn that go by a name: `data.prompt = "boxed"`.

A name stands for its text from the moment that a recipe is read: a recipe that says `boxed` and one that has the text
are one recipe, with one digest, whatever a later version calls it.
"""

from collections.abc import Mapping

from opd.models.chat import PROBLEM
from opd.records.errors import AskedWrongly

TEMPLATES: Mapping[str, str] = {
    "plain": PROBLEM,
    "boxed": f"{PROBLEM} Please reason step by step, and put your final answer within \\boxed{{}}.",
    "dapo": (  # of DAPO-Math-17k, which the reference recipe trains on
        "Solve the following math problem step by step. The last line of your response should be of the form "
        "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
        f'{PROBLEM}\n\nRemember to put your answer on its own line after "Answer:".'
    ),
}


def template_text(given: str) -> str:
    """The text that a name stands for; a text with `{problem}` in it as it is. Anything else is refused."""
    if given in TEMPLATES:
        return TEMPLATES[given]
    if PROBLEM not in given:
        raise AskedWrongly(
            f"prompt {given!r}: {PROBLEM} must stand in it exactly once, or it names a template: "
            f"{', '.join(TEMPLATES)}"
        )
    return given
