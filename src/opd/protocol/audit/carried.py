"""How much a patch's added text carries beyond what programs and settings say: weights and data hardly compress.

A program of 100 KB comes to a quarter of that. Weights come to what they are, whatever digits they are written in.
"""

import re
import zlib

from opd.protocol.audit.evidence import Carried

MOST_BYTES = 32 << 10  # after zlib, or of digits: a model of this size is none, and a program of 120 KB is
_DIGITS = re.compile(rb"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~/,.:\[\]\\-]{40,}")  # of base64, base85 and Ascii85
_LEAST_KINDS = 20  # a rule across the page has one, a path a dozen


def carried(patch: bytes) -> Carried:
    """What of the patch a compression leaves of the lines that it adds."""
    lines = [
        line[1:]
        for line in patch.split(b"\n")
        if line.startswith(b"+") and not line.startswith((b"+++ b/", b"+++ /"))
    ]
    digits = sum(len(run) for line in lines for run in _DIGITS.findall(line) if len(set(run)) >= _LEAST_KINDS)
    text = b"\n".join(lines)
    return Carried(added_bytes=len(text), packed_bytes=len(zlib.compress(text, 9)) if text else 0, digits=digits)
