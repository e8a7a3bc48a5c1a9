// Products of the compute warps: weights x the activations of 8 rows, every warp with 1/8 of the columns.
//
// Weights are the A operand of mma.m16n8k16, and lie as [stage][warp][unit][rows][32 columns], so that every load of
// shared memory is one of 16 bytes without a conflict. Activations stay in registers as B fragments for a whole phase.
// The order of an output's sum: each warp adds its columns from the first to the last, 16 at once, from zero; then the
// sums of the 8 warps are added from the first to the last. It depends on nothing else.
#pragma once
#include "arithmetic.cuh"
#include "exchange.cuh"

struct Ring {  // the compute warps' end of it
    uint32_t ring, full, empty, phase;
    int stage;
    INLINE explicit Ring(Shared &s) : ring(shared_address(s.ring)), full(shared_address(s.full)), empty(shared_address(s.empty)), phase(0), stage(0) {}
    INLINE uint32_t wait(int k = 0) {  // for the k-th stage that has not been released; its address
        int i = stage + k;
        uint32_t p = phase;
        if (i >= STAGES) { i -= STAGES; p ^= 1; }
        barrier_wait(full + i * 8, p);
        return ring + i * STAGE;
    }
    INLINE int index(int k) { int i = stage + k; return i >= STAGES ? i - STAGES : i; }
    template <int N> INLINE bool are_there() {  // so many looks under way at once
        uint32_t ok = 1;
#pragma unroll
        for (int k = 0; k < N; k++) {
            int i = stage + k;
            uint32_t p = phase;
            if (i >= STAGES) { i -= STAGES; p ^= 1; }
            ok &= barrier_test(full + i * 8, p);
        }
        return ok;
    }
    template <int N = 1> INLINE void release(int lane) {
        __syncwarp();
        if constexpr (EVERY_LANE) {
            for (int k = 0; k < N; k++) barrier_arrive(empty + index(k) * 8);
        } else if (lane < N)
            barrier_arrive(empty + (N == 1 ? stage : index(lane)) * 8);
        stage += N;
        if (stage >= STAGES) { stage -= STAGES; phase ^= 1; }
    }
};

struct Handover {  // slots between compute warps and finish warps
    uint32_t full, free, phase;
    int slot;
    INLINE explicit Handover(Shared &s) : full(shared_address(s.slot_full)), free(shared_address(s.slot_free)), phase(0), slot(0) {}
    INLINE void next() { if (++slot == SLOTS) { slot = 0; phase ^= 1; } }
    INLINE void wait_free() { barrier_wait(free + slot * 8, phase ^ 1); }
    INLINE void wait_full() { barrier_wait(full + slot * 8, phase); }
    INLINE void filled(int lane) { warp_arrive(full + slot * 8, lane); next(); }
    INLINE void emptied(int lane) { warp_arrive(free + slot * 8, lane); next(); }
};

struct Fragment { uint4 low[2], high[2]; };  // the two halves of a tile's rows, of two units of 32 columns

// A tile has 2 x HALF rows: the A operand's rows from 0 and from 8 on.
template <int HALF> INLINE void load_unit(uint4 &low, uint4 &high, uint32_t a, int lane) {
    low = high = make_uint4(0, 0, 0, 0);
    if (HALF == 8 || lane < HALF * 4) {
        low = load_shared(a + lane * 16);
        high = load_shared(a + HALF * 64 + lane * 16);
    }
}
INLINE void multiply_unit(const uint4 &low, const uint4 &high, const uint32_t *b, float *c) {
    mma(c, low.x, high.x, low.y, high.y, b[0], b[1]);
    mma(c, low.z, high.z, low.w, high.w, b[2], b[3]);
}
// The warp's units of a stage: two, or in the last stage what is left for it.
template <int HALF, class B> INLINE void load_stage(Fragment &f, uint32_t a, int stage, int warp, int lane) {
    a += B::before(stage, warp) * (HALF * 128);
#pragma unroll
    for (int u = 0; u < 2; u++)
        if (2 * stage + u < B::count(warp)) load_unit<HALF>(f.low[u], f.high[u], a + u * (HALF * 128), lane);
}
template <class B> INLINE void multiply_stage(const Fragment &f, const uint32_t *b, float *c, int stage, int warp) {
#pragma unroll
    for (int u = 0; u < 2; u++)
        if (2 * stage + u < B::count(warp)) multiply_unit(f.low[u], f.high[u], b + stage * 8 + u * 4, c);
}
// A tile over so many columns. Its stages, but for those beyond the third or fourth, come in one long batch of loads where
// all are there, else one after the other.
template <int HALF, int COLUMNS> INLINE void multiply_tile(Ring &r, const uint32_t *b, float *c, int warp, int lane) {
    using B = Blocks<COLUMNS>;
    constexpr int N = B::STAGES <= 4 ? B::STAGES : 3, REST = B::STAGES - N;
    c[0] = c[1] = c[2] = c[3] = 0.f;
    if (r.are_there<N>()) {
        Fragment f[N];
#pragma unroll
        for (int s = 0; s < N; s++) load_stage<HALF, B>(f[s], r.ring + r.index(s) * STAGE, s, warp, lane);
#pragma unroll
        for (int s = 0; s < N; s++) multiply_stage<B>(f[s], b, c, s, warp);
        r.release<N>(lane);
    } else {
        Fragment f[2];
        load_stage<HALF, B>(f[0], r.wait(0), 0, warp, lane);
#pragma unroll
        for (int s = 0; s < N; s++) {
            if (s + 1 < N) load_stage<HALF, B>(f[(s + 1) & 1], r.wait(1), s + 1, warp, lane);
            multiply_stage<B>(f[s & 1], b, c, s, warp);
            r.release(lane);
        }
    }
    if constexpr (REST > 0) {
        Fragment f[REST];
#pragma unroll
        for (int s = 0; s < REST; s++) load_stage<HALF, B>(f[s], r.wait(s), N + s, warp, lane);
#pragma unroll
        for (int s = 0; s < REST; s++) multiply_stage<B>(f[s], b, c, N + s, warp);
        r.release<REST>(lane);
    }
}
// A warp's sums into a slot: [warp][16 rows of the tile][8 sequences].
INLINE void hand_over(Handover &h, Shared &s, const float *c, int warp, int lane) {
    h.wait_free();
    float *sum = s.slot[h.slot].sum + warp * 128;
    const int row = lane >> 2, column = (lane & 3) * 2;
    *(float2 *)&sum[row * 8 + column] = make_float2(c[0], c[1]);
    *(float2 *)&sum[(row + 8) * 8 + column] = make_float2(c[2], c[3]);
    h.filled(lane);
}
template <int PAIRED> INLINE void multiply_pairs(Ring &r, Handover &h, Shared &s, const uint32_t *b, float *c, int warp, int lane) {
    for (int i = 0; i < PAIRED / 8; i++) {
        multiply_tile<8, HIDDEN>(r, b, c, warp, lane);
        hand_over(h, s, c, warp, lane);
    }
    if constexpr (PAIRED % 8 > 0) {
        multiply_tile<PAIRED % 8, HIDDEN>(r, b, c, warp, lane);
        hand_over(h, s, c, warp, lane);
    }
}
INLINE float sum_of_warps(const float *sum, int i) {
    float v = sum[i];
#pragma unroll
    for (int w = 1; w < COMPUTE; w++) v += sum[w * 128 + i];
    return v;
}

// ---- norms: rows of the residual stream -> fragments of this warp's features
using Hidden = Blocks<HIDDEN>;
INLINE void load_norm(const bf16 *norm, uint4 *weight, int warp, int lane) {  // constants: asked for before the wait
#pragma unroll
    for (int i = 0; i < Hidden::MOST; i++)
        if (i < Hidden::count(warp)) weight[i] = __ldg((const uint4 *)(norm + Hidden::first(warp) * 32 + (lane & 3) * 8 + i * 32));
}
INLINE void load_embedding(const bf16 *row, uint32_t *x, int warp, int lane) {  // in the model's own order
#pragma unroll
    for (int i = 0; i < Hidden::MOST; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            x[i * 4 + j] = 0;
            if (i < Hidden::count(warp)) x[i * 4 + j] = __ldg((const uint32_t *)(row + Hidden::first(warp) * 32 + (lane & 3) * 2 + i * 32 + j * 8));
        }
}
INLINE void normalise(const uint32_t *x, const uint4 *weight, uint32_t *b, float (*square)[ROWS], float epsilon, int warp, int lane) {
    const int row = lane >> 2;
    float s4[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4 * Hidden::MOST; i++) add_squares(s4, x[i], i & 3);
    const float own = lanes_sum(s4);
    if ((lane & 3) == 0) square[warp][row] = own;
    compute_barrier();
    float all = 0.f;
#pragma unroll
    for (int i = 0; i < COMPUTE; i++) all += square[i][row];
    const float scale = norm_scale(all, epsilon);
#pragma unroll
    for (int i = 0; i < Hidden::MOST; i++) {
        const uint32_t w[4] = {weight[i].x, weight[i].y, weight[i].z, weight[i].w};
#pragma unroll
        for (int j = 0; j < 4; j++) b[i * 4 + j] = normed(x[i * 4 + j], scale, w[j]);
    }
}
