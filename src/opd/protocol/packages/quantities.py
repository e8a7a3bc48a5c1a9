"""Times and sizes as a person reads them, exact and with their unit."""


def seconds(value: float) -> str:
    """A time, and once more in hours or minutes where they are whole: `14,400 s (4 h)`."""
    said = f"{value:,.12g} s"
    for unit, length in (("h", 3_600), ("min", 60)):
        if value >= length and value % length == 0:
            return f"{said} ({value / length:,g} {unit})"
    return said


def size(value: int) -> str:
    """A number of bytes, and once more in a larger unit where it is whole: `1,048,576 bytes (1 MiB)`."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= length and value % length == 0:
            return f"{value:,} bytes ({value // length:,} {unit})"
    return f"{value:,} bytes"
