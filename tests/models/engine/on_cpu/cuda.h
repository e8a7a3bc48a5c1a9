// What the persistent kernel needs of CUDA, for a compiler of C++: types, arithmetic, and threads that wait for each other.
//
// Each of the grid's threads is a fiber of one thread of the CPU. One that waits (at a barrier, in a poll, for the other
// lanes of its warp) gives way, and is asked again in the next round.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using std::isfinite;
using std::max;
using std::min;

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

struct __nv_bfloat16 { uint16_t bits; };
struct uint2 { uint32_t x, y; };
struct uint4 { uint32_t x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

// ---- threads
struct Index { unsigned x; };
extern Index threadIdx, blockIdx;
void give_way();
uint8_t *shared_memory();  // of the CTA
[[noreturn]] inline void __trap() {
    fprintf(stderr, "trap in thread %u of CTA %u\n", threadIdx.x, blockIdx.x);
    abort();
}
struct Barrier { unsigned arrived, turn; };
Barrier &named_barrier(int which);
inline void wait_for_all(int which, unsigned threads) {
    Barrier &barrier = named_barrier(which);
    const unsigned turn = barrier.turn;
    if (++barrier.arrived == threads) { barrier.arrived = 0; barrier.turn++; }
    while (barrier.turn == turn) give_way();
}

// What a warp does together: each lane puts words down, and when all have, each looks at what it needs.
struct Warp { uint64_t words[2][32][6]; unsigned arrived, turn; };
Warp &own_warp();
inline const uint64_t (*together(const uint64_t *own, int count))[6] {
    Warp &warp = own_warp();
    const unsigned turn = warp.turn, lane = threadIdx.x % 32;
    std::copy(own, own + count, warp.words[turn & 1][lane]);
    if (++warp.arrived == 32) { warp.arrived = 0; warp.turn++; }
    while (warp.turn == turn) give_way();
    return warp.words[turn & 1];
}
template <class T> uint64_t as_bits(T v) { uint64_t bits = 0; memcpy(&bits, &v, sizeof v); return bits; }
template <class T> T from_bits(uint64_t bits) { T v; memcpy(&v, &bits, sizeof v); return v; }
inline void __syncwarp() { together(nullptr, 0); }
template <class T> T __shfl_sync(unsigned, T v, int lane) { const uint64_t own = as_bits(v); return from_bits<T>(together(&own, 1)[lane & 31][0]); }
template <class T> T __shfl_xor_sync(unsigned all, T v, int mask) { return __shfl_sync(all, v, (threadIdx.x % 32) ^ mask); }
template <class T> T __shfl_up_sync(unsigned all, T v, int by) { const int lane = threadIdx.x % 32; return __shfl_sync(all, v, lane < by ? lane : lane - by); }
inline unsigned __ballot_sync(unsigned, bool own) {
    const uint64_t word = own;
    const auto words = together(&word, 1);
    unsigned found = 0;
    for (int lane = 0; lane < 32; lane++) found |= (unsigned)words[lane][0] << lane;
    return found;
}
inline bool __any_sync(unsigned all, bool own) { return __ballot_sync(all, own) != 0; }

// ---- arithmetic
inline float __uint_as_float(uint32_t v) { return from_bits<float>(v); }
inline uint32_t __float_as_uint(float v) { return (uint32_t)as_bits(v); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline float exponential(float a) { return expf(a); }
#define __expf exponential
inline int __ffs(unsigned v) { return __builtin_ffs(v); }
inline int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }
inline uint16_t bfloat16_bits(float a) {  // to the nearest, ties to even; one NaN for all
    const uint32_t u = __float_as_uint(a);
    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
inline float __bfloat162float(__nv_bfloat16 a) { return __uint_as_float((uint32_t)a.bits << 16); }
inline __nv_bfloat16 __float2bfloat16(float a) { return {bfloat16_bits(a)}; }

// ---- memory
template <class T> T __ldg(const T *p) { return *p; }
template <class T> void __stcg(T *p, T v) { *p = v; }
inline void __threadfence_block() {}
inline int clock() { return 0; }
