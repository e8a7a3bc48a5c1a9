// The words of persistent/cuda/words.cuh in C++, with the same meaning. Copies are done when they are asked for, so what
// the stream reads ahead is what memory had long before the compute warps look at it.
#pragma once
#include "shape.cuh"

#define INLINE inline

// ---- barriers in shared memory, and copies that arrive at them
constexpr uint32_t SHARED_START = 1024;
INLINE uint32_t shared_address(const void *p) { return (uint32_t)((const uint8_t *)p - shared_memory()) + SHARED_START; }
INLINE uint8_t *at_shared(uint32_t a) { return shared_memory() + (a - SHARED_START); }
struct Arrivals { uint8_t pending, all, phase, unused; int32_t bytes; };
static_assert(sizeof(Arrivals) == 8, "as large as an mbarrier");
INLINE Arrivals &arrivals(uint32_t a) { return *(Arrivals *)at_shared(a); }
INLINE void turn_if_complete(Arrivals &b) { if (!b.pending && !b.bytes) { b.pending = b.all; b.phase ^= 1; } }
INLINE void barrier_init(uint32_t a, int all) { arrivals(a) = {(uint8_t)all, (uint8_t)all, 0, 0, 0}; }
INLINE void barrier_expect(uint32_t a, uint32_t bytes) { Arrivals &b = arrivals(a); b.bytes += bytes; b.pending--; turn_if_complete(b); }
INLINE void barrier_arrive(uint32_t a) { Arrivals &b = arrivals(a); b.pending--; turn_if_complete(b); }
INLINE void warp_arrive(uint32_t a, int lane) { __syncwarp(); if (lane == 0) barrier_arrive(a); }
INLINE uint32_t barrier_test(uint32_t a, uint32_t phase) {  // a compute warp looks once for all its lanes
    uint64_t done = arrivals(a).phase != phase;
    if (threadIdx.x < COMPUTE_THREADS) return (uint32_t)together(&done, 1)[0][0];
    if (!done) give_way();
    return (uint32_t)done;
}
INLINE void barrier_wait(uint32_t a, uint32_t phase) { while (arrivals(a).phase == phase) give_way(); }
INLINE void bulk_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier, uint64_t) {
    memcpy(at_shared(to), from, bytes);
    arrivals(barrier).bytes -= bytes;
    turn_if_complete(arrivals(barrier));
}
INLINE void bulk_prefetch(const void *, uint32_t) {}
INLINE void __syncthreads() { wait_for_all(0, THREADS); }
INLINE void compute_barrier() { wait_for_all(1, COMPUTE_THREADS); }
INLINE void finish_barrier() { wait_for_all(2, 32 * FINISH); }

// ---- numbers
template <class T> INLINE T load(const void *p) { T v; memcpy(&v, p, sizeof v); return v; }
INLINE uint4 load_shared(uint32_t a) { return load<uint4>(at_shared(a)); }
template <class T> INLINE void store_shared(uint32_t a, T v) { memcpy(at_shared(a), &v, sizeof v); }
INLINE float low(uint32_t v) { return __uint_as_float(v << 16); }
INLINE float high(uint32_t v) { return __uint_as_float(v & 0xffff0000u); }
INLINE uint32_t pair(float a, float b) { return bfloat16_bits(a) | (uint32_t)bfloat16_bits(b) << 16; }
INLINE uint32_t multiply(uint32_t a, uint32_t b) { return pair(low(a) * low(b), high(a) * high(b)); }
INLINE float rounded(float a) { return __bfloat162float(__float2bfloat16(a)); }
INLINE void mma(float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    const uint64_t own[6] = {a0, a1, a2, a3, b0, b1};
    const auto of = together(own, 6);
    const int lane = threadIdx.x % 32, group = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        const int eight = i / 2, column = 2 * t + i % 2;
        double sum = c[i];
        for (int k = 0; k < 4; k++)
            for (int half = 0; half < 2; half++) {
                const uint32_t a = of[group * 4 + k][eight + 2 * half], b = of[column * 4 + k][4 + half];
                sum += (double)low(a) * low(b) + (double)high(a) * high(b);
            }
        c[i] = (float)sum;
    }
}
INLINE int packed(int k) { return (k & ~31) | (((k >> 1) & 3) << 3) | (((k >> 4) & 1) << 2) | (((k >> 3) & 1) << 1) | (k & 1); }

// ---- loads and stores of what other CTAs see; who finds a word unwritten gives way
INLINE uint32_t fresh(const void *p) { return load<uint32_t>(p); }
INLINE float fresh_float(const float *p) { return *p; }
INLINE float4 fresh_floats(const float *p) { return load<float4>(p); }
INLINE long long fresh_long(const long long *p) { return *p; }
INLINE uint32_t fresh_byte(const uint8_t *p) { return *p; }
INLINE uint32_t peek(const void *p) { const auto v = load<uint32_t>(p); if (v == ~0u) give_way(); return v; }
INLINE uint2 peek2(const void *p) { const auto v = load<uint2>(p); if (v.x == ~0u || v.y == ~0u) give_way(); return v; }
INLINE uint4 peek4(const void *p) { const auto v = load<uint4>(p); if (v.x == ~0u || v.y == ~0u || v.z == ~0u || v.w == ~0u) give_way(); return v; }
INLINE void put(void *p, uint32_t v) { memcpy(p, &v, 4); }
INLINE void put2(void *p, uint32_t a, uint32_t b) { put(p, a); put((uint8_t *)p + 4, b); }
INLINE uint32_t acquire(const unsigned *p) { const unsigned v = *p; give_way(); return v; }
INLINE void release_one(unsigned *p) { ++*p; }
INLINE void count_one(unsigned *p) { ++*p; }
INLINE void async_fence() {}
