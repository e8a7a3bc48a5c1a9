"""What the evaluations ask for, for the verbs that train: to say when training asks otherwise."""

from collections.abc import Mapping
from importlib.util import find_spec


def instructions() -> Mapping[str, tuple[str, str]]:
    """The data and the prompt of each benchmark, by name; empty in an attempt's workspace, which has no judge."""
    if find_spec("opd.evaluate") is None:
        return {}
    from opd.evaluate.benchmark import instructions as of_benchmarks

    return of_benchmarks()
