// The sizes that the program is made for, what it is launched with, and what a CTA keeps in shared memory.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

// The build for compute-sanitizer's racecheck, which takes a barrier in shared memory as an order of the accesses of
// those threads alone that arrive at it themselves, and a flag for none. In it no lane arrives for its warp, no flag is
// spun on, no hint is read, and nobody's patience ends. What is computed, and in which order, is the same.
#ifndef OPD_EVERY_LANE
#define OPD_EVERY_LANE 0
#endif
constexpr bool EVERY_LANE = OPD_EVERY_LANE;
constexpr int ARRIVALS = EVERY_LANE ? 32 : 1;  // of a warp

// The decoder, as `Cut` of cut.py says it to the compiler. Layers and vocabulary are arguments.
constexpr int HIDDEN = OPD_HIDDEN, INNER = OPD_INNER, HEADS = OPD_HEADS, KEY_HEADS = OPD_KEY_HEADS, HEAD = OPD_HEAD;
constexpr bool NORMED = OPD_NORMED;  // queries and keys have norms of their own
constexpr int GROUP = HEADS / KEY_HEADS, ATTENDED = HEADS * HEAD;
constexpr int ROWS = 8, PAIRS = ROWS * KEY_HEADS;  // a row is a token of a sequence; a pair is a row and a key head
constexpr int PAGE = 128;                          // keys of a page, which one CTA attends to at once

// The grid: one CTA an SM. 128 of them share the layers out, all have a part of the head.
constexpr int CTAS = 132, WORKERS = 128;
constexpr int COMPUTE = 8, FINISH = 4, WARPS = COMPUTE + FINISH + 4;  // the last four: one streams, three give registers
constexpr int THREADS = 32 * WARPS, COMPUTE_THREADS = 32 * COMPUTE;

// A CTA's rows of a layer; docs/persistent.md draws them. The last CTAs have none of what the first ones share out.
constexpr int TURNED = (HEADS + 2 * KEY_HEADS) * HEAD / 2;  // pairs of dimensions of q, k and v that are rotated together
constexpr int QKV = (TURNED + 2 * WORKERS - 1) / (2 * WORKERS) * 2;
constexpr int GATED = INNER / WORKERS;                      // pairs of gate and up
constexpr int OUT = (HIDDEN + 4 * WORKERS - 1) / (4 * WORKERS) * 4, OWNERS = HIDDEN / OUT;  // of the residual stream
constexpr int DOWN_SPLIT = 4, DOWN = OUT * DOWN_SPLIT, DOWN_DEEP = INNER / DOWN_SPLIT;      // a quarter of the columns
constexpr size_t LAYER_BYTES = 2 * ((size_t)2 * QKV * HIDDEN + (size_t)OUT * ATTENDED + (size_t)2 * GATED * HIDDEN + (size_t)DOWN * DOWN_DEEP);
constexpr size_t HEAD_TILE = 16 * HIDDEN * 2;

__host__ __device__ constexpr int most(int a, int b) { return a > b ? a : b; }

// How a row's columns are shared out: blocks of 32, consecutive ones for each compute warp, the first warps one more.
// A stage of the ring has two blocks a warp; the last stage what is left.
template <int COLUMNS> struct Blocks {
    static constexpr int ALL = COLUMNS / 32, EACH = ALL / COMPUTE, REST = ALL % COMPUTE, MOST = EACH + (REST > 0);
    static constexpr int STAGES = (MOST + 1) / 2;
    static constexpr bool EVEN = REST == 0;
    __host__ __device__ static constexpr int first(int warp) { return warp * EACH + (warp < REST ? warp : REST); }
    __host__ __device__ static constexpr int count(int warp) { return EVEN ? EACH : EACH + (warp < REST); }
    __host__ __device__ static constexpr bool whole(int stage) { return 2 * stage + 2 <= EACH; }
    __host__ __device__ static constexpr int before(int stage, int warp) {  // of a stage: blocks of the warps before this one
        return whole(stage) ? 2 * warp : warp * (EACH - 2 * stage) + (warp < REST ? warp : REST);
    }
};
static_assert(HIDDEN % 32 == 0 && INNER % (2 * WORKERS) == 0 && DOWN_DEEP % 32 == 0 && HIDDEN % OUT == 0 && OWNERS % DOWN_SPLIT == 0 && OUT <= 16, "rows and columns");
static_assert((HEAD == 64 || HEAD == 128) && HEADS % KEY_HEADS == 0 && HEADS % (128 / HEAD) == 0 && GROUP <= 8 && PAIRS <= WORKERS && ROWS * ATTENDED <= 128 * WORKERS, "heads");

constexpr int TABLE = 136;          // pages of a sequence that the table in shared memory holds
constexpr int PARTIAL = HEAD + 8;   // floats from one head's partial output to the next, so that banks differ
constexpr int MERGED = 128 / HEAD;  // heads whose pages a CTA merges
constexpr float LOG2E = 1.4426950408889634f;
constexpr int NONE = -1, BROKEN = -2;  // as in board.py

// Counters, one a 128-byte line; all begin at 0 with a launch and only grow.
//   GATED_DONE     one a CTA and layer: it has read all it needs of the layer before, and cleared its part of the one
//                  before that
//   DRAWN          one a token drawn
//   HEADS_DONE     one a CTA and step: its part of the head is written
//   MIXED_STORED   one a finish warp and layer: its part of x behind attention is stored
//   DOWN_STORED    the same behind down
enum Counter { GATED_DONE, DRAWN, HEADS_DONE, MIXED_STORED, DOWN_STORED, COUNTERS = 8 };
constexpr int LINE = 32;

struct Params {  // the order of program.py's
    const uint8_t *weights;            // [CTAS][layers of LAYER_BYTES | tiles of the head]
    const bf16 *embedding;             // [rows][HIDDEN], the model's own
    const bf16 *norms;                 // [layers][2][HIDDEN] and the last one, features as in `packed`
    const bf16 *head_norms;            // [layers][2][HEAD], of queries and of keys, features as in `packed`
    const float *bias;                 // [layers][WORKERS][16 a tile of q, k and v]
    const float *cos, *sin;            // [positions][HEAD]; of sin the second half is read
    bf16 *keys, *values;               // [layers][pages][KEY_HEADS][PAGE x HEAD], in fragments
    const int *table;                  // [rows][table_width] pages
    const uint8_t *stop;               // [vocabulary]
    // exchange between CTAs: three copies each, all ones where nothing has been written yet
    bf16 *x_mixed, *x_down, *query, *mixed, *gated, *new_key, *new_value;
    float *part; float2 *part_mass; float *down_part;
    float *head_part, *logits;
    void *unwritten;                   // the start of all exchange buffers
    unsigned *counter;
    // the board
    long long *ids, *position, *left; uint8_t *active; const double *uniform;
    long long *token; float *logp, *raw_logp; long long *tick;
    unsigned long long unwritten_bytes;
    int layers, positions, most_pages, steps, rows, table_width, pages, nobodys, vocabulary, board_width;
    int in_flight, in_flight_waiting;  // half stages under way; fewer while the compute warps wait for other CTAs
    int draws;                         // 0: logits only, one step
    int logits_tile, logits_row;       // floats from one tile of 16 ids to the next, and from one row to the next
    float epsilon, coldness;
    int span;                          // rows of a sequence, one behind the other; 1 where each is one
};

struct Slot {  // one tile's sums of 8 warps, or one page's attention of 8 warps
    float sum[COMPUTE * most(GROUP * PARTIAL, 128)];
    float2 mass[COMPUTE * GROUP];  // maximum and mass
};

// The ring that weights and keys come through, as long as shared memory allows, and the slots in which compute warps
// hand over their partial sums.
constexpr int SLOTS = 2, STAGE = 16384, STAGES = (232448 - 10240 - SLOTS * (int)sizeof(Slot)) / STAGE;

struct __align__(128) Shared {
    uint8_t ring[STAGES][STAGE];
    Slot slot[SLOTS];
    float2 merge[MERGED][PAGE], weight[MERGED][PAGE];  // of the pages of one row and head
    float square[2][COMPUTE][ROWS], top[2][COMPUTE][ROWS];
    uint4 query[GROUP * HEAD / 8];
    unsigned long long full[STAGES], empty[STAGES], slot_full[SLOTS], slot_free[SLOTS];
    uint16_t table[ROWS][TABLE];
    int start[ROWS];  // position of each row's newest token at the launch
    int waiting;      // the compute warps wait for other CTAs
    int steps_kept;   // steps whose keys and values are all in their pages
    unsigned long long kept;  // with EVERY_LANE: the barrier at which each such step arrives
    int ahead[ROWS];          // with AHEAD: how many rows before it have new tokens of the same sequence
};
static_assert(sizeof(Shared) <= 232448, "shared memory");
