// How CTAs hand numbers to each other: through words that carry their own flag.
//
// A word of all ones is a NaN that no conversion and no sum produces. Buffers are filled with it; a reader loads until
// none is left: no fence, no counter, no second way to the L2. Each buffer has three copies, taken in turn by the layer:
// `e` counts layers over all steps of a launch, from 1, and layer e has copy e % 3.
// A CTA clears what it wrote in layer e - 1 at the end of layer e, once all have counted GATED_DONE there, and it is
// written again in layer e + 2, whose readers have acquired that layer's counter (`wait_for_stored`).
#pragma once
#include "words.cuh"

constexpr uint32_t UNWRITTEN = ~0u;
constexpr unsigned PATIENCE = EVERY_LANE ? 1u << 30 : 1u << 23;  // turns of a poll; some seconds, then a trap

INLINE bool missing(uint4 v) { return (v.x == UNWRITTEN) | (v.y == UNWRITTEN) | (v.z == UNWRITTEN) | (v.w == UNWRITTEN); }

// The warp's first `n` of N vectors, 64 bytes apart. `first`: one of them is polled alone, which spares the L2 the rest.
template <int N> INLINE void poll(const bf16 *p, uint32_t *out, int n, bool first) {
    unsigned turns = 0;
    bool again;
    uint4 v[N];
    if (first) do {
        again = missing(peek4(p));
        if (++turns > PATIENCE) __trap();
    } while (__any_sync(~0u, again));
    do {
        again = false;
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] = make_uint4(0, 0, 0, 0);
            if (i < n) v[i] = peek4(p + i * 32);
        }
#pragma unroll
        for (int i = 0; i < N; i++) again |= missing(v[i]);
        if (++turns > PATIENCE) __trap();
    } while (__any_sync(~0u, again));
#pragma unroll
    for (int i = 0; i < N; i++) { out[i * 4] = v[i].x; out[i * 4 + 1] = v[i].y; out[i * 4 + 2] = v[i].z; out[i * 4 + 3] = v[i].w; }
}

// A finish warp has stored its part of a buffer. The readers check the words themselves; the count only spares the L2
// most of their polling. The CTAs that only have a part of the head need it: they would take an earlier layer's words.
INLINE void stored(unsigned *counter, Counter which, int lane) {
    __syncwarp();
    if (lane == 0) count_one(counter + which * LINE);
}
// All compute threads wait until `finish_warps` have stored. One lane acquires meanwhile that `ctas` have counted
// GATED_DONE, behind which the clearing lies of what the copies of this layer held before.
INLINE void wait_for_stored(const unsigned *counter, Counter which, unsigned finish_warps, unsigned ctas) {
    if (threadIdx.x < 2) {
        const unsigned *watched = counter + (threadIdx.x ? GATED_DONE : which) * LINE;
        const unsigned target = threadIdx.x ? ctas : finish_warps;
        unsigned turns = 0;
        while ((int)(acquire(watched) - target) < 0)
            if (++turns > PATIENCE) __trap();
    }
    compute_barrier();
}
// All compute threads, or with `finish` all finish threads, wait until so many tokens are drawn.
INLINE void wait_for_drawn(const unsigned *counter, unsigned tokens, bool finish) {
    if ((threadIdx.x & (finish ? 127 : 255)) == 0) {
        unsigned turns = 0;
        while ((int)(acquire(counter + DRAWN * LINE) - tokens) < 0)
            if (++turns > 2 * PATIENCE) __trap();
    }
    if (finish) finish_barrier(); else compute_barrier();
}
