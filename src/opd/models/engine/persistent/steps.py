"""A window of decode steps as launches of the persistent kernel, and what has to be laid out before.

Shapes: as in `board.py`; L layers, V the tokenizer's ids.

    weights    laid out at the first window of a call: they may have changed since the last one
    pages      turned into fragments when the kernel takes over, and back before anyone reads them as rows:
               a prefill, a copy for a sibling, a step of the graphs. In place: there is one cache
    steps      all of a window in one launch where every token can be drawn; with top-k, top-p or min-p a launch a
               step for the logits, and the graphs' kernels for cut, draw and board
    guesses    a launch a step, whose rows are some of a sequence each: drafts/ says which, and keeps what is right
"""

from collections.abc import Mapping, Sequence

import torch

from opd.models.engine.drafts.operations import Ahead
from opd.models.engine.operations import Choice
from opd.models.engine.persistent import fit
from opd.models.engine.persistent.build import NotBuilt
from opd.models.engine.persistent.cut import CTAS, DOWN_SPLIT, TILE, WORKERS, Cut, blocks_in_order
from opd.models.engine.persistent.layout import bias_rows, layer_blocks, packed_features
from opd.models.engine.persistent.program import LaunchFailed, Params, Program
from opd.models.engine.requests import Request
from opd.models.engine.room import Room

LONG = 1_500  # tokens, from which memory is kept busier while CTAs wait for each other
IN_FLIGHT = 10  # half stages of 8 KB a CTA: measured; docs/log.md
IN_FLIGHT_WAITING = {"short": 3, "long": 4}


class PersistentSteps:
    """Does a room's windows when at most 8 requests run."""

    def __init__(self, room: Room) -> None:
        """For a model without a misfit. Raises `NotBuilt` where the room is one, or there is no library."""
        size = room.size
        if reason := fit.room_misfit(
            page_tokens=size.page_tokens,
            sequence_tokens=size.sequence_tokens,
            pages=size.pages,
            window=size.window,
        ):
            raise NotBuilt(reason)
        cut = fit.cut_for(room.shape)
        assert cut is not None, "only for a model without a misfit"
        self._room = room
        self._cut = cut
        self._program = Program(cut)
        self._turned: dict[Request, int] = {}  # how many of its pages are fragments
        self._laid_out = False
        self._memory = _memory(room, cut)
        self._blocks = layer_blocks(cut).to(room.cos_LD.device)
        self._head_blocks = torch.tensor(blocks_in_order(cut.hidden), dtype=torch.int32).to(room.cos_LD.device)
        self._matrices = _addresses(room)

    def begin(self) -> None:
        """A call begins, and with it perhaps other weights."""
        self._laid_out = False
        self._turned.clear()

    def takes(self, running: Sequence[Request]) -> bool:
        """Whether the kernel can do the next window of these."""
        return len(running) <= fit.ROWS

    @torch.inference_mode()
    def run(self, running: Sequence[Request], times: int) -> None:
        """So many steps of the board's first rows, one a request. A `LaunchFailed` says how many came before."""
        self.take_over(running)
        longest = max(request.tokens for request in running)
        board = self._room.board.first(len(running))
        lines = {
            **{name: getattr(board, f"{name}_B") for name in ("ids", "position", "left", "active")},
            **{name: getattr(board, f"{name}_BW") for name in ("uniform", "token", "logp", "raw_logp")},
            "table": board.table_BM,
            "tick": board.tick,
        }
        if self._room.sampling.full_support:
            self._program.decode(self._params(lines, rows=len(running), steps=times, longest=longest))
            return
        from opd.models.engine.kernels import table  # needs Triton, which the uncut distribution does not

        params = self._params(lines, rows=len(running), steps=1, longest=longest)
        logits_BV = self._logits(len(running))
        for step in range(times):
            try:
                self._program.decode(params)
            except LaunchFailed as error:
                error.steps = step
                raise
            uniform_B = board.uniform_BW.index_select(1, board.tick).squeeze(1)
            choice = table.choose_among(logits_BV, uniform_B, self._room.sampling)
            table.advance(board, choice, self._room.stop_V)

    def take_over(self, running: Sequence[Request]) -> None:
        """All that steps of these read is as the kernel reads it: the weights, and their pages."""
        if not self._laid_out:
            self.lay_out()
        self._turn_to_fragments(running)

    @torch.inference_mode()
    def choose(self, ahead: Ahead, *, span: int, longest: int) -> Choice:
        """What the rows of a step draw, `span` a sequence; their keys and values are in its pages.

        After `take_over` of the sequences. A row that does not live draws anything. Raises `LaunchFailed`.
        """
        rows, device, sampling = len(ahead.ids_N), ahead.ids_N.device, self._room.sampling
        token_N = torch.empty(rows, dtype=torch.int64, device=device)
        logp_N, raw_logp_N = torch.empty(2, rows, dtype=torch.float32, device=device)
        lines = {
            "ids": ahead.ids_N,
            "position": ahead.position_N,
            "active": ahead.lives_N,
            "table": ahead.table_NM,
            "uniform": ahead.uniform_N,
            "token": token_N,
            "logp": logp_N,
            "raw_logp": raw_logp_N,
        }
        self._program.decode(self._params(lines, rows=rows, span=span, steps=1, longest=longest))
        if sampling.full_support:
            return Choice(token_N=token_N, logp_N=logp_N, raw_logp_N=raw_logp_N)
        from opd.models.engine.kernels import table

        return table.choose_among(self._logits(rows), ahead.uniform_N, sampling)

    def _logits(self, rows: int) -> torch.Tensor:
        """Those of a launch that doesn't draw."""
        vocabulary = self._room.shape.vocabulary
        return self._memory["logits"][: rows * vocabulary].view(rows, vocabulary)

    def put_back(self, running: Sequence[Request]) -> None:
        """All pages of these are rows again, as everyone else reads them."""
        pages = {page for one in running for page in one.pages[: self._turned.get(one, 0)]}
        self._turn(dict.fromkeys(sorted(pages), fit.PAGE_TOKENS), to_fragments=False)
        self._turned.clear()

    def _turn_to_fragments(self, running: Sequence[Request]) -> None:
        used: dict[int, int] = {}  # tokens of each page
        for request in running:
            cached = request.tokens - 1
            for number in range(self._turned.get(request, 0), len(request.pages)):
                page, tokens = request.pages[number], cached - number * fit.PAGE_TOKENS
                used[page] = max(used.get(page, 0), min(max(tokens, 0), fit.PAGE_TOKENS))
        self._turn(used, to_fragments=True)  # where that is refused, they are rows still
        self._turned = {request: len(request.pages) for request in running}

    def _turn(self, tokens_of: dict[int, int], *, to_fragments: bool) -> None:
        if not tokens_of:
            return
        pools, device = self._room.pools, self._room.cos_LD.device
        both = torch.tensor([list(tokens_of), list(tokens_of.values())], dtype=torch.int32).to(device)
        how = {"pages": len(pools.keys[0]), "layers": len(pools.keys), "to_fragments": to_fragments}
        self._program.turn(pools.keys[0], pools.values[0], both[0], both[1], **how)

    @torch.inference_mode()
    def lay_out(self) -> None:
        """The kernel's copy of the weights says what the model's do."""
        weights, memory = self._room.weights, self._memory
        self._program.lay_out(
            *(self._matrices, self._blocks, weights.head_VH, self._head_blocks, memory["weights"]),
            layers=len(weights.layers),
        )
        norms = [norm for layer in weights.layers for norm in (layer.norm_H, layer.mlp_norm_H)]
        memory["norms"].copy_(_packed([*norms, weights.norm_H]))
        heads = [norm for layer in weights.layers for norm in (layer.qkv.q_norm_D, layer.qkv.k_norm_D)]
        if there := [norm for norm in heads if norm is not None]:
            memory["head_norms"].copy_(_packed(there))
        if biases := [layer.qkv.bias_E for layer in weights.layers if layer.qkv.bias_E is not None]:
            memory["bias"].copy_(torch.stack(biases)[:, bias_rows(self._cut).to(weights.norm_H.device)])
        self._laid_out = True

    def _params(
        self, lines: Mapping[str, torch.Tensor], *, rows: int, steps: int, longest: int, span: int = 1
    ) -> Params:
        """Of a launch whose rows have these lines: the board's, or those of a step with guesses."""
        room, memory = self._room, self._memory
        shape, draws = room.shape, room.sampling.full_support
        there = {
            **memory,
            **lines,
            "stop": room.stop_V,
            "embedding": room.weights.embedding_RH,
            "cos": room.cos_LD,
            "sin": room.sin_LD,
            "keys": room.pools.keys[0],
            "values": room.pools.values[0],
        }
        return Params(
            **{name: tensor.data_ptr() for name, tensor in there.items()},
            unwritten_bytes=memory["unwritten"].numel(),
            layers=shape.layers,
            positions=len(room.cos_LD),
            most_pages=_most_pages(room),
            steps=steps,
            rows=rows,
            span=span,
            table_width=lines["table"].shape[1],
            pages=len(room.pools.keys[0]),
            nobodys=room.pools.nobodys,
            vocabulary=shape.vocabulary,
            board_width=lines["token"].stride(0),
            in_flight=IN_FLIGHT,
            in_flight_waiting=IN_FLIGHT_WAITING["long" if longest >= LONG else "short"],
            draws=int(draws),
            logits_tile=TILE * fit.ROWS if draws else TILE,
            logits_row=TILE if draws else shape.vocabulary,
            epsilon=shape.epsilon,
            coldness=1.0 / room.sampling.temperature if draws else 1.0,
        )


def _most_pages(room: Room) -> int:
    """Of a sequence, with what a row that has ended runs beyond its limit until the window ends."""
    return -(-(room.size.sequence_tokens + room.size.window) // fit.PAGE_TOKENS)


def _packed(norms: Sequence[torch.Tensor]) -> torch.Tensor:
    """[norms, features], as they stand in blocks."""
    blocks_NBF = torch.stack(list(norms)).view(len(norms), -1, 32)
    return blocks_NBF[..., packed_features().to(blocks_NBF.device)].flatten(-2)


def _memory(room: Room, cut: Cut) -> dict[str, torch.Tensor]:
    """Everything that the kernel needs beyond the room's own, by the name of the parameter."""
    device, shape = room.cos_LD.device, room.shape
    pairs = fit.ROWS * cut.key_heads
    partial = pairs * _most_pages(room) * (cut.heads // cut.key_heads)  # one a page and head
    bytes_each = {  # of one copy; three layers are under way
        **dict.fromkeys(("x_mixed", "x_down"), fit.ROWS * cut.hidden * 2),
        **dict.fromkeys(("query", "mixed"), fit.ROWS * cut.attended * 2),
        "gated": fit.ROWS * cut.inner * 2,
        **dict.fromkeys(("new_key", "new_value"), pairs * cut.head * 2),
        "part": partial * cut.head * 4,
        "part_mass": partial * 8,
        "down_part": WORKERS * cut.out_each * DOWN_SPLIT * fit.ROWS * 4,
    }
    unwritten = torch.empty(3 * sum(bytes_each.values()), dtype=torch.uint8, device=device)
    parts = unwritten.split([3 * size for size in bytes_each.values()])
    tiles = -(-shape.vocabulary // TILE)

    def zeros(*size: int, of: torch.dtype) -> torch.Tensor:
        return torch.zeros(*size, dtype=of, device=device)

    return {
        **dict(zip(bytes_each, parts, strict=True)),
        "unwritten": unwritten,
        "weights": zeros(cut.weight_bytes(layers=shape.layers, vocabulary=shape.vocabulary), of=torch.uint8),
        "norms": zeros(2 * shape.layers + 1, cut.hidden, of=torch.bfloat16),
        "head_norms": zeros(2 * shape.layers, cut.head, of=torch.bfloat16),
        "bias": zeros(shape.layers, *bias_rows(cut).shape, of=torch.float32),
        "head_part": zeros(fit.ROWS, CTAS, 2, of=torch.float32),
        "logits": zeros(tiles * TILE * fit.ROWS, of=torch.float32),
        "counter": zeros(8, 32, of=torch.int32),
    }


def _addresses(room: Room) -> torch.Tensor:
    """[L, 4] int64: where a layer's matrices are, in the order of `layout.py`."""
    matrices = [
        [one.data_ptr() for one in (layer.qkv.weight_EH, layer.out_HA, layer.gate_up_2IH, layer.down_HI)]
        for layer in room.weights.layers
    ]
    return torch.tensor(matrices, dtype=torch.int64, device=room.cos_LD.device)
