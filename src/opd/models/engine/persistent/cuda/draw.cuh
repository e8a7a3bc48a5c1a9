// The token of each row: by inversion of its uniform number, as in the other engines.
//
//   every CTA:   its ids' logits go to memory; their maximum and mass, summed over its tiles in order, to `head_part`
//   a CTA a row, once all have:   masses of all CTAs, relative to the highest maximum ──► in which CTA's part the
//       uniform number falls ──► in which three tiles ──► at which id; then the board moves on
//
// Cumulative sums run in float64 and in the order of the ids: the token is the first whose sum exceeds u times all.
#pragma once
#include "products.cuh"

constexpr int PART = 2;  // maximum and mass of a row and CTA

// The finish warps' part of the head; thread = (id of the tile, row).
INLINE void sum_head(const Params &P, Shared &s, Handover &h, int cta, int tid, int lane) {
    const int tiles = tiles_of(P.vocabulary), count = own_tiles(tiles, cta), first = first_tile(tiles, cta), of_tile = tid >> 3, row = tid & 7;
    Mass sum;
    for (int i = 0; i < count; i++) {
        h.wait_full();
        const float z = __fmul_rn(sum_of_warps(s.slot[h.slot].sum, tid), P.coldness);
        h.emptied(lane);
        if ((first + i) * 16 + of_tile >= P.vocabulary) continue;
        P.logits[(size_t)(first + i) * P.logits_tile + (size_t)row * P.logits_row + of_tile] = z;
        sum.add(z);
    }
    if (!P.draws) return;
    float *tops = (float *)s.merge, *masses = (float *)s.weight;
    tops[tid] = sum.top;
    masses[tid] = sum.mass;
    finish_barrier();
    if (tid < ROWS) {
        for (int k = 1; k < 16; k++) sum.join(tops[k * 8 + tid], masses[k * 8 + tid]);
        __stcg((float2 *)P.head_part + tid * CTAS + cta, make_float2(sum.top, sum.mass));
    }
    finish_barrier();
    if (tid == 0) release_one(P.counter + HEADS_DONE * LINE);
}

struct Drawn { int id; float logp; bool finite; };

// One warp: the id of a row. `uniform` in [0, 1).
INLINE Drawn draw(const Params &P, int row, double uniform, int lane) {
    Mass ctas[CTAS_EACH];
#pragma unroll
    for (int i = 0; i < CTAS_EACH; i++) {
        const int cta = lane * CTAS_EACH + i;
        if (cta >= CTAS) continue;
        const uint2 part = peek2((const float2 *)P.head_part + row * CTAS + cta);
        ctas[i].top = __uint_as_float(part.x);
        ctas[i].mass = __uint_as_float(part.y);
    }
    const HeadMass head(ctas, lane);
    const double target = uniform * head.all;
    unsigned beyond = __ballot_sync(~0u, head.upto > target);
    const int in_lane = beyond ? __ffs(beyond) - 1 : 31;
    int cta = min(lane * CTAS_EACH + CTAS_EACH, CTAS) - 1;  // where rounding leaves none: the lane's last
    double before = head.upto - head.own, sum = before;
    bool found = false;
#pragma unroll
    for (int i = 0; i < CTAS_EACH; i++) {
        const double part = head.part(ctas[i]);
        if (!found && sum + part > target) { found = true; cta = lane * CTAS_EACH + i; before = sum; }
        sum += part;
    }
    if (!found) before = head.upto - head.part(ctas[CTAS_EACH - 1]);
    cta = __shfl_sync(~0u, cta, in_lane);
    before = __shfl_sync(~0u, before, in_lane);

    // in that CTA's part: some tiles a lane
    const int tiles = tiles_of(P.vocabulary), count = own_tiles(tiles, cta), first = first_tile(tiles, cta), each = (count + 31) / 32;
    const float *logits = P.logits + (size_t)row * P.logits_row;
    double here = 0;
    for (int i = 0; i < each; i++) {
        const int tile = lane * each + i;
        if (tile >= count) break;
        const float *from = logits + (size_t)(first + tile) * P.logits_tile;
        const int ids = min(16, P.vocabulary - (first + tile) * 16);
#pragma unroll
        for (int j = 0; j < 16; j += 4) {
            const float4 z = fresh_floats(from + j);
            if (j < ids) here += (double)__expf(z.x - head.highest);
            if (j + 1 < ids) here += (double)__expf(z.y - head.highest);
            if (j + 2 < ids) here += (double)__expf(z.z - head.highest);
            if (j + 3 < ids) here += (double)__expf(z.w - head.highest);
        }
    }
    const double upto = before + inclusive(here, lane);
    beyond = __ballot_sync(~0u, upto > target);
    const unsigned some = __ballot_sync(~0u, here > 0);
    const int tiles_lane = beyond ? __ffs(beyond) - 1 : some ? 31 - __clz(some) : 0;
    before = __shfl_sync(~0u, upto - here, tiles_lane);

    // in those tiles: one id a lane
    int id = min((first + tiles_lane * each) * 16, P.vocabulary - 1);
    float z = LOWEST;
    found = false;
    for (int from = 0; from < each * 16 && !found; from += 32) {
        const int tile = first + tiles_lane * each + (from + lane) / 16, own_id = tile * 16 + (lane & 15);
        const bool there = from + lane < each * 16 && tile < first + count && own_id < P.vocabulary;
        const float own_z = there ? fresh_float(logits + (size_t)tile * P.logits_tile + (lane & 15)) : LOWEST;
        const double share = there ? (double)__expf(own_z - head.highest) : 0, reached = before + inclusive(share, lane);
        const unsigned over = __ballot_sync(~0u, reached > target), positive = __ballot_sync(~0u, share > 0);
        found = over;
        const int at = over ? __ffs(over) - 1 : positive ? 31 - __clz(positive) : -1;  // else the last that can be drawn
        if (at >= 0) { id = __shfl_sync(~0u, own_id, at); z = __shfl_sync(~0u, own_z, at); }
        before = __shfl_sync(~0u, reached, 31);
    }
    return {id, head.logp(z), (bool)isfinite(head.all)};
}

// The finish warps of the row's CTA: the row has its token, and its line of the board has moved on by a step; with
// AHEAD the board stays where it is, since what is kept of a sequence's rows is settled behind the launch.
template <bool AHEAD> INLINE void draw_row(const Params &P, int row, int step, int tid) {
    if (tid >= 32) return;
    const size_t at = (size_t)row * P.board_width + step;  // a window starts at the board's first column
    const double uniform = __ldg(P.uniform + at);
    const bool runs = fresh_byte(P.active + row);  // nobody else writes a row's line
    const long long left = AHEAD ? 0 : fresh_long(P.left + row), position = AHEAD ? 0 : fresh_long(P.position + row);
    if (tid == 0) {
        unsigned turns = 0;
        while ((int)(acquire(P.counter + HEADS_DONE * LINE) - (step + 1) * CTAS) < 0)
            if (++turns > 2 * PATIENCE) __trap();
    }
    __syncwarp();
    const Drawn drawn = draw(P, row, uniform, tid);
    if (tid) return;
    const long long token = !runs ? NONE : drawn.finite ? drawn.id : BROKEN;
    P.token[at] = token;
    P.logp[at] = drawn.logp;
    P.raw_logp[at] = drawn.logp;
    if constexpr (AHEAD) return;
    if (token >= 0) {
        P.ids[row] = token;
        P.position[row] = position + 1;
        P.left[row] = left - 1;
    }
    if (runs) P.active[row] = token >= 0 && !P.stop[token] && left > 1;
    if (row == 0) P.tick[0] = step + 1;
    release_one(P.counter + DRAWN * LINE);
}
