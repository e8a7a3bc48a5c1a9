"""What is known of a checkpoint before it is evaluated: that it counts, that it is what it says, that it loads."""

from enum import StrEnum

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.records.settings import Settings

TOKENIZER_FILES = (
    "tokenizer*",
    "vocab*",
    "merges*",
    "tekken.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template*",
    "*.jinja",
)
"""Names of what a tokenizer is made of, as globs: a checkpoint's are the start's own, byte for byte."""


class Numbered(Settings):
    """A checkpoint's folder, by its progress."""

    step: NonNegativeInt
    """The number in its name, which grows with progress."""
    folder: str
    """Relative to where `run.sh` ran."""

    @property
    def key(self) -> str:
        """The name that its receipts go by: step-002080."""
        return f"step-{self.step:06d}"


class Found(Settings):
    """What lay where checkpoints belong."""

    checkpoints: tuple[Numbered, ...]
    """Those that count, by step: at most as many as the task takes, with the greatest numbers."""
    passed_over: dict[str, str]
    """What else lay there, with the reason why it doesn't count."""


class Rule(StrEnum):
    """What a checkpoint's folder has to keep, before any of it is loaded."""

    ENTRIES = "entries"  # a handful of files, and none of them beyond the task's list
    LINK = "link"  # no symbolic link, and no second name for a file
    SPECIAL = "special"  # nothing but files: no folder, FIFO, socket or device
    CODE = "code"  # none, and no key that asks for some
    PICKLE = "pickle"  # weights are safetensors; other formats can run code
    SIZE = "size"
    UNREADABLE = "unreadable"
    CHANGED = "changed"  # nobody writes while it is checked
    JSON = "json"
    CONFIGURATION = "configuration"  # the start's architecture and shape
    TOKENIZER = "tokenizer"  # the start's own files
    MARK = "mark"  # a `.complete` names every file with its digest
    HEADER = "header"
    COVERAGE = "coverage"  # tensors lie end to end, from the header to the end of the file
    DTYPE = "dtype"
    INDEX = "index"  # shards are all there, and each tensor lies where the index says
    NAMES = "names"  # the start's tensors, all and no others
    SHAPE = "shape"
    FINITE = "finite"
    START = "start"  # it is not the start
    COPY = "copy"  # and not another input either


class Fault(Settings):
    """A rule that a checkpoint breaks."""

    rule: Rule
    path: str
    """The file, or empty for the folder as a whole."""
    says: str
    """The value, the rule, and where it helps what to do."""

    @property
    def sentence(self) -> str:
        """The fault on one line."""
        return f"{self.path}: {self.says}" if self.path else self.says


class Comparison(Settings):
    """A checkpoint's values beside those of an input, over the tensors that both have in one shape.

    Two values are equal when one is the other, cast to its dtype: float32 and what bfloat16 makes of it are.
    """

    input: str
    """start, teacher …"""
    input_sha256: str | None
    """Of the input's folder, as it was locked."""
    tensors: NonNegativeInt
    equal_tensors: NonNegativeInt
    parameters: NonNegativeInt
    equal_parameters: NonNegativeInt
    distance: NonNegativeFloat | None
    """Euclidean, between all parameters of the two; null where it overflows."""
    start_distance: NonNegativeFloat | None = None
    """From this input to the start, over the same tensors; null for the start itself."""
    distinct_parameters: NonNegativeInt = 0
    """In which this input differs from the start; 0 for the start itself."""
    taken_parameters: NonNegativeInt = 0
    """Of those, how many lie within a quarter of that difference of this input's value."""


class Structure(Settings):
    """What the files of a checkpoint are, by their headers and values; none of it was loaded as a model."""

    bytes: NonNegativeInt | None
    """Of all files. This and what follows is null or empty where a fault came before the values."""
    tensors: NonNegativeInt | None
    parameters: NonNegativeInt | None
    """A tied head counted once."""
    dtypes: dict[str, NonNegativeInt]
    """Parameters by the dtype that they are stored in."""
    tensor_sha256: str | None
    """Over names, dtypes, shapes and bytes of the tensors, whatever files they lie in."""
    compared: tuple[Comparison, ...]
    """With each input, the start first."""
    faults: tuple[Fault, ...]

    @property
    def valid(self) -> bool:
        """Whether it may be loaded."""
        return not self.faults


class Loaded(Settings):
    """What `opd load` says of a directory: whether it is, for everybody, the model that it should be."""

    parameters: NonNegativeInt | None
    """A tied head counted once; null where no model came of it."""
    expected_parameters: NonNegativeInt | None
    """What the configuration of the model that it should be like asks for."""
    dtype: str | None
    vocabulary: NonNegativeInt | None
    """Logits a token."""
    infinite_parameters: NonNegativeInt | None
    """Infinite or NaN."""
    finite_logits: bool | None
    """Of one forward pass."""
    tokens: NonNegativeInt | None
    """That the forward pass was over."""
    seconds: NonNegativeFloat
    machine: dict[str, str]
    faults: tuple[str, ...]
    """What is wrong, each a sentence; empty when all holds."""

    @property
    def valid(self) -> bool:
        """Whether it is."""
        return not self.faults
