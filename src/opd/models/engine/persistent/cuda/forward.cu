// The forward pass over whole sequences, with the arithmetic and the order of sums of the decode steps: what the trainer
// and the scorer compute for a token is, to the last bit, what the sampler computed. Products are in products.py.
#include "arithmetic.cuh"

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

// ---- attention: 16 queries of one sequence and the 6 heads of one key head a block; a warp has 16 keys of each page
struct Attend {
    const bf16 *query, *keys, *values;  // [rows][HEADS x HEAD]; [rows][KEY_HEADS x HEAD], or pages in rows of keys
    bf16 *out;
    const int *tile_sequence, *tile_first;                     // of each block: its sequence, and its first query there
    const int *query_row, *queries, *first_position, *key_row; // of each sequence
    const int *table;                                          // of each sequence its pages; null: keys lie in rows
    int table_width;
};
constexpr int TILE_QUERIES = 16, QUERY_PITCH = HEAD + 8, SUM_PITCH = HEAD + 8;
struct AttendShared {
    bf16 query[GROUP][TILE_QUERIES][QUERY_PITCH];
    float sum[COMPUTE][TILE_QUERIES][SUM_PITCH];
    float top[COMPUTE][GROUP][TILE_QUERIES], mass[COMPUTE][GROUP][TILE_QUERIES];
    float highest[GROUP][TILE_QUERIES], merged[GROUP][TILE_QUERIES], weight[GROUP][TILE_QUERIES];
};
struct Keys {  // of one page, one key head, one warp
    const bf16 *keys, *values;
    size_t pitch;
    int count;  // of the 16 that exist
};
INLINE Keys keys_of(const Attend &A, int sequence, int page, int head, int warp, int tokens) {
    Keys k;
    const int first = page * PAGE + warp * 16;
    k.count = min(16, max(0, tokens - first));
    if (A.table) {
        const size_t at = (((size_t)A.table[sequence * A.table_width + page] * KEY_HEADS + head) * PAGE + warp * 16) * HEAD;
        k.pitch = HEAD;
        k.keys = A.keys + at;
        k.values = A.values + at;
    } else {
        const size_t at = ((size_t)(A.key_row[sequence] + first) * KEY_HEADS + head) * HEAD;
        k.pitch = KEY_HEADS * HEAD;
        k.keys = A.keys + at;
        k.values = A.values + at;
    }
    return k;
}
INLINE void load_keys(const Keys &k, uint32_t (*b)[8][2], int g, int t) {  // [8 keys][16 dimensions]
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int step = 0; step < 8; step++) {
            const bool there = j * 8 + g < k.count;
            const bf16 *from = k.keys + (size_t)(j * 8 + g) * k.pitch + step * 16 + t * 2;
            b[j][step][0] = there ? __ldg((const uint32_t *)from) : 0;
            b[j][step][1] = there ? __ldg((const uint32_t *)(from + 8)) : 0;
        }
}
INLINE void load_values(const Keys &k, uint32_t (*b)[2], int g, int t) {  // [8 dimensions]: two pairs of keys
    const uint16_t *values = (const uint16_t *)k.values;
    const auto one = [&](int key, int d) -> uint32_t { return key < k.count ? __ldg(values + (size_t)key * k.pitch + d) : 0; };
#pragma unroll
    for (int i = 0; i < 16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int key = half * 8 + t * 2, d = i * 8 + g;
            b[i][half] = one(key, d) | one(key + 1, d) << 16;
        }
}
INLINE void scores_of(const AttendShared &s, int head, const uint32_t (*b)[8][2], float *v, int first, const int *position, int g, int t) {
    float c[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
    for (int step = 0; step < 8; step++) {
        const bf16 *q = &s.query[head][g][step * 16 + t * 2], *q8 = &s.query[head][g + 8][step * 16 + t * 2];
        const uint32_t a0 = *(const uint32_t *)q, a1 = *(const uint32_t *)q8, a2 = *(const uint32_t *)(q + 8), a3 = *(const uint32_t *)(q8 + 8);
#pragma unroll
        for (int j = 0; j < 2; j++) mma(c[j], a0, a1, a2, a3, b[j][step][0], b[j][step][1]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++)  // of the queries: g and g + 8
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = first + (i >> 1) * 8 + 2 * t + (i & 1);
            v[half * 4 + i] = key <= position[half] ? score_of(c[i >> 1][half * 2 + (i & 1)]) : LOWEST;
        }
}
INLINE float lanes_top(const float *v) {
    float top = fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3]));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    return fmaxf(top, __shfl_xor_sync(~0u, top, 2));
}
__global__ void __launch_bounds__(COMPUTE_THREADS) attend_rows(const __grid_constant__ Attend A) {
    extern __shared__ __align__(16) uint8_t raw[];
    AttendShared &s = *(AttendShared *)raw;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, head = blockIdx.y;
    const int sequence = A.tile_sequence[blockIdx.x], first = A.tile_first[blockIdx.x];
    const int count = min(TILE_QUERIES, A.queries[sequence] - first), at = A.first_position[sequence] + first, tokens = at + count;
    const size_t row = A.query_row[sequence] + first;
    for (int i = threadIdx.x; i < GROUP * TILE_QUERIES * HEAD / 8; i += COMPUTE_THREADS) {
        const int of_group = i / (TILE_QUERIES * HEAD / 8), query = i / (HEAD / 8) % TILE_QUERIES, d = i % (HEAD / 8) * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (query < count) v = *(const uint4 *)(A.query + (row + query) * (HEADS * HEAD) + (head * GROUP + of_group) * HEAD + d);
        *(uint4 *)&s.query[of_group][query][d] = v;
    }
    __syncthreads();
    const int position[2] = {min(at + g, tokens - 1), min(at + g + 8, tokens - 1)}, pages = (tokens - 1) / PAGE + 1;
    float v[GROUP][8], top[GROUP][2];
    uint32_t b[2][8][2];
#pragma unroll
    for (int h = 0; h < GROUP; h++) top[h][0] = top[h][1] = LOWEST;
    for (int page = 0; page < pages; page++) {  // the row's maximum first: pages are weighed by it
        load_keys(keys_of(A, sequence, page, head, warp, tokens), b, g, t);
#pragma unroll
        for (int h = 0; h < GROUP; h++) {
            scores_of(s, h, b, v[0], page * PAGE + warp * 16, position, g, t);
            top[h][0] = fmaxf(top[h][0], lanes_top(v[0]));
            top[h][1] = fmaxf(top[h][1], lanes_top(v[0] + 4));
        }
    }
    if (t == 0)
#pragma unroll
        for (int h = 0; h < GROUP; h++) { s.top[warp][h][g] = top[h][0]; s.top[warp][h][g + 8] = top[h][1]; }
    __syncthreads();
    if (threadIdx.x < GROUP * TILE_QUERIES) {
        const int h = threadIdx.x / TILE_QUERIES, query = threadIdx.x % TILE_QUERIES;
        float highest = LOWEST;
        for (int w = 0; w < COMPUTE; w++) highest = fmaxf(highest, s.top[w][h][query]);
        s.highest[h][query] = highest;
        s.merged[h][query] = 0.f;
    }
    __syncthreads();
    float out[GROUP][8];  // of one query, 8 dimensions 16 apart
#pragma unroll
    for (int h = 0; h < GROUP; h++)
#pragma unroll
        for (int i = 0; i < 8; i++) out[h][i] = 0.f;
    const int own_query = threadIdx.x / 16, own_d = threadIdx.x % 16;
    uint32_t w[16][2];
    for (int page = 0; page < pages; page++) {
        const Keys keys = keys_of(A, sequence, page, head, warp, tokens);
        load_keys(keys, b, g, t);
#pragma unroll
        for (int h = 0; h < GROUP; h++) {
            scores_of(s, h, b, v[h], page * PAGE + warp * 16, position, g, t);
            const float a = lanes_top(v[h]), c = lanes_top(v[h] + 4);
            if (t == 0) { s.top[warp][h][g] = a; s.top[warp][h][g + 8] = c; }
        }
        load_values(keys, w, g, t);
        __syncthreads();
#pragma unroll
        for (int h = 0; h < GROUP; h++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int query = g + 8 * half;
                float page_top = LOWEST, *share = v[h] + half * 4;
#pragma unroll
                for (int i = 0; i < COMPUTE; i++) page_top = fmaxf(page_top, s.top[i][h][query]);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int key = page * PAGE + warp * 16 + (i >> 1) * 8 + 2 * t + (i & 1);
                    share[i] = key <= position[half] ? share_of(share[i], page_top) : 0.f;
                }
                const float mass = lanes_mass(share);
                if (t == 0) s.mass[warp][h][query] = mass;
                if (t == 0 && warp == 0) s.weight[h][query] = share_of(page_top, s.highest[h][query]);
            }
        __syncthreads();
        if (threadIdx.x < GROUP * TILE_QUERIES) {
            const int h = threadIdx.x / TILE_QUERIES, query = threadIdx.x % TILE_QUERIES;
            float mass = 0.f;
#pragma unroll
            for (int i = 0; i < COMPUTE; i++) mass += s.mass[i][h][query];
            s.merged[h][query] = merge_mass(s.merged[h][query], s.weight[h][query], mass);
        }
#pragma unroll
        for (int h = 0; h < GROUP; h++) {
            const uint32_t a0 = pair(v[h][0], v[h][1]), a1 = pair(v[h][4], v[h][5]), a2 = pair(v[h][2], v[h][3]), a3 = pair(v[h][6], v[h][7]);
#pragma unroll
            for (int i = 0; i < 16; i++) {
                float c[4] = {0, 0, 0, 0};
                mma(c, a0, a1, a2, a3, w[i][0], w[i][1]);
                *(float2 *)&s.sum[warp][g][i * 8 + 2 * t] = make_float2(c[0], c[1]);
                *(float2 *)&s.sum[warp][g + 8][i * 8 + 2 * t] = make_float2(c[2], c[3]);
            }
            __syncthreads();
            const float weight = s.weight[h][own_query];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float part = 0.f;
#pragma unroll
                for (int j = 0; j < COMPUTE; j++) part += s.sum[j][own_query][own_d + 16 * i];
                out[h][i] = merge_sum(out[h][i], weight, part);
            }
            __syncthreads();
        }
    }
    if (own_query >= count) return;
#pragma unroll
    for (int h = 0; h < GROUP; h++) {
        const float mass = s.merged[h][own_query];
        bf16 *to = A.out + (row + own_query) * (HEADS * HEAD) + (head * GROUP + h) * HEAD + own_d;
#pragma unroll
        for (int i = 0; i < 8; i++) to[16 * i] = __float2bfloat16(__fdiv_rn(out[h][i], mass));
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
    attend_rows<<<dim3(tiles, KEY_HEADS), COMPUTE_THREADS, sizeof(AttendShared), stream>>>(*A);
    return cudaGetLastError();
}
int opd_logp(const void *logits, long long row_floats, const void *ids, void *logp, void *normaliser, int rows, int vocabulary, float coldness, cudaStream_t stream) {
    logp_rows<<<rows, LOGP_THREADS, 0, stream>>>((const float *)logits, row_floats, (const long long *)ids, (float *)logp, (float *)normaliser, vocabulary, coldness);
    return cudaGetLastError();
}
}
