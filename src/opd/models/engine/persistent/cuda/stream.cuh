// What one CTA reads of memory, in order: its weights of every phase of every layer, its pages, its part of the head.
//
// One lane of one warp walks through all steps and copies stages of 16 KB into the ring. It never waits for what the
// compute warps wait for, so memory stays busy meanwhile; but a step's pages are read when the step before is in them.
// At most `in_flight` half stages are under way: more would queue up in the memory system, slow down every exchange
// between CTAs, and let some SMs starve others. While the ring is full, the L2 is asked for what comes next.
#pragma once
#include "exchange.cuh"

constexpr uint32_t AHEAD = 65536, AHEAD_PIECE = 4096;  // bytes that the L2 is asked for beyond the ring
constexpr int AHEAD_CYCLES = 240;                      // between two such pieces: memory's own pace

// Pages of attention. Full pages are dealt to the CTAs in equal runs; the last page of every (row, key head), of which
// only the blocks of 16 keys in use are read, goes to a CTA that has one full page less. Who computes a page changes
// nothing in what is computed.
struct Pages {
    int count, full, pair, page, last;  // in all; full ones; the first one's pair and number; the pair whose last it has
};
INLINE int last_page(const int *start, int step, int pair) { return (start[pair / KEY_HEADS] + step) / PAGE; }
INLINE Pages my_pages(const int *start, int step, int cta) {
    int all = 0;
#pragma unroll
    for (int row = 0; row < ROWS; row++) all += KEY_HEADS * ((start[row] + step) / PAGE);
    int each = all / WORKERS, rest = all % WORKERS, first = cta * each + min(cta, rest), turn = cta - rest;
    if (turn < 0) turn += WORKERS;
    Pages mine;
    mine.full = each + (cta < rest);
    mine.last = turn < PAIRS ? turn : -1;
    mine.count = mine.full + (mine.last >= 0);
    mine.pair = mine.page = 0;
    if (cta >= WORKERS) { mine.count = mine.full = 0; return mine; }
    if (mine.full) {
        for (; mine.pair < PAIRS - 1; mine.pair++) {
            int pages = last_page(start, step, mine.pair);
            if (first < pages) break;
            first -= pages;
        }
        mine.page = first;
    } else if (mine.last >= 0) {
        mine.pair = mine.last;
        mine.page = last_page(start, step, mine.pair);
    }
    return mine;
}
INLINE void next_page(const Pages &mine, const int *start, int step, int number, int &pair, int &page) {  // behind `number`
    if (number + 1 < mine.full) {
        if (++page == last_page(start, step, pair)) {
            page = 0;
            do pair++; while (pair < PAIRS - 1 && last_page(start, step, pair) == 0);
        }
    } else if (mine.last >= 0) {
        pair = mine.last;
        page = last_page(start, step, pair);
    }
}

struct Stream {
    uint32_t ring, full, empty, kept, stage, phase;
    uint32_t oldest, oldest_phase, under_way, in_flight, in_flight_waiting;
    uint64_t policy;
    const uint8_t *weights, *weights_end, *ahead;
    int last_ahead;
    volatile int *waiting, *steps_kept;

    INLINE Stream(Shared &s, const Params &P)
        : ring(shared_address(s.ring)), full(shared_address(s.full)), empty(shared_address(s.empty)), kept(shared_address(&s.kept)), stage(0), phase(1), oldest(0),
          oldest_phase(0), under_way(0), in_flight(P.in_flight), in_flight_waiting(P.in_flight_waiting), last_ahead(clock()), waiting(&s.waiting),
          steps_kept(&s.steps_kept) {
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    }
    INLINE void wait_for_oldest() {
        barrier_wait(full + oldest * 8, oldest_phase);
        if (++oldest == STAGES) { oldest = 0; oldest_phase ^= 1; }
        under_way--;
    }
    INLINE void wait_for_room() {
        const uint8_t *end = weights + AHEAD < weights_end ? weights + AHEAD : weights_end;
        if (ahead < weights) ahead = weights;
        unsigned turns = 0;
        while (!barrier_test(empty + stage * 8, phase)) {
            if (ahead < end && clock() - last_ahead > AHEAD_CYCLES) {
                bulk_prefetch(ahead, AHEAD_PIECE);
                ahead += AHEAD_PIECE;
                last_ahead = clock();
            }
            if (++turns > (1u << 27)) __trap();
        }
    }
    INLINE void push(const uint8_t *from, uint32_t bytes) {
        const uint32_t most = !EVERY_LANE && *waiting ? in_flight_waiting : in_flight;
        while (under_way >= (most + 1) >> 1) wait_for_oldest();
        if (!barrier_test(empty + stage * 8, phase)) wait_for_room();
        const uint32_t to = ring + stage * STAGE, barrier = full + stage * 8, half = bytes >> 1;
        barrier_expect(barrier, bytes);
        if (most & 1) {
            bulk_copy(to, from, half, barrier, policy);
            while (under_way && under_way >= (most - 1) >> 1) wait_for_oldest();
            bulk_copy(to + half, from + half, half, barrier, policy);
        } else
            bulk_copy(to, from, bytes, barrier, policy);
        under_way++;
        if (++stage == STAGES) { stage = 0; phase ^= 1; }
    }
    template <int HALF, int COLUMNS> INLINE void push_tile() {
        using B = Blocks<COLUMNS>;
        for (int i = 0; i < B::STAGES; i++) {
            const uint32_t bytes = (B::whole(i) ? 2 * COMPUTE : B::before(i, COMPUTE)) * HALF * 128;
            push(weights, bytes);
            weights += bytes;
        }
    }
    template <int PAIRED> INLINE void push_pairs() {  // of rows over HIDDEN columns
        for (int i = 0; i < PAIRED / 8; i++) push_tile<8, HIDDEN>();
        if constexpr (PAIRED % 8 > 0) push_tile<PAIRED % 8, HIDDEN>();
    }
    INLINE void push_pages(const Params &P, const Shared &s, const Pages &mine, int layer, int step) {
        int pair = mine.pair, page = mine.page;
        unsigned turns = 0;
        if constexpr (EVERY_LANE) {
            if (step) barrier_wait(kept, (step - 1) & 1);
        } else {
            while (*steps_kept < step)
                if (++turns > (1u << 27)) __trap();
            __threadfence_block();
        }
        async_fence();  // the newest keys and values of earlier steps were written as ordinary stores
        for (int i = 0; i < mine.count; i++) {
            const int row = pair / KEY_HEADS, position = s.start[row] + step;
            const uint32_t bytes = page == position / PAGE ? ((position % PAGE) / 16 + 1) * 2048 : STAGE;
            const size_t at = (((size_t)layer * P.pages + s.table[row][page]) * KEY_HEADS + pair % KEY_HEADS) * PAGE * HEAD;
            const uint8_t *keys = (const uint8_t *)(P.keys + at), *values = (const uint8_t *)(P.values + at);
            for (int half = 0; half < HEAD / 64; half++) push(keys + half * STAGE, bytes);
            for (int half = 0; half < HEAD / 64; half++) push(values + half * STAGE, bytes);
            next_page(mine, s.start, step, i, pair, page);
        }
    }
    INLINE void walk(const Params &P, const Shared &s, int cta, int tiles, size_t cta_bytes) {
        for (int step = 0; step < P.steps; step++) {
            ahead = weights = P.weights + cta * cta_bytes;
            weights_end = weights + P.layers * LAYER_BYTES + tiles * HEAD_TILE;
            if (cta < WORKERS) {
                const Pages mine = my_pages(s.start, step, cta);
                for (int layer = 0; layer < P.layers; layer++) {
                    push_pairs<QKV>();
                    if (mine.count) push_pages(P, s, mine, layer, step);
                    push_tile<OUT / 2, ATTENDED>();
                    push_pairs<GATED>();
                    for (int tile = 0; tile < DOWN / 16; tile++) push_tile<8, DOWN_DEEP>();
                }
            } else
                weights += P.layers * LAYER_BYTES;
            for (int tile = 0; tile < tiles; tile++) push_tile<8, HIDDEN>();
        }
    }
};
