// The token of each row: by inversion of its uniform number, as in the other engines.
//
//   a CTA:   its ids' logits go to memory; their maximum and mass, summed over its tiles in order, to `head_part`
//   the CTA that ends last, a warp a row:   masses of all CTAs, relative to the highest maximum ──► in which CTA's part
//       the uniform number falls ──► in which three tiles ──► at which id; then the board moves on
//
// Cumulative sums run in float64 and in the order of the ids: the token is the first whose sum exceeds u times all.
#pragma once
#include "products.cuh"

constexpr int TILES_EACH = CTAS, PART = 2;  // maximum and mass of a row and CTA

INLINE int tiles_of(int vocabulary) { return (vocabulary + 15) / 16; }
INLINE int own_tiles(int tiles, int cta) { return tiles / CTAS + (cta < tiles % CTAS); }
INLINE int first_tile(int tiles, int cta) { return cta * (tiles / CTAS) + min(cta, tiles % CTAS); }

INLINE double inclusive(double v, int lane) {
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const double before = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += before;
    }
    return v;
}
INLINE void join(float &top, float &mass, float other_top, float other_mass) {
    const float higher = fmaxf(top, other_top);
    mass = mass * __expf(top - higher) + other_mass * __expf(other_top - higher);
    top = higher;
}

// The finish warps' part of the head; thread = (id of the tile, row). Afterwards `s.last` says whether this CTA draws.
INLINE void sum_head(const Params &P, Shared &s, Handover &h, int cta, int tid, int lane) {
    const int tiles = tiles_of(P.vocabulary), count = own_tiles(tiles, cta), first = first_tile(tiles, cta), of_tile = tid >> 3, row = tid & 7;
    float top = LOWEST, mass = 0.f;
    for (int i = 0; i < count; i++) {
        const int id = (first + i) * 16 + of_tile;
        h.wait_full();
        const float z = sum_of_warps(s.slot[h.slot].sum, tid) * P.coldness;
        h.emptied(lane);
        if (id >= P.vocabulary) continue;
        P.logits[(size_t)(first + i) * P.logits_tile + (size_t)row * P.logits_row + of_tile] = z;
        const float higher = fmaxf(top, z);
        mass = mass * __expf(top - higher) + __expf(z - higher);
        top = higher;
    }
    if (!P.draws) return;
    float *tops = (float *)s.merge, *masses = (float *)s.weight;
    tops[tid] = top;
    masses[tid] = mass;
    finish_barrier();
    if (tid < ROWS) {
        for (int k = 1; k < 16; k++) join(top, mass, tops[k * 8 + tid], masses[k * 8 + tid]);
        float *to = P.head_part + (size_t)(tid * CTAS + cta) * PART;
        __stcg(to, top);
        __stcg(to + 1, mass);
    }
    finish_barrier();
    if (tid == 0) {
        s.last = join_one(P.counter + HEADS_DONE * LINE) == CTAS - 1;
        if (s.last) *(volatile unsigned *)(P.counter + HEADS_DONE * LINE) = 0;
    }
    finish_barrier();
}

struct Drawn { int id; float z, top; double mass; };

// One warp: the id of a row. `uniform` in [0, 1).
INLINE Drawn draw(const Params &P, int row, double uniform, int lane) {
    constexpr int EACH = (CTAS + 31) / 32;
    float top[EACH], mass[EACH], highest = LOWEST;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int cta = lane * EACH + i;
        top[i] = LOWEST;
        mass[i] = 0.f;
        if (cta < CTAS) {
            const float *from = P.head_part + (size_t)(row * CTAS + cta) * PART;
            top[i] = fresh_float(from);
            mass[i] = fresh_float(from + 1);
        }
        highest = fmaxf(highest, top[i]);
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, d));
    double own = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) own += (double)(mass[i] * __expf(top[i] - highest));
    double upto = inclusive(own, lane);
    const double all = __shfl_sync(~0u, upto, 31), target = uniform * all;
    unsigned beyond = __ballot_sync(~0u, upto > target);
    const int in_lane = beyond ? __ffs(beyond) - 1 : 31;
    int cta = min(lane * EACH + EACH - 1, CTAS - 1);  // where rounding leaves none: the lane's last
    double before = upto - own;
    {
        double sum = before;
        bool found = false;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const double part = (double)(mass[i] * __expf(top[i] - highest));
            if (!found && sum + part > target) { found = true; cta = lane * EACH + i; before = sum; }
            sum += part;
        }
        if (!found) before = upto - (double)(mass[EACH - 1] * __expf(top[EACH - 1] - highest));
    }
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
            if (j < ids) here += (double)__expf(z.x - highest);
            if (j + 1 < ids) here += (double)__expf(z.y - highest);
            if (j + 2 < ids) here += (double)__expf(z.z - highest);
            if (j + 3 < ids) here += (double)__expf(z.w - highest);
        }
    }
    upto = before + inclusive(here, lane);
    beyond = __ballot_sync(~0u, upto > target);
    const unsigned some = __ballot_sync(~0u, here > 0);
    const int tiles_lane = beyond ? __ffs(beyond) - 1 : some ? 31 - __clz(some) : 0;
    before = __shfl_sync(~0u, upto - here, tiles_lane);

    // in those tiles: one id a lane
    Drawn drawn = {min((first + tiles_lane * each) * 16, P.vocabulary - 1), 0.f, highest, all};
    bool found = false;
    for (int from = 0; from < each * 16 && !found; from += 32) {
        const int tile = first + tiles_lane * each + (from + lane) / 16, id = tile * 16 + (lane & 15);
        const bool there = from + lane < each * 16 && tile < first + count && id < P.vocabulary;
        const float z = there ? fresh_float(logits + (size_t)tile * P.logits_tile + (lane & 15)) : LOWEST;
        const double share = there ? (double)__expf(z - highest) : 0;
        const double sum = before + inclusive(share, lane);
        const unsigned over = __ballot_sync(~0u, sum > target), positive = __ballot_sync(~0u, share > 0);
        found = over;
        const int at = over ? __ffs(over) - 1 : positive ? 31 - __clz(positive) : -1;  // else the last that can be drawn
        if (at >= 0) {
            drawn.id = __shfl_sync(~0u, id, at);
            drawn.z = __shfl_sync(~0u, z, at);
        }
        before = __shfl_sync(~0u, sum, 31);
    }
    return drawn;
}

// The finish warps of the CTA that ended last: every row has its token, and the board has moved on by a step.
INLINE void draw_rows(const Params &P, int step, int warp, int lane) {
    for (int row = warp; row < P.rows; row += FINISH) {
        const size_t at = (size_t)row * P.board_width + step;  // a window starts at the board's first column
        const Drawn drawn = draw(P, row, __ldg(P.uniform + at), lane);
        if (lane) continue;
        const bool runs = fresh_byte(P.active + row);
        const long long token = !runs ? NONE : isfinite(drawn.mass) ? drawn.id : BROKEN;
        const float logp = (float)((double)(drawn.z - drawn.top) - log(drawn.mass));
        P.token[at] = token;
        P.logp[at] = logp;
        P.raw_logp[at] = logp;
        if (!runs) continue;
        const long long left = fresh_long(P.left + row) - (token >= 0);
        if (token >= 0) {
            P.ids[row] = token;
            P.position[row] = fresh_long(P.position + row) + 1;
            P.left[row] = left;
        }
        P.active[row] = token >= 0 && !P.stop[token] && left > 0;
    }
    if (warp == 0 && lane == 0) P.tick[0] = fresh_long(P.tick) + 1;
}
