"""What a supervisor that was itself killed may have left behind: found by the mark of its launch, and ended."""

from opd.protocol.sandbox import cgroups
from opd.protocol.supervision import processes
from opd.protocol.supervision.processes import Life


def end_left(mark: str) -> tuple[Life, ...]:
    """Ends what is left of a launch, and names it; its control group, if there still is one, is gone as well.

    Found by that group, and by the mark in the environment; both are looked at until neither shows anything.
    """
    group = cgroups.find(mark)
    found: dict[int, Life] = {}

    def left() -> tuple[Life, ...]:
        members = processes.lives_of(group.members()) if group is not None else ()
        now = {life.pid: life for life in (*members, *processes.marked(mark))}
        found.update(now)
        return tuple(now.values())

    left()
    if group is not None:
        group.kill()
    processes.end(left)
    if group is not None:
        group.remove()
    return tuple(found.values())
