// Single instructions that CUDA C++ has no word for. All loads of what other CTAs write are volatile: the compiler may
// move `__ldcg` over a barrier.
#pragma once
#include "shape.cuh"

#define INLINE __device__ __forceinline__

// ---- barriers in shared memory, and copies that arrive at them
INLINE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
INLINE void barrier_init(uint32_t a, int arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(a), "r"(arrivals)); }
INLINE void barrier_expect(uint32_t a, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(a), "r"(bytes) : "memory"); }
INLINE void barrier_arrive(uint32_t a) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(a) : "memory"); }
INLINE void warp_arrive(uint32_t a, int lane) {  // one lane for all, or each for itself
    __syncwarp();
    if (EVERY_LANE || lane == 0) barrier_arrive(a);
}
INLINE uint32_t barrier_test(uint32_t a, uint32_t phase) {
    uint32_t ok;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0,1,0,p;}" : "=r"(ok) : "r"(a), "r"(phase) : "memory");
    return ok;
}
INLINE void barrier_wait(uint32_t a, uint32_t phase) {  // a wait that never ends is a trap, not a hang
    uint32_t ok = 0;
    unsigned turns = 0;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0,1,0,p;}" : "=r"(ok) : "r"(a), "r"(phase) : "memory");
        if (!ok && ++turns > (EVERY_LANE ? ~0u >> 1 : 1u << 24)) __trap();
    } while (!ok);
}
INLINE void bulk_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier, uint64_t policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(policy) : "memory");
}
INLINE void bulk_prefetch(const void *from, uint32_t bytes) { asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory"); }
INLINE void compute_barrier() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
INLINE void finish_barrier() { asm volatile("bar.sync 2, 128;" ::: "memory"); }

// ---- numbers
INLINE uint4 load_shared(uint32_t a) { uint4 v; asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(a)); return v; }
INLINE float low(uint32_t v) { return __uint_as_float(v << 16); }
INLINE float high(uint32_t v) { return __uint_as_float(v & 0xffff0000u); }
INLINE uint32_t pair(float a, float b) { uint32_t r; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(r) : "f"(a), "f"(b)); return r; }
INLINE uint32_t multiply(uint32_t a, uint32_t b) { uint32_t r; asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
INLINE float rounded(float a) { return __bfloat162float(__float2bfloat16(a)); }
INLINE void mma(float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Where feature k of a block of 32 is kept: one load of 16 bytes gives a lane its part of two products of 16 columns.
INLINE int packed(int k) { return (k & ~31) | (((k >> 1) & 3) << 3) | (((k >> 4) & 1) << 2) | (((k >> 3) & 1) << 1) | (k & 1); }

// ---- loads past the L1, of what another CTA wrote before a barrier of the grid
INLINE uint32_t fresh(const void *p) { uint32_t v; asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
INLINE float fresh_float(const float *p) { return __uint_as_float(fresh(p)); }
INLINE float4 fresh_floats(const float *p) { float4 v; asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p) : "memory"); return v; }
INLINE long long fresh_long(const long long *p) { long long v; asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory"); return v; }
INLINE uint32_t fresh_byte(const uint8_t *p) { uint32_t v; asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }

// ---- relaxed accesses, for words that carry their own flag; and a counter's acquire and release
INLINE uint4 peek4(const void *p) { uint4 v; asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory"); return v; }
INLINE uint2 peek2(const void *p) { uint2 v; asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory"); return v; }
INLINE uint32_t peek(const void *p) { uint32_t v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
INLINE void put(void *p, uint32_t v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
INLINE void put2(void *p, uint32_t a, uint32_t b) { asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(a), "r"(b) : "memory"); }
INLINE uint32_t acquire(const unsigned *p) { uint32_t v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
INLINE void release_one(unsigned *p) { asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
INLINE void count_one(unsigned *p) { asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
INLINE void async_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
