"""A shape for the persistent kernel that is small, with more than one key head a group and norms of heads."""

from opd.models.engine.persistent.cut import Cut

SMALL = Cut(hidden=512, inner=1_536, heads=8, key_heads=4, head=64, normed=True)
