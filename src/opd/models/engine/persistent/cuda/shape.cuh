// The sizes that the program is made for, what it is launched with, and what a CTA keeps in shared memory.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

// The decoder: Qwen2 at 1.5B. Layers and vocabulary are arguments.
constexpr int HIDDEN = 1536, INNER = 8960, HEADS = 12, KEY_HEADS = 2, GROUP = HEADS / KEY_HEADS, HEAD = 128;
constexpr int ROWS = 8, PAIRS = ROWS * KEY_HEADS;  // a row is a sequence; a pair is a row and one of its key heads
constexpr int PAGE = 128;                          // keys of a page, which one CTA attends to at once

// The grid: one CTA an SM. 128 of them share the layers out, all have a part of the head.
constexpr int CTAS = 132, WORKERS = 128;
constexpr int COMPUTE = 8, FINISH = 4, WARPS = COMPUTE + FINISH + 4;  // the last four: one streams, three give registers
constexpr int THREADS = 32 * WARPS, COMPUTE_THREADS = 32 * COMPUTE;

// The ring that weights and keys come through, and the slots in which compute warps hand over their partial sums.
constexpr int STAGES = 10, STAGE = 16384, SLOTS = 2;

// A CTA's weights of one layer, in the order in which they are used; docs/persistent.md draws it.
constexpr size_t TILE16 = 16 * HIDDEN * 2, TILE12 = 12 * HIDDEN * 2;  // bytes of 16 and 12 rows over HIDDEN columns
constexpr int GATED = INNER / WORKERS;                                // 70 pairs of gate and up: 8 tiles of 8 and one of 6
constexpr int OUT = HIDDEN / WORKERS;                                 // 12 rows of the residual stream
constexpr int DOWN_SPLIT = 4, DOWN = OUT * DOWN_SPLIT, DOWN_DEEP = INNER / DOWN_SPLIT;  // 48 rows over 2,240 columns
constexpr size_t LAYER_BYTES = TILE16 + TILE12 + 8 * TILE16 + TILE12 + (size_t)DOWN * DOWN_DEEP * 2;
static_assert(OUT == 12 && GATED == 70 && DOWN_DEEP == 2240, "the tiles below are cut for these");

constexpr int TABLE = 136;     // pages of a sequence that the table in shared memory holds
constexpr int PARTIAL = 136;   // floats from one head's partial output to the next, so that banks differ
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
    const float *bias;                 // [layers][WORKERS][16]
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
};

struct Slot {  // one tile's sums of 8 warps, or one page's attention of 8 warps
    float sum[COMPUTE * GROUP * PARTIAL];
    float2 mass[COMPUTE * GROUP];  // maximum and mass
};

struct __align__(128) Shared {
    uint8_t ring[STAGES][STAGE];
    Slot slot[SLOTS];
    float2 merge[PAGE], weight[PAGE];  // of the pages of one row and head
    float square[2][COMPUTE][ROWS], top[2][COMPUTE][ROWS];
    uint4 query[GROUP * HEAD / 8];
    unsigned long long full[STAGES], empty[STAGES], slot_full[SLOTS], slot_free[SLOTS];
    uint16_t table[ROWS][TABLE];
    int start[ROWS];  // position of each row's newest token at the launch
    int waiting;      // the compute warps wait for other CTAs
};
