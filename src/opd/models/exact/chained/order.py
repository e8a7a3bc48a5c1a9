"""The order of the graphs."""

from opd.models.exact.chained.operations import TILE_QUERIES, attend, gate, norm, product, token_logp, turn
from opd.models.exact.chained.steps import ways
from opd.models.exact.order import Order

CHAINED = Order(
    steps="graphs",
    persistent=False,
    product=product,
    norm=norm,
    turn=turn,
    gate=gate,
    attend=attend,
    tile_queries=TILE_QUERIES,
    token_logp=token_logp,
    ways=ways,
)
