// The forward pass over whole sequences, with the arithmetic and the order of sums of the decode steps: what the trainer
// computes for a token is, to the last bit, what the sampler computed. For the one shape that exact mode has this order for.
#include "shape.cuh"
#if OPD_HIDDEN == 1536 && OPD_INNER == 8960 && OPD_HEADS == 12 && OPD_KEY_HEADS == 2
#include "arithmetic.cuh"
#include "sliced.cuh"

// ---- norm: 8 warps go through 8 rows as the compute warps of a decode step do
__global__ void __launch_bounds__(COMPUTE_THREADS) norm_rows(const bf16 *x, const bf16 *weight, bf16 *out, int rows, float epsilon) {
    __shared__ float square[COMPUTE][ROWS];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, t = lane & 3, of8 = lane >> 2, row = blockIdx.x * ROWS + of8;
    const size_t first = (size_t)min(row, rows - 1) * HIDDEN + warp * 192 + t * 2;
    uint32_t words[24];
    float s4[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 24; i++) words[i] = *(const uint32_t *)(x + first + i * 8);
#pragma unroll
    for (int i = 0; i < 24; i++) add_squares(s4, words[i], i & 3);
    const float own = lanes_sum(s4);
    if (t == 0) square[warp][of8] = own;
    __syncthreads();
    float all = 0.f;
#pragma unroll
    for (int i = 0; i < COMPUTE; i++) all += square[i][of8];
    const float scale = norm_scale(all, epsilon);
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < 24; i++) {
        const uint32_t w = __ldg((const uint32_t *)(weight + warp * 192 + t * 2 + i * 8));
        *(uint32_t *)(out + first + i * 8) = normed(words[i], scale, w);
    }
}

// ---- rotation: a thread has a number of the lower half and the one half a head away
__global__ void rotate_rows(const bf16 *x, bf16 *out, const float *cos, const float *sin, const long long *position, int heads, size_t total) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int d = i % 64;
    const size_t head = i / 64, at = head * HEAD + d, angle = position[head / heads] * HEAD + d;
    const float below = __bfloat162float(x[at]), above = __bfloat162float(x[at + 64]), c = cos[angle], s = sin[angle + 64];
    out[at] = __float2bfloat16(turned(below, above, c, s, false));
    out[at + 64] = __float2bfloat16(turned(above, below, c, s, true));
}

// ---- silu(gate) x up
__global__ void gate_rows(const bf16 *gate, const bf16 *up, bf16 *out, size_t gate_row, size_t up_row, int inner, size_t total) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const size_t row = i / inner, column = i % inner;
    out[i] = __float2bfloat16(gated(__bfloat162float(gate[row * gate_row + column]), __bfloat162float(up[row * up_row + column])));
}

// ---- attention: 128 queries of one sequence and one head a block, 16 a warp, which goes through all keys of each page
struct Attend {
    const bf16 *query, *keys, *values;  // [rows][HEADS x HEAD]; [rows][KEY_HEADS x HEAD], or pages in rows of keys
    bf16 *out;
    const int *tile_sequence, *tile_first;                     // of each block: its sequence, and its first query there
    const int *query_row, *queries, *first_position, *key_row; // of each sequence
    const int *table;                                          // of each sequence its pages; null: keys lie in rows
    int table_width;
};
constexpr int TILE_QUERIES = 16 * COMPUTE, CHUNKS = HEAD / 8, STEPS = HEAD / 16, BLOCKS = PAGE / 16;  // a chunk has 16 bytes
struct AttendShared {
    bf16 keys[2][PAGE][HEAD], values[2][PAGE][HEAD];  // of this page and of the next; chunks of a row are swizzled
};
INLINE uint32_t chunk_at(uint32_t base, int row, int chunk) { return base + (row * CHUNKS + (chunk ^ (row & 7))) * 16; }
INLINE void copy_chunk(uint32_t to, const void *from, bool there) {  // zeros where nothing is
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
INLINE void copies_end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> INLINE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
INLINE void load_matrices(uint32_t *r, uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
INLINE void load_matrices_turned(uint32_t *r, uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
INLINE void copy_page(const Attend &A, uint32_t to, const bf16 *from, int sequence, int page, int head, int tokens) {
    size_t at, pitch;
    if (A.table) {
        at = ((size_t)A.table[sequence * A.table_width + page] * KEY_HEADS + head) * PAGE * HEAD;
        pitch = HEAD;
    } else {
        at = ((size_t)(A.key_row[sequence] + page * PAGE) * KEY_HEADS + head) * HEAD;
        pitch = KEY_HEADS * HEAD;
    }
#pragma unroll
    for (int i = 0; i < PAGE * CHUNKS / COMPUTE_THREADS; i++) {
        const int number = i * COMPUTE_THREADS + threadIdx.x, row = number / CHUNKS, chunk = number % CHUNKS;
        const bool there = page * PAGE + row < tokens;
        copy_chunk(chunk_at(to, row, chunk), from + at + (there ? row * pitch + chunk * 8 : 0), there);
    }
}
// Scores of a warp's 16 queries with the 16 keys of a block: v[0 … 3] of query g, v[4 … 7] of query g + 8
INLINE void scores_of(const uint32_t (*a)[4], uint32_t keys, int block, float *v, int first, const int *position, int lane) {
    const int t = lane & 3;
    float c[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int step = 0; step < STEPS; step += 2) {
            uint32_t b[4];
            load_matrices(b, chunk_at(keys, block * 16 + j * 8 + (lane & 7), step * 2 + (lane >> 3)));
            mma(c[j], a[step][0], a[step][1], a[step][2], a[step][3], b[0], b[1]);
            mma(c[j], a[step + 1][0], a[step + 1][1], a[step + 1][2], a[step + 1][3], b[2], b[3]);
        }
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = first + block * 16 + (i >> 1) * 8 + 2 * t + (i & 1);
            v[half * 4 + i] = key <= position[half] ? score_of(c[i >> 1][half * 2 + (i & 1)]) : LOWEST;
        }
}
INLINE float highest_of(const float *v, float top) { return fmaxf(top, fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3]))); }
INLINE float lanes_top(float top) {
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    return fmaxf(top, __shfl_xor_sync(~0u, top, 2));
}
__global__ void __launch_bounds__(COMPUTE_THREADS, 1) attend_rows(const __grid_constant__ Attend A) {
    extern __shared__ __align__(128) uint8_t raw[];
    AttendShared &s = *(AttendShared *)raw;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, head = blockIdx.x, key_head = head / GROUP;
    const int tile = gridDim.y - 1 - blockIdx.y;  // of a sequence, the last tiles have most to do
    const int sequence = A.tile_sequence[tile], first = A.tile_first[tile];
    const int count = min(TILE_QUERIES, A.queries[sequence] - first), at = A.first_position[sequence] + first, tokens = at + count;
    const size_t row = A.query_row[sequence] + first;
    const uint32_t keys[2] = {shared_address(s.keys[0]), shared_address(s.keys[1])}, values[2] = {shared_address(s.values[0]), shared_address(s.values[1])};
    const int own[2] = {warp * 16 + g, warp * 16 + g + 8}, pages = (tokens - 1) / PAGE + 1;
    const int position[2] = {at + min(own[0], count - 1), at + min(own[1], count - 1)}, last = at + min(warp * 16 + 15, count - 1);
    const bool at_work = warp * 16 < count;
    // blocks of 16 keys that any query of the warp sees: those behind add nothing but zeros
    const auto blocks_of = [&](int page) { return at_work ? max(0, min(BLOCKS, (last - page * PAGE) / 16 + 1)) : 0; };
    uint32_t a[STEPS][4];
#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const bf16 *from = A.query + (row + own[i & 1]) * ATTENDED + head * HEAD + step * 16 + (i >> 1) * 8 + t * 2;
            a[step][i] = own[i & 1] < count ? *(const uint32_t *)from : 0;
        }
    float highest[2] = {LOWEST, LOWEST};
    copy_page(A, keys[0], A.keys, sequence, 0, key_head, tokens);
    copies_end_group();
    for (int page = 0; page < pages; page++) {  // the row's maximum first: pages are weighed by it
        if (page + 1 < pages) copy_page(A, keys[(page + 1) & 1], A.keys, sequence, page + 1, key_head, tokens);
        copies_end_group();
        copies_wait<1>();
        __syncthreads();
        const int blocks = blocks_of(page);
#pragma unroll 2
        for (int block = 0; block < blocks; block++) {
            float v[8];
            scores_of(a, keys[page & 1], block, v, page * PAGE, position, lane);
            highest[0] = highest_of(v, highest[0]);
            highest[1] = highest_of(v + 4, highest[1]);
        }
        __syncthreads();
    }
    highest[0] = lanes_top(highest[0]);
    highest[1] = lanes_top(highest[1]);
    float out[2 * STEPS][4], merged[2] = {0.f, 0.f};  // of the queries g and g + 8, pairs of dimensions 8 apart
#pragma unroll
    for (int i = 0; i < 2 * STEPS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) out[i][j] = 0.f;
    copy_page(A, keys[0], A.keys, sequence, 0, key_head, tokens);
    copy_page(A, values[0], A.values, sequence, 0, key_head, tokens);
    copies_end_group();
    for (int page = 0; page < pages; page++) {
        if (page + 1 < pages) {
            copy_page(A, keys[(page + 1) & 1], A.keys, sequence, page + 1, key_head, tokens);
            copy_page(A, values[(page + 1) & 1], A.values, sequence, page + 1, key_head, tokens);
        }
        copies_end_group();
        copies_wait<1>();
        __syncthreads();
        const int blocks = blocks_of(page);
        if (blocks) {
            float v[BLOCKS][8], top[2] = {LOWEST, LOWEST}, mass[2] = {0.f, 0.f};
#pragma unroll
            for (int block = 0; block < BLOCKS; block++)
                if (block < blocks) {
                    scores_of(a, keys[page & 1], block, v[block], page * PAGE, position, lane);
                    top[0] = highest_of(v[block], top[0]);
                    top[1] = highest_of(v[block] + 4, top[1]);
                }
            top[0] = lanes_top(top[0]);
            top[1] = lanes_top(top[1]);
            uint32_t p[BLOCKS][4];
#pragma unroll
            for (int block = 0; block < BLOCKS; block++)
                if (block < blocks) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        float *share = v[block] + half * 4;
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const int key = page * PAGE + block * 16 + (i >> 1) * 8 + 2 * t + (i & 1);
                            share[i] = key <= position[half] ? share_of(share[i], top[half]) : 0.f;
                        }
                        mass[half] = __fadd_rn(mass[half], lanes_mass(share));
                        p[block][half] = pair(share[0], share[1]);
                        p[block][2 + half] = pair(share[2], share[3]);
                    }
                }
            const float weight[2] = {share_of(top[0], highest[0]), share_of(top[1], highest[1])};
            merged[0] = merge_mass(merged[0], weight[0], mass[0]);
            merged[1] = merge_mass(merged[1], weight[1], mass[1]);
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                float part[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
                for (int block = 0; block < BLOCKS; block++)
                    if (block < blocks) {
                        uint32_t b[4];
                        load_matrices_turned(b, chunk_at(values[page & 1], block * 16 + (lane & 15), i * 2 + (lane >> 4)));
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            float c[4] = {0, 0, 0, 0};
                            mma(c, p[block][0], p[block][1], p[block][2], p[block][3], b[j * 2], b[j * 2 + 1]);
#pragma unroll
                            for (int k = 0; k < 4; k++) part[j][k] = __fadd_rn(part[j][k], c[k]);
                        }
                    }
#pragma unroll
                for (int j = 0; j < 2; j++)
#pragma unroll
                    for (int k = 0; k < 4; k++) out[2 * i + j][k] = merge_sum(out[2 * i + j][k], weight[k >> 1], part[j][k]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (own[half] >= count) continue;
        bf16 *to = A.out + (row + own[half]) * ATTENDED + head * HEAD + 2 * t;
#pragma unroll
        for (int i = 0; i < 2 * STEPS; i++)
            *(uint32_t *)(to + i * 8) = pair(__fdiv_rn(out[i][half * 2], merged[half]), __fdiv_rn(out[i][half * 2 + 1], merged[half]));
    }
}

// ---- log-probabilities: a block a token
constexpr int LOGP_THREADS = 704;  // 132 CTAs' parts of 16 columns in three turns
__global__ void __launch_bounds__(LOGP_THREADS) logp_rows(const float *logits, size_t row_floats, const long long *ids, float *logp, float *normaliser, int vocabulary, float coldness) {
    __shared__ Mass column[CTAS * 16], part[CTAS];
    const float *row = logits + blockIdx.x * row_floats;
    const int tiles = tiles_of(vocabulary), lane = threadIdx.x & 31;
    for (int i = threadIdx.x; i < CTAS * 16; i += LOGP_THREADS) {
        const int cta = i / 16, first = first_tile(tiles, cta), count = own_tiles(tiles, cta);
        Mass sum;
        for (int tile = first; tile < first + count; tile++) {
            const int id = tile * 16 + i % 16;
            if (id < vocabulary) sum.add(__fmul_rn(row[id], coldness));
        }
        column[i] = sum;
    }
    __syncthreads();
    if (threadIdx.x < CTAS) {
        Mass sum = column[threadIdx.x * 16];
        for (int k = 1; k < 16; k++) sum.join(column[threadIdx.x * 16 + k].top, column[threadIdx.x * 16 + k].mass);
        part[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    Mass ctas[CTAS_EACH];
#pragma unroll
    for (int i = 0; i < CTAS_EACH; i++) if (lane * CTAS_EACH + i < CTAS) ctas[i] = part[lane * CTAS_EACH + i];
    const HeadMass head(ctas, lane);
    if (lane) return;
    logp[blockIdx.x] = head.logp(__fmul_rn(row[ids[blockIdx.x]], coldness));
    normaliser[blockIdx.x] = (float)((double)head.highest + log(head.all));
}

extern "C" {
int opd_product(const void *x, const void *weight, const void *bias, void *out, int rows, int outputs, int columns, int wide, cudaStream_t stream) {
    if (columns == 1536) return (wide ? sliced::start<1536, float> : sliced::start<1536, bf16>)(x, weight, bias, out, rows, outputs, stream);
    return (wide ? sliced::start<8960, float> : sliced::start<8960, bf16>)(x, weight, bias, out, rows, outputs, stream);
}
int opd_norm(const void *x, const void *weight, void *out, int rows, float epsilon, cudaStream_t stream) {
    norm_rows<<<(rows + ROWS - 1) / ROWS, COMPUTE_THREADS, 0, stream>>>((const bf16 *)x, (const bf16 *)weight, (bf16 *)out, rows, epsilon);
    return cudaGetLastError();
}
int opd_rotate(const void *x, void *out, const void *cos, const void *sin, const void *position, int rows, int heads, cudaStream_t stream) {
    const size_t total = (size_t)rows * heads * 64;
    rotate_rows<<<(total + 255) / 256, 256, 0, stream>>>((const bf16 *)x, (bf16 *)out, (const float *)cos, (const float *)sin, (const long long *)position, heads, total);
    return cudaGetLastError();
}
int opd_gate(const void *gate, const void *up, void *out, long long gate_row, long long up_row, int rows, int inner, cudaStream_t stream) {
    const size_t total = (size_t)rows * inner;
    gate_rows<<<(total + 255) / 256, 256, 0, stream>>>((const bf16 *)gate, (const bf16 *)up, (bf16 *)out, gate_row, up_row, inner, total);
    return cudaGetLastError();
}
int opd_attend(const Attend *A, int tiles, cudaStream_t stream) {
    cudaError_t error = cudaFuncSetAttribute(attend_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(AttendShared));
    if (error) return error;
    attend_rows<<<dim3(HEADS, tiles), COMPUTE_THREADS, sizeof(AttendShared), stream>>>(*A);
    return cudaGetLastError();
}
int opd_logp(const void *logits, long long row_floats, const void *ids, void *logp, void *normaliser, int rows, int vocabulary, float coldness, cudaStream_t stream) {
    logp_rows<<<rows, LOGP_THREADS, 0, stream>>>((const float *)logits, row_floats, (const long long *)ids, (float *)logp, (float *)normaliser, vocabulary, coldness);
    return cudaGetLastError();
}
}
#endif
