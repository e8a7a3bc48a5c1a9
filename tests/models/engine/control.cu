// Small programs that are right, to see what racecheck takes for an order of accesses: nine times one warp writes 128
// bytes of shared memory and another reads them, handed over by KIND.
#include <cstdint>
#include <cstdio>
#include <cstring>

enum Kind { NAMED, LANES, WARP, BULK_LANES, BULK_WARP };  // barriers; who arrives at an mbarrier; who copies
const char *const NAMES[] = {"named", "lanes", "warp", "bulk-lanes", "bulk-warp"};

#define INLINE __device__ __forceinline__
INLINE uint32_t address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
INLINE void init(uint64_t *b, int arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(b)), "r"(arrivals)); }
INLINE void arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(b)) : "memory"); }
INLINE void expect(uint64_t *b, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(b)), "r"(bytes) : "memory"); }
INLINE void wait(uint64_t *b, uint32_t phase) {
    uint32_t ok = 0;
    while (!ok) asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0,1,0,p;}" : "=r"(ok) : "r"(address(b)), "r"(phase) : "memory");
}
INLINE void copy(void *to, const void *from, uint32_t bytes, uint64_t *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address(to)), "l"(from), "r"(bytes), "r"(address(b)) : "memory");
}
INLINE void warp_arrive(uint64_t *b, bool each, int lane) {
    if (!each) __syncwarp();
    if (each || lane == 0) arrive(b);
}

template <Kind KIND> __global__ void hand_over(const float *in, float *out, int turns) {
    __shared__ alignas(128) float slot[32];
    __shared__ uint64_t full, empty;
    constexpr bool BULK = KIND == BULK_LANES || KIND == BULK_WARP, EACH = KIND == LANES || KIND == BULK_LANES;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        init(&full, KIND == LANES ? 32 : 1);
        init(&empty, EACH ? 32 : 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float sum = 0;
    for (int turn = 0; turn < turns; turn++) {
        if constexpr (KIND == NAMED) {
            if (warp == 0) slot[lane] = in[turn * 32 + lane];
            asm volatile("bar.sync 1, 64;" ::: "memory");
            if (warp == 1) sum += slot[lane ^ 1];
            asm volatile("bar.sync 2, 64;" ::: "memory");
        } else if (warp == 0) {
            if (turn && (!BULK || lane == 0)) wait(&empty, (turn - 1) & 1);
            if constexpr (BULK) {
                if (lane == 0) { expect(&full, 128); copy(slot, in + turn * 32, 128, &full); }
            } else {
                slot[lane] = in[turn * 32 + lane];
                warp_arrive(&full, EACH, lane);
            }
        } else {
            wait(&full, turn & 1);
            sum += slot[lane ^ 1];
            warp_arrive(&empty, EACH, lane);
        }
    }
    if (warp == 1) out[lane] = sum;
}

int main(int, char **words) {
    float *in, *out;
    cudaMallocManaged(&in, 9 * 32 * sizeof(float));
    cudaMallocManaged(&out, 32 * sizeof(float));
    for (int i = 0; i < 9 * 32; i++) in[i] = i;
    decltype(&hand_over<NAMED>) programs[] = {hand_over<NAMED>, hand_over<LANES>, hand_over<WARP>, hand_over<BULK_LANES>, hand_over<BULK_WARP>};
    for (int kind = 0; kind < 5; kind++)
        if (!strcmp(words[1], NAMES[kind])) programs[kind]<<<1, 64>>>(in, out, 9);
    const char *said = cudaGetErrorString(cudaDeviceSynchronize());
    printf("%s: %s, %g\n", words[1], said, out[0]);
}
