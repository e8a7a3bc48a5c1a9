// Attention over pages of 128 keys: one CTA a page and key head, one warp 16 keys; then one CTA a row and head merges
// the pages in their order. A page has one maximum, so the sums of its warps add up as they are.
#pragma once
#include "products.cuh"
#include "stream.cuh"

// Where a key or value of a page is kept, in elements from the start of the page's head; see pages.cu.
INLINE int key_place(int key, int d) {
    return (d >> 6) * (PAGE * 64) + (key >> 4) * 1024 + (((((key >> 3) & 1) * 2 + ((d >> 5) & 1)) * 8 + (key & 7)) * 32 + (packed(d & 31)));
}
INLINE int value_place(int key, int d) {
    const int eight = (d >> 3) & 7;
    return (d >> 6) * (PAGE * 64) + (key >> 4) * 1024 + (eight >> 1) * 256 + ((d & 7) * 4 + ((key & 7) >> 1)) * 8 + (eight & 1) * 4 + ((key >> 3) & 1) * 2 + (key & 1);
}

// The new tokens among a warp's 16 keys, where a step has several rows of a sequence: the row's own and those of the rows
// before it. As a single new token below, they come from the exchange, and are put into the ring's stages by hand. PARTS
// lanes have a token, a lane 8 numbers of it.
struct NewTokens {
    static constexpr int PARTS = HEAD / 8, GROUPS = 32 / PARTS, TURNS = ROWS / GROUPS;
    int lowest, count = 0, part, group;  // lowest: the first one's place among the 16
    uint4 key[TURNS], value[TURNS];
    INLINE bool there(int i) const { return i * GROUPS + group < count; }
    INLINE int place(int i) const { return lowest + i * GROUPS + group; }
    // `own`: the place of the row's own token, which may be beyond; `ahead`: how many rows before it; `pair_`: of the row.
    INLINE void receive(const Params &P, int copy, int pair_, int own, int ahead, int lane) {
        part = lane % PARTS;
        group = lane / PARTS;
        lowest = max(own - ahead, 0);
        count = max(min(own, 15) - lowest + 1, 0);
        if (!count) return;
        bool again;
        unsigned turns = 0;
        do {
            again = false;
#pragma unroll
            for (int i = 0; i < TURNS; i++) {
                key[i] = value[i] = make_uint4(0, 0, 0, 0);
                const size_t at = (size_t)(copy * PAIRS + pair_ - (own - place(i)) * KEY_HEADS) * HEAD + part * 8;
                if (there(i)) { key[i] = peek4(P.new_key + at); value[i] = peek4(P.new_value + at); }
            }
#pragma unroll
            for (int i = 0; i < TURNS; i++) again |= missing(key[i]) | missing(value[i]);
            if (++turns > PATIENCE) __trap();
        } while (__any_sync(~0u, again));
    }
    // Keys that have norms: each is turned at its own position, and the row's own put into its page.
    INLINE void turn(const Params &P, const bf16 *norm, int first, int own, bf16 *page_keys) {
        if (!count) return;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            const size_t angle = (size_t)min(first + place(i), P.positions - 1) * HEAD;
            key[i] = HeadTurn(norm, P.cos + angle, P.sin + angle, part)(key[i], P.epsilon, part);
            if (there(i) && place(i) == own) {
                *(uint4 *)(page_keys + key_place((first + own) % PAGE, (part >> 2) * 32) + (part & 3) * 8) = key[i];
                async_fence();  // later launches read it by bulk copies
            }
        }
    }
    INLINE void put_keys(uint32_t low, uint32_t high) const {  // where the warp's keys are, of the head's halves
        if (!count) return;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            const uint32_t to = (part < 8 ? low : high) + (((place(i) >> 3) * 2 + ((part >> 2) & 1)) * 8 + (place(i) & 7)) * 64 + (part & 3) * 16;
            if (there(i)) asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(key[i].x), "r"(key[i].y), "r"(key[i].z), "r"(key[i].w) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
    }
    INLINE void put_values(uint32_t low, uint32_t high) const {
        if (!count) return;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            const uint32_t words[4] = {value[i].x, value[i].y, value[i].z, value[i].w};
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const uint32_t to = (part < 8 ? low : high) + 2 * (value_place(place(i), part * 8 + j) & 1023);
                if (there(i)) asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"((uint16_t)(words[j >> 1] >> (16 * (j & 1)))) : "memory");
            }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
    }
};

// The compute warps' part: scores, their maximum and mass, and the values' sums of 16 keys a warp.
template <bool AHEAD> INLINE void attend_pages(const Params &P, Shared &s, Ring &r, Handover &h, int copy, int layer, int step, const Pages &mine, int warp, int lane) {
    constexpr int HALVES = HEAD / 64, PARTS = HEAD / 8;  // of a head: stages of the ring, and vectors of 16 bytes
    const int g = lane >> 2, t = lane & 3;
    int pair_ = mine.pair, page = mine.page, have = -1;
    __align__(16) uint32_t q[PARTS];
    for (int number = 0; number < mine.count; number++) {
        const int row = pair_ / KEY_HEADS, head = pair_ % KEY_HEADS, position = s.start[row] + step, first = page * PAGE + warp * 16;
        const bool newest = (position >> 4) == (first >> 4), in_use = first <= position;
        uint4 key = make_uint4(0, 0, 0, 0);
        uint2 value = make_uint2(0, 0);
        const bf16 *norms = P.head_norms + layer * 2 * HEAD;
        const size_t angle = (size_t)min(position, P.positions - 1) * HEAD;  // a row that has ended may run beyond
        NewTokens fresh;
        if constexpr (AHEAD) {
            fresh.receive(P, copy, pair_, position - first, s.ahead[row], lane);
            if constexpr (NORMED)
                fresh.turn(P, norms + HEAD, first, position - first, P.keys + (((size_t)layer * P.pages + s.table[row][page]) * KEY_HEADS + head) * PAGE * HEAD);
        } else if (newest) {  // the new token's key and value come from the exchange: memory was read before they existed
            const bf16 *from_key = P.new_key + (copy * PAIRS + pair_) * HEAD + lane * 8, *from_value = P.new_value + (copy * PAIRS + pair_) * HEAD + lane * 4;
            const HeadTurn turn(norms + HEAD, P.cos + angle, P.sin + angle, lane % PARTS);
            bool again;
            unsigned turns = 0;
            do {
                if (lane < PARTS) key = peek4(from_key);
                if (lane < 2 * PARTS) value = peek2(from_value);
                again = missing(key) | (value.x == UNWRITTEN) | (value.y == UNWRITTEN);
                if (++turns > PATIENCE) __trap();
            } while (__any_sync(~0u, again));
            if constexpr (NORMED) {
                key = turn(key, P.epsilon, lane % PARTS);
                if (lane < PARTS) {
                    const size_t start = (((size_t)layer * P.pages + s.table[row][page]) * KEY_HEADS + head) * PAGE * HEAD;
                    *(uint4 *)(P.keys + start + key_place(position % PAGE, (lane >> 2) * 32) + t * 8) = key;
                    async_fence();  // later steps read it by bulk copies
                }
            }
        }
        if (have != pair_) {  // the queries of a key head's group, through shared memory
            have = pair_;
            if (threadIdx.x < (GROUP * PARTS + 31) / 32 * 32) {
                const int i = min((int)threadIdx.x, GROUP * PARTS - 1), part = i % PARTS;
                const bf16 *from = P.query + copy * ROWS * ATTENDED + (size_t)(row * HEADS + head * GROUP) * HEAD + i * 8;
                const HeadTurn turn(norms, P.cos + angle, P.sin + angle, part);
                uint4 v;
                unsigned turns = 0;
                do {
                    v = peek4(from);
                    if (++turns > PATIENCE) __trap();
                } while (missing(v));
                if constexpr (NORMED) {
                    __syncwarp();
                    v = turn(v, P.epsilon, part);
                }
                if (threadIdx.x < GROUP * PARTS) s.query[i] = v;
            }
            compute_barrier();
#pragma unroll
            for (int d = 0; d < PARTS / 4; d++) {
                uint4 v = make_uint4(0, 0, 0, 0);
                if (g < GROUP) v = s.query[g * PARTS + d * 4 + t];
                q[d * 4] = v.x; q[d * 4 + 1] = v.y; q[d * 4 + 2] = v.z; q[d * 4 + 3] = v.w;
            }
        }
        float score[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
        const int of16 = position & 15, eight = of16 >> 3, of8 = of16 & 7;
        {
            uint32_t a[HALVES];
#pragma unroll
            for (int half = 0; half < HALVES; half++) a[half] = r.wait(half) + warp * 2048;
            if constexpr (AHEAD)
                fresh.put_keys(a[0], a[HALVES - 1]);
            else if (newest) {
                if (lane < PARTS) {
                    uint32_t to = (lane < 8 ? a[0] : a[HALVES - 1]) + ((eight * 2 + ((lane >> 2) & 1)) * 8 + of8) * 64 + (lane & 3) * 16;
                    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(key.x), "r"(key.y), "r"(key.z), "r"(key.w) : "memory");
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                }
                __syncwarp();
            }
            if (in_use) {
                uint4 k[HALVES][4];
#pragma unroll
                for (int half = 0; half < HALVES; half++)
#pragma unroll
                    for (int i = 0; i < 4; i++) k[half][i] = load_shared(a[half] + i * 512 + lane * 16);
#pragma unroll
                for (int half = 0; half < HALVES; half++)
#pragma unroll
                    for (int d = 0; d < 2; d++)
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            const uint32_t *qq = q + (half * 2 + d) * 4;
                            const uint4 &k4 = k[half][j * 2 + d];
                            mma(score[j], qq[0], 0, qq[1], 0, k4.x, k4.y);
                            mma(score[j], qq[2], 0, qq[3], 0, k4.z, k4.w);
                        }
            }
            r.release<HALVES>(lane);
        }
        bool ok[4];
        float v[4], top = LOWEST;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            ok[i] = first + (i >> 1) * 8 + 2 * t + (i & 1) <= position;
            v[i] = ok[i] ? score_of(score[i >> 1][i & 1]) : LOWEST;
            top = fmaxf(top, v[i]);
        }
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        if (t == 0) s.top[number & 1][warp][g] = top;
        compute_barrier();
#pragma unroll
        for (int i = 0; i < COMPUTE; i++) top = fmaxf(top, s.top[number & 1][i][g]);
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = ok[i] ? share_of(v[i], top) : 0.f;
        const float mass = lanes_mass(v);
        const uint32_t p0 = pair(v[0], v[1]), p1 = pair(v[2], v[3]);
        h.wait_free();
        Slot &slot = s.slot[h.slot];
        if (g < GROUP && t == 0) slot.mass[warp * GROUP + g] = make_float2(top, mass);
        {
            uint32_t a[HALVES];
#pragma unroll
            for (int half = 0; half < HALVES; half++) a[half] = r.wait(half) + warp * 2048;
            if constexpr (AHEAD)
                fresh.put_values(a[0], a[HALVES - 1]);
            else if (newest) {
                uint16_t e[4] = {(uint16_t)(value.x & 0xffff), (uint16_t)(value.x >> 16), (uint16_t)(value.y & 0xffff), (uint16_t)(value.y >> 16)};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    uint32_t to = (lane < 16 ? a[0] : a[HALVES - 1]) + 2 * (value_place(of16, lane * 4 + i) & 1023);
                    if (lane < 2 * PARTS) asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(e[i]) : "memory");
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncwarp();
            }
            uint4 w[4 * HALVES];
#pragma unroll
            for (int i = 0; i < 4 * HALVES; i++) {
                w[i] = make_uint4(0, 0, 0, 0);
                if (in_use) w[i] = load_shared(a[i >> 2] + (i & 3) * 512 + lane * 16);
            }
#pragma unroll
            for (int i = 0; i < 4 * HALVES; i++) {
                float even[4] = {0, 0, 0, 0}, odd[4] = {0, 0, 0, 0};
                mma(even, p0, 0, p1, 0, w[i].x, w[i].y);
                mma(odd, p0, 0, p1, 0, w[i].z, w[i].w);
                if (g < GROUP) {
                    float *to = slot.sum + (warp * GROUP + g) * PARTIAL + i * 16 + 2 * t;
                    *(float2 *)to = make_float2(even[0], even[1]);
                    *(float2 *)(to + 8) = make_float2(odd[0], odd[1]);
                }
            }
            r.release<HALVES>(lane);
        }
        h.filled(lane);
        next_page(mine, s.start, step, number, pair_, page);
    }
}

// The finish warps' part: a page's warps are added; a thread has every 128th dimension of the group's heads.
INLINE void hand_pages_on(const Params &P, Shared &s, Handover &h, int copy, int step, const Pages &mine, int tid, int lane) {
    int pair_ = mine.pair, page = mine.page;
    for (int number = 0; number < mine.count; number++) {
        const size_t at = ((size_t)copy * PAIRS + pair_) * P.most_pages + page;
        h.wait_full();
        const Slot &slot = s.slot[h.slot];
#pragma unroll
        for (int i = 0; i < (GROUP * HEAD + 127) / 128; i++) {
            const int g = (tid + i * 128) / HEAD, d = (tid + i * 128) % HEAD;
            if (GROUP % MERGED && g >= GROUP) continue;
            float sum = 0.f;
#pragma unroll
            for (int w = 0; w < COMPUTE; w++) sum += slot.sum[(w * GROUP + g) * PARTIAL + d];
            put(P.part + (at * GROUP + g) * HEAD + d, __float_as_uint(sum));
        }
        if (tid < GROUP) {
            float mass = 0.f;
#pragma unroll
            for (int w = 0; w < COMPUTE; w++) mass += slot.mass[w * GROUP + tid].y;
            put2(P.part_mass + at * GROUP + tid, __float_as_uint(slot.mass[tid].x), __float_as_uint(mass));
        }
        h.emptied(lane);
        next_page(mine, s.start, step, number, pair_, page);
    }
}
INLINE void clear_pages(const Params &P, const Shared &s, int copy, int step, const Pages &mine, int tid) {
    int pair_ = mine.pair, page = mine.page;
    for (int number = 0; number < mine.count; number++) {
        const size_t at = ((size_t)copy * PAIRS + pair_) * P.most_pages + page;
        for (int i = tid; i < GROUP * HEAD; i += 128) put(P.part + at * GROUP * HEAD + i, UNWRITTEN);
        if (tid < 2 * GROUP) put((uint32_t *)(P.part_mass + at * GROUP) + tid, UNWRITTEN);
        next_page(mine, s.start, step, number, pair_, page);
    }
}
// The pages of a row's heads, in their order: thread = dimension of one head; a CTA has one head of 128, or two of 64.
constexpr int MERGERS = ROWS * HEADS / MERGED;  // CTAs
struct Merge {
    int row, head, d, of_cta;
    INLINE Merge(int cta, int tid) : row(cta * MERGED / HEADS), head(cta * MERGED % HEADS + tid / HEAD), d(tid % HEAD), of_cta(tid / HEAD) {}
    INLINE bf16 *mixed(const Params &P, int copy) const { return P.mixed + copy * ROWS * ATTENDED + (row * HEADS + head) * HEAD + packed(d); }
};
INLINE void merge_pages(const Params &P, Shared &s, int copy, int step, const Merge &own) {
    const int pair_ = own.row * KEY_HEADS + own.head / GROUP, g = own.head % GROUP, pages = last_page(s.start, step, pair_) + 1;
    const size_t first = ((size_t)copy * PAIRS + pair_) * P.most_pages;
    const float *part = P.part + (first * GROUP + g) * HEAD + own.d;
    const float2 *masses = P.part_mass + first * GROUP + g;
    float sum = 0.f, mass = 0.f;
    uint32_t some[8];
    bool again;
    unsigned turns = 0;
    if (pages <= 8) {  // the same sums in the same order, without shared memory
        uint2 m[8];
        do {
            again = false;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                some[i] = 0;
                m[i] = make_uint2(0, 0);
                if (i < pages) { some[i] = peek(part + i * GROUP * HEAD); m[i] = peek2(masses + i * GROUP); }
            }
#pragma unroll
            for (int i = 0; i < 8; i++) again |= (some[i] == UNWRITTEN) | (m[i].x == UNWRITTEN) | (m[i].y == UNWRITTEN);
            if (++turns > PATIENCE) __trap();
        } while (again);
        float top = LOWEST;
#pragma unroll
        for (int i = 0; i < 8; i++) if (i < pages) top = fmaxf(top, __uint_as_float(m[i].x));
#pragma unroll
        for (int i = 0; i < 8; i++) if (i < pages) {
            const float weight = share_of(__uint_as_float(m[i].x), top);
            sum = merge_sum(sum, weight, __uint_as_float(some[i]));
            mass = merge_mass(mass, weight, __uint_as_float(m[i].y));
        }
        __syncwarp();
    } else {
        float2 *merge = s.merge[own.of_cta], *weights = s.weight[own.of_cta];
        uint2 m[MERGED];
        do {
            again = false;
#pragma unroll
            for (int i = 0; i < 8; i++) { some[i] = peek(part + i * GROUP * HEAD); again |= some[i] == UNWRITTEN; }
#pragma unroll
            for (int i = 0; i < MERGED; i++) {
                const int page = own.d + i * HEAD;
                m[i] = make_uint2(0, 0);
                if (page < pages) m[i] = peek2(masses + (size_t)page * GROUP);
                again |= (m[i].x == UNWRITTEN) | (m[i].y == UNWRITTEN);
            }
            if (++turns > PATIENCE) __trap();
        } while (again);
#pragma unroll
        for (int i = 0; i < MERGED; i++) merge[own.d + i * HEAD] = make_float2(__uint_as_float(m[i].x), __uint_as_float(m[i].y));
        finish_barrier();
        for (int page = own.d; page < pages; page += HEAD) {
            float top = LOWEST;
            for (int i = 0; i < pages; i++) top = fmaxf(top, merge[i].x);
            weights[page] = make_float2(share_of(merge[page].x, top), merge[page].y);
        }
        finish_barrier();
        for (int from = 0; from < pages; from += 8) {
            if (from) do {
                again = false;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    some[i] = 0;
                    if (from + i < pages) some[i] = peek(part + (size_t)(from + i) * GROUP * HEAD);
                }
#pragma unroll
                for (int i = 0; i < 8; i++) again |= some[i] == UNWRITTEN;
                if (++turns > PATIENCE) __trap();
            } while (again);
#pragma unroll
            for (int i = 0; i < 8; i++) if (from + i < pages) {
                const float2 w = weights[from + i];
                sum = merge_sum(sum, w.x, __uint_as_float(some[i]));
                mass = merge_mass(mass, w.x, w.y);
            }
        }
    }
    const float own_share = __fdiv_rn(sum, mass), other = __shfl_xor_sync(~0u, own_share, 1);
    if (!(own.d & 1)) put(own.mixed(P, copy), pair(own_share, other));
}
