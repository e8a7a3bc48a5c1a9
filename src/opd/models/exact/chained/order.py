"""The order of the graphs."""

from functools import partial

from opd.models.exact.chained.operations import TILE_QUERIES, attend, gate, norm, product, token_logp, turn
from opd.models.exact.chained.steps import gate as gate_of_steps
from opd.models.exact.chained.steps import ways
from opd.models.exact.order import Order
from opd.models.exact.trial import by_products

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
    trial=partial(by_products, product=product, gate=gate, gate_of_steps=gate_of_steps),
)
