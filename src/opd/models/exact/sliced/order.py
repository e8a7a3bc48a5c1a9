"""The order of the persistent kernel."""

from opd.models.exact.order import Order
from opd.models.exact.sliced.operations import TILE_QUERIES, attend, gate, norm, token_logp, turn
from opd.models.exact.sliced.prefill import ways
from opd.models.exact.sliced.products import product
from opd.models.exact.trial import by_sampling

SLICED = Order(
    steps="persistent kernel",
    persistent=True,
    product=product,
    norm=norm,
    turn=turn,
    gate=gate,
    attend=attend,
    tile_queries=TILE_QUERIES,
    token_logp=token_logp,
    ways=ways,
    trial=by_sampling,
)
