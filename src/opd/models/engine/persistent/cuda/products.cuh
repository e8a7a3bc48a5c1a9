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
    INLINE bool three_are_there() {  // three looks under way at once
        uint32_t ok = 1;
#pragma unroll
        for (int k = 0; k < 3; k++) {
            int i = stage + k;
            uint32_t p = phase;
            if (i >= STAGES) { i -= STAGES; p ^= 1; }
            ok &= barrier_test(full + i * 8, p);
        }
        return ok;
    }
    INLINE void release_three(int lane) {
        __syncwarp();
        if (lane < 3) barrier_arrive(empty + index(lane) * 8);
        stage += 3;
        if (stage >= STAGES) { stage -= STAGES; phase ^= 1; }
    }
    INLINE void release(int lane) {
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + stage * 8);
        if (++stage == STAGES) { stage = 0; phase ^= 1; }
    }
};

struct Handover {  // slots between compute warps and finish warps
    uint32_t full, free, phase;
    int slot;
    INLINE explicit Handover(Shared &s) : full(shared_address(s.slot_full)), free(shared_address(s.slot_free)), phase(0), slot(0) {}
    INLINE void next() { if (++slot == SLOTS) { slot = 0; phase ^= 1; } }
    INLINE void wait_free() { barrier_wait(free + slot * 8, phase ^ 1); }
    INLINE void wait_full() { barrier_wait(full + slot * 8, phase); }
    INLINE void filled(int lane) { __syncwarp(); if (lane == 0) barrier_arrive(full + slot * 8); next(); }
    INLINE void emptied(int lane) { __syncwarp(); if (lane == 0) barrier_arrive(free + slot * 8); next(); }
};

struct Fragment { uint4 low[2], high[2]; };  // rows 0 .. 7 and 8 .. 15 of two units of 32 columns

template <int TILE_ROWS> INLINE void load_stage(Fragment &f, uint32_t a, int lane) {
#pragma unroll
    for (int u = 0; u < 2; u++) {
        if (TILE_ROWS == 16) {
            f.low[u] = load_shared(a + u * 1024 + lane * 16);
            f.high[u] = load_shared(a + u * 1024 + 512 + lane * 16);
        } else {  // 6 + 6 rows
            f.low[u] = f.high[u] = make_uint4(0, 0, 0, 0);
            if (lane < 24) {
                f.low[u] = load_shared(a + u * 768 + lane * 16);
                f.high[u] = load_shared(a + u * 768 + 384 + lane * 16);
            }
        }
    }
}
INLINE void multiply_unit(const uint4 &low, const uint4 &high, const uint32_t *b, float *c) {
    mma(c, low.x, high.x, low.y, high.y, b[0], b[1]);
    mma(c, low.z, high.z, low.w, high.w, b[2], b[3]);
}
INLINE void multiply_stage(const Fragment &f, const uint32_t *b, float *c) {
#pragma unroll
    for (int u = 0; u < 2; u++) multiply_unit(f.low[u], f.high[u], b + u * 4, c);
}
// A tile over HIDDEN columns: three stages.
template <int TILE_ROWS> INLINE void multiply_tile(Ring &r, const uint32_t *b, float *c, int warp, int lane) {
    c[0] = c[1] = c[2] = c[3] = 0.f;
    if (r.three_are_there()) {  // one long batch of loads
        Fragment f[3];
#pragma unroll
        for (int s = 0; s < 3; s++) load_stage<TILE_ROWS>(f[s], r.ring + r.index(s) * STAGE + warp * (TILE_ROWS * 128), lane);
#pragma unroll
        for (int s = 0; s < 3; s++) multiply_stage(f[s], b + s * 8, c);
        r.release_three(lane);
        return;
    }
    Fragment f[2];
    load_stage<TILE_ROWS>(f[0], r.wait(0) + warp * (TILE_ROWS * 128), lane);
#pragma unroll
    for (int s = 0; s < 3; s++) {
        if (s < 2) load_stage<TILE_ROWS>(f[(s + 1) & 1], r.wait(1) + warp * (TILE_ROWS * 128), lane);
        multiply_stage(f[s & 1], b + s * 8, c);
        r.release(lane);
    }
}
// A tile of down: 2,240 columns, of which warps 0 .. 5 have 9 units of 32 and the others 8; five stages.
INLINE void multiply_down_tile(Ring &r, const uint32_t *b, float *c, int warp, int lane) {
    multiply_tile<16>(r, b, c, warp, lane);
    Fragment f;
    uint4 low, high;
    uint32_t fourth = r.wait(0) + warp * 2048, fifth = r.wait(1) + warp * 1024;
    load_stage<16>(f, fourth, lane);
    if (warp < 6) { low = load_shared(fifth + lane * 16); high = load_shared(fifth + 512 + lane * 16); }
    multiply_stage(f, b + 24, c);
    if (warp < 6) multiply_unit(low, high, b + 32, c);
    r.release(lane);
    r.release(lane);
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
INLINE float sum_of_warps(const float *sum, int i) {
    float v = sum[i];
#pragma unroll
    for (int w = 1; w < COMPUTE; w++) v += sum[w * 128 + i];
    return v;
}

// ---- norms: rows of the residual stream -> fragments of this warp's 192 features
INLINE void load_norm(const bf16 *norm, uint4 *weight, int warp, int lane) {  // constants: asked for before the wait
#pragma unroll
    for (int i = 0; i < 6; i++) weight[i] = __ldg((const uint4 *)(norm + warp * 192 + (lane & 3) * 8 + i * 32));
}
INLINE void load_embedding(const bf16 *row, uint32_t *x, int warp, int lane) {  // in the model's own order
#pragma unroll
    for (int i = 0; i < 6; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) x[i * 4 + j] = __ldg((const uint32_t *)(row + warp * 192 + i * 32 + j * 8 + (lane & 3) * 2));
}
INLINE void normalise(const uint32_t *x, const uint4 *weight, uint32_t *b, float (*square)[ROWS], float epsilon, int warp, int lane) {
    const int row = lane >> 2;
    float s4[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 24; i++) add_squares(s4, x[i], i & 3);
    const float own = lanes_sum(s4);
    if ((lane & 3) == 0) square[warp][row] = own;
    compute_barrier();
    float all = 0.f;
#pragma unroll
    for (int i = 0; i < COMPUTE; i++) all += square[i][row];
    const float scale = norm_scale(all, epsilon);
#pragma unroll
    for (int i = 0; i < 6; i++) {
        const uint32_t w[4] = {weight[i].x, weight[i].y, weight[i].z, weight[i].w};
#pragma unroll
        for (int j = 0; j < 4; j++) b[i * 4 + j] = normed(x[i * 4 + j], scale, w[j]);
    }
}
