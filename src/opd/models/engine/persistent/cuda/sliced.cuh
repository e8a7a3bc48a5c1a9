// The trainer's products in the order of the decode steps: slices of the columns, each a chain of tensor-core instructions
// from zero, added one after the other; of down the quarters likewise. The instructions for large tiles (wgmma) sum 16
// columns as the small ones do.
//
//   a CTA, one an SM, goes through tiles of 128 rows and 128 outputs
//     producer    one thread: pieces of 64 columns of both, by bulk tensor copies, into a ring
//     2 consumers a warp group for 64 rows each: slice += piece; sum += slice; the tile, rounded
#pragma once
#include "words.cuh"
#include <cuda.h>

namespace sliced {
constexpr int TALL = 128, BROAD = 128, PIECE = 64, RING = 6, CONSUMERS = 2, BLOCK_THREADS = 128 * (1 + CONSUMERS);
constexpr int TILE_BYTES = TALL * PIECE * 2;  // of either operand
static_assert(TALL == BROAD, "both operands have pieces of one size");
struct __align__(1024) Memory {
    uint8_t rows[RING][TILE_BYTES], weights[RING][TILE_BYTES];
    unsigned long long full[RING], empty[RING];
};
struct Columns {  // how they are cut, in halves of a piece: groups of 8 slices
    int groups, first_six, last_two;
};
template <int COLUMNS> __host__ __device__ constexpr Columns columns() { return COLUMNS == 1536 ? Columns{1, 6, 6} : Columns{4, 9, 8}; }
static_assert(columns<1536>().groups * (6 * columns<1536>().first_six + 2 * columns<1536>().last_two) * 32 == 1536, "all columns");
static_assert(columns<8960>().groups * (6 * columns<8960>().first_six + 2 * columns<8960>().last_two) * 32 == 8960, "all columns");

INLINE void copy_piece(uint32_t to, const CUtensorMap *map, int column, int row, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
}
INLINE uint64_t operand(uint32_t address) {  // rows of 128 bytes, swizzled by eights
    return (uint64_t)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
INLINE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
INLINE void products_end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> INLINE void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }
#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
INLINE void multiply16(float *c, uint64_t rows, uint64_t weights, int further) {  // 64 x 128 x 16; not `further`: from zero
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;}"
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)
        : "l"(rows), "l"(weights), "r"(further));
}
#undef SIXTEEN
#undef FOUR
struct Place { int row, output; };
INLINE Place place_of(int tile, int down, int across) {  // bands of eight tiles of rows share the weights that they read
    const int band = tile / (8 * across), height = min(down - band * 8, 8), within = tile % (8 * across);
    return {(band * 8 + within % height) * TALL, within / height * BROAD};
}
INLINE void write(bf16 *to, float x, float y, bool one, bool two, bool aligned) {
    if (two && aligned) *(uint32_t *)to = pair(x, y);
    else {
        if (one) to[0] = __float2bfloat16(x);
        if (two) to[1] = __float2bfloat16(y);
    }
}
INLINE void write(float *to, float x, float y, bool one, bool two, bool aligned) {
    if (two && aligned) *(float2 *)to = make_float2(x, y);
    else {
        if (one) to[0] = x;
        if (two) to[1] = y;
    }
}
template <int COLUMNS, typename RESULT>
__global__ void __launch_bounds__(BLOCK_THREADS, 1) product_tiles(const __grid_constant__ CUtensorMap rows_map, const __grid_constant__ CUtensorMap weights_map, const bf16 *bias, RESULT *out, int rows, int outputs) {
    extern __shared__ __align__(1024) uint8_t raw[];
    Memory &s = *(Memory *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = warp / 4;
    const int down = (rows + TALL - 1) / TALL, across = (outputs + BROAD - 1) / BROAD, tiles = down * across;
    if (threadIdx.x == 0) {
        for (int i = 0; i < RING; i++) {
            barrier_init(shared_address(&s.full[i]), 1);
            barrier_init(shared_address(&s.empty[i]), 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int stage = 0;
    uint32_t phase = 0;
    const auto next_stage = [&] {
        if (++stage == RING) {
            stage = 0;
            phase ^= 1;
        }
    };
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const Place at = place_of(tile, down, across);
            for (int column = 0; column < COLUMNS; column += PIECE, next_stage()) {
                barrier_wait(shared_address(&s.empty[stage]), phase ^ 1);
                const uint32_t full = shared_address(&s.full[stage]);
                barrier_expect(full, 2 * TILE_BYTES);
                copy_piece(shared_address(s.rows[stage]), &rows_map, column, at.row, full);
                copy_piece(shared_address(s.weights[stage]), &weights_map, column, at.output, full);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    constexpr Columns CUT = columns<COLUMNS>();
    const int own = group - 1;
    int kept = -1;  // a stage that has been read, once the products under way are done
    const auto let_go = [&] {
        if (kept >= 0 && lane == 0) barrier_arrive(shared_address(&s.empty[kept]));
        kept = -1;
    };
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sum[64], quarter[CUT.groups > 1 ? 64 : 1], slice[64];
#pragma unroll
        for (int i = 0; i < 64; i++) sum[i] = 0.f;
        int half = 0;
#pragma unroll 1
        for (int g = 0; g < CUT.groups; g++) {
            if constexpr (CUT.groups > 1)
#pragma unroll
                for (int i = 0; i < 64; i++) quarter[i] = 0.f;
#pragma unroll 1
            for (int part = 0; part < 8; part++) {
                const int halves = part < 6 ? CUT.first_six : CUT.last_two;
#pragma unroll 1
                for (int h = 0; h < halves; h++, half++) {
                    if (!(half & 1)) barrier_wait(shared_address(&s.full[stage]), phase);
                    const uint64_t a = operand(shared_address(s.rows[stage]) + own * 64 * PIECE * 2 + (half & 1) * 64);
                    const uint64_t b = operand(shared_address(s.weights[stage]) + (half & 1) * 64);
                    __syncwarp();
                    products_begin();
                    multiply16(slice, a, b, h);
                    multiply16(slice, a + 2, b + 2, 1);
                    products_end_group();
                    products_wait<1>();
                    let_go();
                    if (half & 1) {
                        kept = stage;
                        next_stage();
                    }
                }
                products_wait<0>();
                let_go();
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    if constexpr (CUT.groups > 1) quarter[i] = __fadd_rn(quarter[i], slice[i]);
                    else sum[i] = __fadd_rn(sum[i], slice[i]);
                }
            }
            if constexpr (CUT.groups > 1)
#pragma unroll
                for (int i = 0; i < 64; i++) sum[i] = __fadd_rn(sum[i], quarter[i]);
        }
        const Place at = place_of(tile, down, across);
#pragma unroll
        for (int j = 0; j < 16; j++) {
            const int output = at.output + j * 8 + (lane & 3) * 2;
            const bool one = output < outputs, two = output + 1 < outputs;
            const float first = bias && one ? __bfloat162float(bias[output]) : 0.f, second = bias && two ? __bfloat162float(bias[output + 1]) : 0.f;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int row = at.row + own * 64 + (warp & 3) * 16 + (lane >> 2) + i * 8;
                if (row < rows) write(out + (size_t)row * outputs + output, __fadd_rn(sum[j * 4 + i * 2], first), __fadd_rn(sum[j * 4 + i * 2 + 1], second), one, two, outputs % 2 == 0);
            }
        }
    }
}
inline int map_of(CUtensorMap *map, const void *from, int rows, int columns) {
    static const auto encode = [] {
        void *found = nullptr;
        cudaDriverEntryPointQueryResult result;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
        return (decltype(&cuTensorMapEncodeTiled))found;
    }();
    if (!encode) return cudaErrorNotSupported;
    const cuuint64_t size[2] = {(cuuint64_t)columns, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)columns * 2};
    const cuuint32_t box[2] = {PIECE, TALL}, step[2] = {1, 1};
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)from, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) ? cudaErrorInvalidValue : cudaSuccess;
}
template <int COLUMNS, typename RESULT>
int start(const void *x, const void *weight, const void *bias, void *out, int rows, int outputs, cudaStream_t stream) {
    CUtensorMap rows_map, weights_map;
    if (const int error = map_of(&rows_map, x, rows, COLUMNS)) return error;
    if (const int error = map_of(&weights_map, weight, outputs, COLUMNS)) return error;
    const auto kernel = product_tiles<COLUMNS, RESULT>;
    constexpr int BYTES = sizeof(Memory) + 1024;
    if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES)) return error;
    const int tiles = ((rows + TALL - 1) / TALL) * ((outputs + BROAD - 1) / BROAD);
    kernel<<<min(tiles, CTAS), BLOCK_THREADS, BYTES, stream>>>(rows_map, weights_map, (const bf16 *)bias, (RESULT *)out, rows, outputs);
    return cudaGetLastError();
}
}  // namespace sliced
