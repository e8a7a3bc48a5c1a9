// The arithmetic of a decoder, operation by operation, with every rounding said: no compiler may fuse it otherwise.
//
// Used by the decode steps (decode.cu) and by the forward pass over whole sequences (forward.cu), so that both give a
// token the same log-probability, to the last bit. docs/exact.md has the order of every sum on one page.
#pragma once
#include "words.cuh"

constexpr float LOWEST = -1e30f;  // below any score, and still a number
constexpr float SCORE_SCALE = (HEAD == 128 ? 0.08838834764831845f : 0.125f) * LOG2E;  // 1 / sqrt(HEAD), for powers of two

// ---- the residual stream
INLINE float added(float x, float v) { return rounded(__fadd_rn(x, rounded(v))); }

// ---- norm: the square sums of a lane in four accumulators, then four lanes, then eight warps
INLINE void add_squares(float *s4, uint32_t word, int j) {
    s4[j] = __fmaf_rn(low(word), low(word), s4[j]);
    s4[j] = __fmaf_rn(high(word), high(word), s4[j]);
}
INLINE float lanes_sum(const float *s4) {
    float own = __fadd_rn(__fadd_rn(s4[0], s4[1]), __fadd_rn(s4[2], s4[3]));
    own = __fadd_rn(own, __shfl_xor_sync(~0u, own, 1));
    return __fadd_rn(own, __shfl_xor_sync(~0u, own, 2));
}
template <int WIDTH = HIDDEN> INLINE float norm_scale(float squares, float epsilon) { return rsqrtf(__fmaf_rn(squares, 1.0f / WIDTH, epsilon)); }
INLINE uint32_t normed(uint32_t x, float scale, uint32_t weight) { return multiply(pair(__fmul_rn(low(x), scale), __fmul_rn(high(x), scale)), weight); }

// ---- rotation of a number by the one half a head away, and silu x up
INLINE float turned(float v, float other, float cos, float sin, bool upper) {
    const float cross = __fmul_rn(other, sin);
    return __fmaf_rn(v, cos, upper ? cross : -cross);
}
INLINE float gated(float v, float up) { return __fmul_rn(rounded(__fdiv_rn(v, __fadd_rn(1.0f, __expf(-v)))), up); }

// ---- norm and rotation of a head by HEAD / 8 lanes, each with a part of 8 numbers in the order of `packed`: squares of a
// block of 32 as above, then the blocks by doubling
struct HeadTurn {
    uint4 weight;
    float2 cos[4], sin[4];
    INLINE HeadTurn(const bf16 *norm, const float *cos_at, const float *sin_at, int part) : weight(__ldg((const uint4 *)norm + part)) {
        const int first = (part >> 2) * 32 % (HEAD / 2) + (part & 3) * 2;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            cos[j] = __ldg((const float2 *)(cos_at + first + j * 8));
            sin[j] = __ldg((const float2 *)(sin_at + HEAD / 2 + first + j * 8));
        }
    }
    INLINE uint4 operator()(uint4 v, float epsilon, int part) const {
        uint32_t x[4] = {v.x, v.y, v.z, v.w};
        const uint32_t w[4] = {weight.x, weight.y, weight.z, weight.w};
        float s4[4] = {0, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < 4; j++) add_squares(s4, x[j], j);
        float squares = lanes_sum(s4);
#pragma unroll
        for (int d = 4; d < HEAD / 8; d <<= 1) squares = __fadd_rn(squares, __shfl_xor_sync(~0u, squares, d));
        const float scale = norm_scale<HEAD>(squares, epsilon);
        const bool upper = part >= HEAD / 16;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            x[j] = normed(x[j], scale, w[j]);
            const uint32_t other = __shfl_xor_sync(~0u, x[j], HEAD / 16);
            x[j] = pair(turned(low(x[j]), low(other), cos[j].x, sin[j].x, upper), turned(high(x[j]), high(other), cos[j].y, sin[j].y, upper));
        }
        return make_uint4(x[0], x[1], x[2], x[3]);
    }
};

// ---- attention: shares of a page relative to its own maximum; pages one after the other, relative to the row's
INLINE float score_of(float product) { return __fmul_rn(product, SCORE_SCALE); }
INLINE float share_of(float score, float top) { return exp2f(__fsub_rn(score, top)); }
INLINE float lanes_mass(const float *share) {
    float mass = __fadd_rn(__fadd_rn(__fadd_rn(share[0], share[1]), share[2]), share[3]);
    mass = __fadd_rn(mass, __shfl_xor_sync(~0u, mass, 1));
    return __fadd_rn(mass, __shfl_xor_sync(~0u, mass, 2));
}
INLINE float merge_sum(float sum, float weight, float part) { return __fmaf_rn(weight, part, sum); }
INLINE float merge_mass(float mass, float weight, float part) { return __fadd_rn(mass, __fmul_rn(weight, part)); }

// ---- softmax of the head: each CTA's ids in 16 columns of tiles, the columns in order, then the CTAs
INLINE int tiles_of(int vocabulary) { return (vocabulary + 15) / 16; }
INLINE int own_tiles(int tiles, int cta) { return tiles / CTAS + (cta < tiles % CTAS); }
INLINE int first_tile(int tiles, int cta) { return cta * (tiles / CTAS) + min(cta, tiles % CTAS); }

struct Mass {  // e^z summed, relative to the largest z so far
    float top = LOWEST, mass = 0.f;
    INLINE void add(float z) {
        const float higher = fmaxf(top, z);
        mass = __fmaf_rn(mass, __expf(__fsub_rn(top, higher)), __expf(__fsub_rn(z, higher)));
        top = higher;
    }
    INLINE void join(float other_top, float other_mass) {
        const float higher = fmaxf(top, other_top);
        mass = __fmaf_rn(mass, __expf(__fsub_rn(top, higher)), __fmul_rn(other_mass, __expf(__fsub_rn(other_top, higher))));
        top = higher;
    }
};
INLINE double inclusive(double v, int lane) {  // the sum of this lane and those before it
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const double before = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v = __dadd_rn(v, before);
    }
    return v;
}
constexpr int CTAS_EACH = (CTAS + 31) / 32;  // of a lane, when a warp goes through all of them in order
struct HeadMass {
    float highest;
    double own, upto, all;  // the lane's CTAs, all up to and with them, and all there are
    INLINE HeadMass(const Mass *ctas, int lane) {
        highest = LOWEST;
#pragma unroll
        for (int i = 0; i < CTAS_EACH; i++) highest = fmaxf(highest, ctas[i].top);
#pragma unroll
        for (int d = 16; d; d >>= 1) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, d));
        own = 0;
#pragma unroll
        for (int i = 0; i < CTAS_EACH; i++) own = __dadd_rn(own, part(ctas[i]));
        upto = inclusive(own, lane);
        all = __shfl_sync(~0u, upto, 31);
    }
    INLINE double part(const Mass &cta) const { return (double)__fmul_rn(cta.mass, __expf(__fsub_rn(cta.top, highest))); }
    INLINE float logp(float z) const { return (float)((double)__fsub_rn(z, highest) - log(all)); }
};
