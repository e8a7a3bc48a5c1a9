"""Why a workspace or a patch is not accepted: each reason has a path, a rule, what was found and what to do."""

from collections.abc import Iterable
from enum import StrEnum

from opd.records.errors import AnswerIsNo
from opd.records.settings import Settings

_SAID = 5  # refusals that an error's one line spells out; all of them are in its `refusals`


class Rule(StrEnum):
    """The rules that a submission keeps."""

    # what stands in the workspace and no patch can carry, or none may
    LINK = "no links"
    SPECIAL = "regular files only"
    HARD_LINK = "one name for a file"
    EMPTY_FOLDER = "no empty folders"
    REPOSITORY = "no repository inside"
    READABLE = "readable"
    STEADY = "nothing writes while it is read"
    BOUNDED = "bounded"
    # the form of the patch
    CHANGED = "something is changed"
    PATCH_SIZE = "largest patch"
    FORM = "git's own form"
    TRANSPORT = "bytes as they were made"
    APPLIES = "applies exactly"
    REPRODUCES = "base and patch give the workspace"
    # what it may do
    PATH = "paths inside the workspace"
    SURFACE = "editable surface"
    MODE = "mode 100644 or 100755"
    GIT_FILE = "no files that steer git"
    CASE = "names that differ in more than case"
    FILE_SIZE = "largest file"
    SUFFIX = "names of source"
    TEXT = "source is text"
    WEIGHTS = "no weights"
    COMPILED = "no compiled code"
    DATA = "no data"


class Refusal(Settings):
    """One reason."""

    path: str
    """As `records.trees.written` writes it; empty when the whole is meant."""
    rule: Rule
    found: str
    """What there is, with its numbers."""
    remedy: str
    """What to do."""

    @property
    def sentence(self) -> str:
        """All of it on one line, in characters that a terminal only shows."""
        place = f"{self.path}: " if self.path else ""
        said = f"{place}{self.found} (rule: {self.rule}); {self.remedy}"
        return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in said)


class Refused(AnswerIsNo):
    """A patch or a workspace was not accepted; the reasons are in `refusals`, the first ones in the message."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        more = len(self.refusals) - _SAID
        said = [one.sentence for one in self.refusals[:_SAID]] + ([f"and {more} more"] if more > 0 else [])
        super().__init__(" | ".join(said))
