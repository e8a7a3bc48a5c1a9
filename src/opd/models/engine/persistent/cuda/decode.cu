// One launch = several decode steps of up to 8 sequences, or one of fewer sequences that have several rows each: the
// newest token, and guesses of what follows (AHEAD). docs/persistent.md tells the story of a step.
//
//   132 CTAs, one an SM, all resident:   8 compute warps │ 4 finish warps │ 1 stream warp (and 3 that give registers)
//
//   stream    memory ──► ring in shared memory            (stream.cuh)
//   compute   ring x activations ──► slots                (products.cuh, attention.cuh)
//   finish    slots ──► sums, bias, rotation, silu, residual ──► other CTAs (exchange.cuh), tokens (draw.cuh)
//
// All sums have a fixed order, none is formed by atomics: what a row gets depends on nothing but that row.
#include "attention.cuh"
#include "draw.cuh"

// ------------------------------------------------------------------------------------------------ compute warps
template <bool AHEAD> INLINE void compute(const Params &P, Shared &s, int cta, int tiles) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = lane >> 2, t = lane & 3;
    auto waiting = [&](int v) { if (threadIdx.x == 0) *(volatile int *)&s.waiting = v; };
    Ring r(s);
    Handover h(s);
    using Attended = Blocks<ATTENDED>;
    using Deep = Blocks<DOWN_DEEP>;
    __align__(16) uint32_t b[4 * most(Hidden::MOST, most(Attended::MOST, Deep::MOST))];
    uint32_t x[4 * Hidden::MOST];
    float c[4];
    uint4 norm[Hidden::MOST];
    const auto of_row = [&](const bf16 *rows, int columns, int first) { return rows + row * columns + first * 32 + t * 8; };
    for (int step = 0; step < P.steps; step++) {
        if (step) wait_for_drawn(P.counter, step * P.rows, false);
        const Pages mine = my_pages(s.start, step, cta);
        for (int layer = 0; cta < WORKERS && layer < P.layers; layer++) {
            const int e = step * P.layers + layer + 1, copy = e % 3, before = (e + 2) % 3;
            // q, k, v: dimensions that are rotated together
            load_norm(P.norms + (size_t)layer * 2 * HIDDEN, norm, warp, lane);
            if (layer) {
                waiting(1);
                wait_for_stored(P.counter, DOWN_STORED, (e - 1) * FINISH * WORKERS, (e - 1) * WORKERS);
                poll<Hidden::MOST>(of_row(P.x_down + before * ROWS * HIDDEN, HIDDEN, Hidden::first(warp)), x, Hidden::count(warp), false);
            } else
                load_embedding(P.embedding + (row < P.rows ? (size_t)fresh(P.ids + row) * HIDDEN : 0), x, warp, lane);
            normalise(x, norm, b, s.square[0], P.epsilon, warp, lane);
            multiply_pairs<QKV>(r, h, s, b, c, warp, lane);
            waiting(1);
            attend_pages<AHEAD>(P, s, r, h, copy, layer, step, mine, warp, lane);
            // output projection
            poll<Attended::MOST>(of_row(P.mixed + copy * ROWS * ATTENDED, ATTENDED, Attended::first(warp)), b, Attended::count(warp), true);
            multiply_tile<OUT / 2, ATTENDED>(r, b, c, warp, lane);
            hand_over(h, s, c, warp, lane);
            // gate and up
            load_norm(P.norms + (size_t)(layer * 2 + 1) * HIDDEN, norm, warp, lane);
            wait_for_stored(P.counter, MIXED_STORED, e * FINISH * WORKERS, (e - 1) * WORKERS);
            poll<Hidden::MOST>(of_row(P.x_mixed + copy * ROWS * HIDDEN, HIDDEN, Hidden::first(warp)), x, Hidden::count(warp), false);
            normalise(x, norm, b, s.square[1], P.epsilon, warp, lane);
            waiting(0);
            multiply_pairs<GATED>(r, h, s, b, c, warp, lane);
            // down: a group of four CTAs has the rows of four, each of them a quarter of the columns
            waiting(1);
            poll<Deep::MOST>(of_row(P.gated + copy * ROWS * INNER, INNER, (cta % DOWN_SPLIT) * Deep::ALL + Deep::first(warp)), b, Deep::count(warp), true);
            waiting(0);
            for (int i = 0; i < DOWN / 16; i++) {
                multiply_tile<8, DOWN_DEEP>(r, b, c, warp, lane);
                hand_over(h, s, c, warp, lane);
            }
        }
        const int done = (step + 1) * P.layers;
        load_norm(P.norms + (size_t)P.layers * 2 * HIDDEN, norm, warp, lane);
        wait_for_stored(P.counter, DOWN_STORED, done * FINISH * WORKERS, done * WORKERS);
        waiting(0);
        if (threadIdx.x == 0) {
            if constexpr (EVERY_LANE) barrier_arrive(shared_address(&s.kept));
            else { __threadfence_block(); *(volatile int *)&s.steps_kept = step + 1; }
        }
        poll<Hidden::MOST>(of_row(P.x_down + (done % 3) * ROWS * HIDDEN, HIDDEN, Hidden::first(warp)), x, Hidden::count(warp), false);
        normalise(x, norm, b, s.square[0], P.epsilon, warp, lane);
        for (int i = 0; i < tiles; i++) {
            multiply_tile<8, HIDDEN>(r, b, c, warp, lane);
            hand_over(h, s, c, warp, lane);
        }
    }
}

// ------------------------------------------------------------------------------------------------- finish warps
struct Place {  // of a finish thread, in a CTA's rows
    int tid, lane, row;             // row: the sequence
    int eighth, half, of_tile;      // in a tile of 8 + 8 rows: which of 8, which half; as an index into the sums
    int residual; bool owns; int x; // in the tile of the output projection: the feature; whether it is one; where it is in x
};

// q, k, v: bias, rotation; queries, the new keys and values to the others, and into the pages. Queries and keys that
// have norms go as they are: who attends has the whole head, and turns it.
struct Head {  // of a tile of pairs that are rotated together
    int head, d, low_d, pair_; bool there;
    INLINE Head(int cta, int tile, const Place &at) {
        const int turned = cta * QKV + tile * 8 + at.eighth;
        head = turned / (HEAD / 2);
        low_d = turned % (HEAD / 2);
        d = low_d + HEAD / 2 * at.half;
        pair_ = at.row * KEY_HEADS + (head < HEADS + KEY_HEADS ? head - HEADS : head - HEADS - KEY_HEADS);
        there = (QKV % 8 == 0 || at.eighth < QKV - tile * 8) && (QKV * WORKERS == TURNED || turned < TURNED);
    }
    INLINE bool is_query() const { return head < HEADS; }
    INLINE bool is_key() const { return head >= HEADS && head < HEADS + KEY_HEADS; }
    INLINE bf16 *exchanged(const Params &P, const Place &at, int copy) const {
        if (is_query()) return P.query + copy * ROWS * ATTENDED + (size_t)(at.row * HEADS + head) * HEAD + packed(d);
        if (is_key()) return P.new_key + (copy * PAIRS + pair_) * HEAD + packed(d);
        return P.new_value + (copy * PAIRS + pair_) * HEAD + d;
    }
};
constexpr int QKV_TILES = (QKV + 7) / 8;
INLINE void finish_heads(const Params &P, Shared &s, Handover &h, const Place &at, int cta, int layer, int copy, int position) {
    const size_t angle = (size_t)min(position, P.positions - 1) * HEAD;  // a row that has ended may run beyond
#pragma unroll
    for (int tile = 0; tile < QKV_TILES; tile++) {
        const Head head(cta, tile, at);
        const float bias = __ldg(P.bias + (((size_t)layer * WORKERS + cta) * QKV_TILES + tile) * 16 + at.eighth + 8 * at.half);
        const float cos = __ldg(P.cos + angle + head.low_d), sin = __ldg(P.sin + angle + head.low_d + HEAD / 2);
        h.wait_full();
        const float v = rounded(sum_of_warps(s.slot[h.slot].sum, at.of_tile) + bias), other = __shfl_xor_sync(~0u, v, 8);
        h.emptied(at.lane);
        const bool turns = !NORMED && (head.is_query() || head.is_key());
        const float y = turns ? turned(v, other, cos, sin, at.half) : v, next = __shfl_xor_sync(~0u, y, 16);
        if (head.there && !(at.lane & 16)) put(head.exchanged(P, at, copy), pair(y, next));
        if (head.there && !head.is_query() && !(NORMED && head.is_key())) {
            const int of_page = position % PAGE, page = s.table[at.row][position / PAGE];
            const size_t start = (((size_t)layer * P.pages + page) * KEY_HEADS + head.pair_ % KEY_HEADS) * PAGE * HEAD;
            if (head.is_key()) P.keys[start + key_place(of_page, head.d)] = __float2bfloat16(y);
            else P.values[start + value_place(of_page, head.d)] = __float2bfloat16(y);
            async_fence();  // later steps read it by bulk copies
        }
    }
}
INLINE void put_residual(bf16 *to, const Place &at, float x) {
    const float next = __shfl_xor_sync(~0u, x, 8);
    if (at.owns && !(at.tid & 8)) put(to + at.x, pair(x, next));
}
INLINE void finish_gated(const Params &P, Shared &s, Handover &h, const Place &at, int cta, int copy) {
    for (int i = 0; i < (GATED + 7) / 8; i++) {
        h.wait_full();
        const float v = rounded(sum_of_warps(s.slot[h.slot].sum, at.of_tile)), up = __shfl_xor_sync(~0u, v, 8);
        h.emptied(at.lane);
        const float y = gated(v, up), next = __shfl_xor_sync(~0u, y, 16);
        if (!at.half && !(at.lane & 16) && (GATED % 8 == 0 || at.eighth < GATED - i * 8))
            put(P.gated + copy * ROWS * INNER + at.row * INNER + packed(cta * GATED + i * 8 + at.eighth), pair(y, next));
    }
}
// A quarter's sums of four CTAs' rows to the group; then the four quarters of the own rows, in their order.
INLINE float finish_down(const Params &P, Shared &s, Handover &h, const Place &at, int cta, int copy) {
    const int quarter = cta % DOWN_SPLIT;
    float *group = P.down_part + ((size_t)copy * (WORKERS / DOWN_SPLIT) + cta / DOWN_SPLIT) * DOWN_SPLIT * DOWN * ROWS;
    for (int i = 0; i < DOWN / 16; i++) {
        h.wait_full();
        put(group + quarter * DOWN * ROWS + i * 128 + at.tid, __float_as_uint(sum_of_warps(s.slot[h.slot].sum, at.tid)));
        h.emptied(at.lane);
    }
    float v = 0.f;
    if (at.owns) {
        uint32_t q[DOWN_SPLIT];
        bool again;
        unsigned turns = 0;
        do {
            again = false;
#pragma unroll
            for (int j = 0; j < DOWN_SPLIT; j++) q[j] = peek(group + j * DOWN * ROWS + (quarter * OUT + at.residual) * ROWS + at.row);
#pragma unroll
            for (int j = 0; j < DOWN_SPLIT; j++) again |= q[j] == UNWRITTEN;
            if (++turns > PATIENCE) __trap();
        } while (again);
        v = ((__uint_as_float(q[0]) + __uint_as_float(q[1])) + __uint_as_float(q[2])) + __uint_as_float(q[3]);
    }
    __syncwarp();
    return v;
}
// What this CTA wrote in the layer before is unwritten again.
INLINE void clear(const Params &P, const Shared &s, const Place &at, int cta, int copy, int step, const Pages &mine) {
#pragma unroll
    for (int tile = 0; tile < QKV_TILES; tile++) {
        const Head head(cta, tile, at);
        if (head.there && !(at.lane & 16)) put(head.exchanged(P, at, copy), UNWRITTEN);
    }
    if (at.owns && !(at.tid & 8)) {
        put(P.x_mixed + copy * ROWS * HIDDEN + at.x, UNWRITTEN);
        put(P.x_down + copy * ROWS * HIDDEN + at.x, UNWRITTEN);
    }
    for (int i = at.tid; i < ROWS * GATED / 2; i += 128) put(P.gated + copy * ROWS * INNER + (i & 7) * INNER + packed(cta * GATED + (i >> 3) * 2), UNWRITTEN);
    for (int i = at.tid; i < DOWN * ROWS; i += 128) put(P.down_part + ((size_t)copy * WORKERS + cta) * DOWN * ROWS + i, UNWRITTEN);
    if (cta < MERGERS && !(at.tid & 1)) put(Merge(cta, at.tid).mixed(P, copy), UNWRITTEN);
    clear_pages(P, s, copy, step, mine, at.tid);
}
// All steps of the finish warps: slots in the order in which `compute` fills them. A CTA's features of the residual
// stream are the `x` of the threads that own one.
template <bool AHEAD> INLINE void finish(const Params &P, Shared &s, int cta) {
    Place at;
    at.tid = threadIdx.x - COMPUTE_THREADS;
    at.lane = threadIdx.x & 31;
    at.row = at.lane & 7;
    at.half = (at.lane >> 3) & 1;
    at.eighth = (at.tid >> 5) * 2 + (at.lane >> 4);
    at.of_tile = (at.eighth + 8 * at.half) * 8 + at.row;
    const int of16 = at.tid >> 3;
    at.owns = cta < OWNERS && of16 % 8 < OUT / 2;
    at.residual = of16 < 8 ? of16 : of16 - 8 + OUT / 2;
    const int feature = cta * OUT + at.residual;
    at.x = at.row * HIDDEN + packed(feature);
    Handover h(s);
    for (int step = 0; step < P.steps; step++) {
        if (step) wait_for_drawn(P.counter, step * P.rows, true);
        const int position = s.start[at.row] + step;
        const Pages mine = my_pages(s.start, step, cta);
        float x = 0.f;
        if (at.owns) {
            const size_t id = at.row < P.rows ? fresh(P.ids + at.row) : 0;
            x = __bfloat162float(P.embedding[id * HIDDEN + feature]);
        }
        for (int layer = 0; cta < WORKERS && layer < P.layers; layer++) {
            const int e = step * P.layers + layer + 1, copy = e % 3, before = (e + 2) % 3;
            finish_heads(P, s, h, at, cta, layer, copy, position);
            hand_pages_on(P, s, h, copy, step, mine, at.tid, at.lane);
            if (cta < MERGERS) merge_pages(P, s, copy, step, Merge(cta, at.tid));
            h.wait_full();
            const float mixed = sum_of_warps(s.slot[h.slot].sum, at.tid);
            h.emptied(at.lane);
            x = added(x, mixed);
            put_residual(P.x_mixed + copy * ROWS * HIDDEN, at, x);
            stored(P.counter, MIXED_STORED, at.lane);
            finish_gated(P, s, h, at, cta, copy);
            finish_barrier();  // all that this CTA reads of layer e - 1 has been read
            if (at.tid == 0) release_one(P.counter + GATED_DONE * LINE);
            x = added(x, finish_down(P, s, h, at, cta, copy));
            put_residual(P.x_down + copy * ROWS * HIDDEN, at, x);
            stored(P.counter, DOWN_STORED, at.lane);
            if (at.tid == 0) {
                unsigned turns = 0;
                while ((int)(acquire(P.counter + GATED_DONE * LINE) - e * WORKERS) < 0)
                    if (++turns > PATIENCE) __trap();
            }
            finish_barrier();
            if (e > 1) {
                const int step_before = layer ? step : step - 1;
                clear(P, s, at, cta, before, step_before, layer ? mine : my_pages(s.start, step_before, cta));
            }
        }
        sum_head(P, s, h, cta, at.tid, at.lane);
        if (P.draws && cta >= CTAS - P.rows) draw_row<AHEAD>(P, CTAS - 1 - cta, step, at.tid);
    }
}

// ------------------------------------------------------------------------------------------------------- a launch
template <bool AHEAD> __global__ void __launch_bounds__(THREADS, 1) decode_steps(const __grid_constant__ Params P) {
    extern __shared__ __align__(128) uint8_t raw[];
    Shared &s = *(Shared *)raw;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, cta = blockIdx.x;
    if constexpr (AHEAD) {  // a window's last steps, when all have drawn what they may
        bool runs = false;
        for (int row = 0; row < P.rows; row += P.span) runs |= P.active[row];
        if (!runs) return;
    }
    if (threadIdx.x < ROWS) {
        const int row = threadIdx.x;
        s.start[row] = row < P.rows && P.active[row] ? (int)P.position[row] : 0;
        if constexpr (AHEAD) s.ahead[row] = row < P.rows && P.active[row] ? row % P.span : 0;
    }
    for (int i = threadIdx.x; i < ROWS * TABLE; i += THREADS) {
        const int row = i / TABLE, page = i % TABLE;
        const bool listed = row < P.rows && page < P.table_width && P.active[row];
        s.table[row][page] = (uint16_t)(listed ? P.table[row * P.table_width + page] : P.nobodys);
    }
    if (threadIdx.x == 0) {
        s.waiting = s.steps_kept = 0;
        for (int i = 0; i < STAGES; i++) { barrier_init(shared_address(&s.full[i]), 1); barrier_init(shared_address(&s.empty[i]), COMPUTE * ARRIVALS); }
        for (int i = 0; i < SLOTS; i++) { barrier_init(shared_address(&s.slot_full[i]), COMPUTE * ARRIVALS); barrier_init(shared_address(&s.slot_free[i]), FINISH * ARRIVALS); }
        if constexpr (EVERY_LANE) barrier_init(shared_address(&s.kept), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const int all_tiles = tiles_of(P.vocabulary), tiles = own_tiles(all_tiles, cta);
    if (warp >= COMPUTE + FINISH) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        if (warp > COMPUTE + FINISH || lane) return;
        Stream(s, P).walk(P, s, cta, tiles, P.layers * LAYER_BYTES + (size_t)((all_tiles + CTAS - 1) / CTAS) * HEAD_TILE);
    } else if (warp >= COMPUTE) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 120;");
        finish<AHEAD>(P, s, cta);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
        compute<AHEAD>(P, s, cta, tiles);
    }
}
inline const void *decode_of(bool ahead) { return ahead ? (const void *)decode_steps<true> : (const void *)decode_steps<false>; }

extern "C" {
int opd_params_bytes() { return sizeof(Params); }
int opd_fits() {  // 0, or why this device can't hold the program: 1 the number of SMs, 2 shared memory or registers
    int device, sms, resident = 0;
    if (cudaGetDevice(&device) || cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) || sms != CTAS) return 1;
    for (const bool ahead : {false, true}) {
        const void *kernel = decode_of(ahead);
        if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared))) { cudaGetLastError(); return 2; }
        if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, THREADS, sizeof(Shared)) || resident < 1) { cudaGetLastError(); return 2; }
    }
    return 0;
}
int opd_decode(const Params *P, cudaStream_t stream) {  // a CUDA error, or 0
    cudaError_t error = cudaMemsetAsync(P->counter, 0, COUNTERS * LINE * sizeof(unsigned), stream);
    if (!error) error = cudaMemsetAsync(P->unwritten, 0xff, P->unwritten_bytes, stream);
    if (error) return error;
    void *arguments[] = {(void *)P};
    error = cudaLaunchCooperativeKernel(decode_of(P->span > 1), dim3(CTAS), dim3(THREADS), arguments, sizeof(Shared), stream);
    return error ? error : cudaGetLastError();
}
const char *opd_error(int code) { return cudaGetErrorString((cudaError_t)code); }
}
