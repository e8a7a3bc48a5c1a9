// The rows of one step with guesses against as many steps without: the same tokens, log-probabilities and pages, to the
// last bit. A random model of the compiled sizes with one layer; tokens are given, right or wrong, as guesses are.
//
// Output: a line a case. Exit 0 where all are the same.
#include "cuda.h"
#include <random>
#include <vector>
#include <sys/mman.h>

Index threadIdx, blockIdx;
#include "decode.cuh"

// ---- fibers
extern "C" void change(void **from, void *to);
asm(".globl change\nchange:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
struct Fiber { void *stack; bool ended; };
struct Cta { uint8_t *shared; Barrier barriers[3]; Warp warps[WARPS]; };
constexpr size_t STACK_BYTES = 48 * 1024;
static std::vector<Fiber> fibers(CTAS *THREADS);
static std::vector<Cta> ctas(CTAS);
static void *scheduler;
static Fiber *current;
static const Params *launched;

uint8_t *shared_memory() { return ctas[blockIdx.x].shared; }
Warp &own_warp() { return ctas[blockIdx.x].warps[threadIdx.x / 32]; }
Barrier &named_barrier(int which) { return ctas[blockIdx.x].barriers[which]; }
__attribute__((noinline)) void give_way() { change(&current->stack, scheduler); }
static void run_thread() {
    if (launched->span > 1) decode_steps<true>(*launched);
    else decode_steps<false>(*launched);
    current->ended = true;
    give_way();
}
static void run_warp(int number, int &alive) {  // as long as its lanes meet
    Warp &warp = ctas[number / WARPS].warps[number % WARPS];
    unsigned turn;
    do {
        turn = warp.turn;
        for (int lane = 0; lane < 32; lane++) {
            Fiber &fiber = fibers[number * 32 + lane];
            if (fiber.ended) continue;
            blockIdx.x = number / WARPS;
            threadIdx.x = number % WARPS * 32 + lane;
            current = &fiber;
            change(&scheduler, fiber.stack);
            alive -= fiber.ended;
        }
    } while (warp.turn != turn);
}
static void launch(const Params &P, bool backwards) {  // warps are asked in their order, or from the last to the first
    static uint8_t *stacks = (uint8_t *)mmap(nullptr, STACK_BYTES * CTAS * THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    launched = &P;
    memset(P.counter, 0, COUNTERS * LINE * sizeof(unsigned));
    memset(P.unwritten, 0xff, P.unwritten_bytes);
    for (Cta &cta : ctas) {
        if (!cta.shared) cta.shared = (uint8_t *)aligned_alloc(128, sizeof(Shared));
        cta = Cta{cta.shared};
        memset(cta.shared, 0x5a, sizeof(Shared));
    }
    for (int i = 0; i < CTAS * THREADS; i++) {
        void **top = (void **)(stacks + STACK_BYTES * (i + 1) - 64);
        *--top = nullptr;
        *--top = (void *)run_thread;
        fibers[i] = {top - 6, false};
    }
    const int warps = CTAS * WARPS;
    int alive = CTAS * THREADS;
    while (alive)
        for (int i = 0; i < warps; i++) run_warp(backwards ? warps - 1 - i : i, alive);
}

// ---- a model
static std::mt19937 random_bits(1);
template <class T> T *memory(size_t count) { return (T *)memset(aligned_alloc(128, (count * sizeof(T) + 255) / 128 * 128), 0, count * sizeof(T)); }
static bf16 *normal(size_t count, float scale, float mean = 0) {
    std::normal_distribution<float> number(mean, scale);
    bf16 *p = memory<bf16>(count);
    for (size_t i = 0; i < count; i++) p[i] = __float2bfloat16(number(random_bits));
    return p;
}
constexpr int LAYERS = 1, VOCABULARY = 2200, POSITIONS = 2048, PAGES = 60, NOBODYS = PAGES - 1, WIDTH = 14, TILES = (VOCABULARY + 15) / 16;
constexpr size_t CACHE = (size_t)LAYERS * PAGES * KEY_HEADS * PAGE * HEAD;
constexpr size_t CTA_NUMBERS = (LAYERS * LAYER_BYTES + (TILES + CTAS - 1) / CTAS * HEAD_TILE) / 2;

static Params a_model() {
    Params P{};
    P.weights = (const uint8_t *)normal(CTAS * CTA_NUMBERS, .03f);
    P.embedding = normal((size_t)VOCABULARY * HIDDEN, 1);
    P.norms = normal((2 * LAYERS + 1) * HIDDEN, .1f, 1);
    P.head_norms = normal(2 * LAYERS * HEAD, .1f, 1);
    const size_t biases = (size_t)LAYERS * WORKERS * QKV_TILES * 16;
    float *bias = memory<float>(biases), *cos = memory<float>(POSITIONS * HEAD), *sin = memory<float>(POSITIONS * HEAD);
    for (size_t i = 0; i < biases; i++) bias[i] = (int)(random_bits() % 200 - 100) * .005f;
    for (int i = 0; i < POSITIONS * HEAD; i++) {
        const int d = i % HEAD;
        const float angle = i / HEAD * powf(1e4f, -2.f * (d % (HEAD / 2)) / HEAD);
        cos[i] = cosf(angle);
        sin[i] = d < HEAD / 2 ? -sinf(angle) : sinf(angle);
    }
    P.bias = bias; P.cos = cos; P.sin = sin;
    P.most_pages = WIDTH + 1;
    const size_t parts = (size_t)PAIRS * P.most_pages * GROUP;
    const size_t sizes[] = {ROWS * HIDDEN * 2, ROWS * HIDDEN * 2, ROWS * ATTENDED * 2, ROWS * ATTENDED * 2, ROWS * INNER * 2, PAIRS * HEAD * 2, PAIRS * HEAD * 2,
                            parts * HEAD * 4, parts * 8, (size_t)WORKERS * OUT * DOWN_SPLIT * ROWS * 4};
    void **buffers[] = {(void **)&P.x_mixed, (void **)&P.x_down, (void **)&P.query, (void **)&P.mixed, (void **)&P.gated, (void **)&P.new_key, (void **)&P.new_value,
                        (void **)&P.part, (void **)&P.part_mass, (void **)&P.down_part};
    for (size_t size : sizes) P.unwritten_bytes += 3 * size;
    uint8_t *next = memory<uint8_t>(P.unwritten_bytes);
    P.unwritten = next;
    for (int i = 0; i < 10; i++) { *buffers[i] = next; next += 3 * sizes[i]; }
    P.head_part = memory<float>(ROWS * CTAS * 2); P.logits = memory<float>(TILES * 16 * ROWS); P.counter = memory<unsigned>(COUNTERS * LINE);
    P.stop = memory<uint8_t>(VOCABULARY);
    P.keys = memory<bf16>(CACHE); P.values = memory<bf16>(CACHE);
    P.ids = memory<long long>(ROWS); P.position = memory<long long>(ROWS); P.active = memory<uint8_t>(ROWS); P.uniform = memory<double>(ROWS);
    P.token = memory<long long>(ROWS); P.logp = memory<float>(ROWS); P.raw_logp = memory<float>(ROWS); P.table = memory<int>(ROWS * WIDTH);
    P.layers = LAYERS; P.positions = POSITIONS; P.steps = 1; P.table_width = WIDTH; P.pages = PAGES; P.nobodys = NOBODYS; P.vocabulary = VOCABULARY;
    P.board_width = 1; P.in_flight = 10; P.in_flight_waiting = 3; P.draws = 1; P.logits_tile = 128; P.logits_row = 16; P.epsilon = 1e-6f; P.coldness = 1;
    return P;
}

// ---- a case
struct Sequence { int position, rows; };  // of the newest token; how many of its rows live
struct Row { long long token; float logp; };
static int faults_of(Params &P, const bf16 *keys, const bf16 *values, const std::vector<Sequence> &sequences, bool backwards) {
    const int count = sequences.size(), span = ROWS / count;
    long long ids[ROWS], left[ROWS], tick;
    double uniform[ROWS];
    for (int row = 0; row < ROWS; row++) { ids[row] = random_bits() % VOCABULARY; uniform[row] = random_bits() / 4294967296.0; }
    const auto begin = [&] { memcpy(P.keys, keys, CACHE * 2); memcpy(P.values, values, CACHE * 2); };
    const auto line = [&](int row, int sequence, int number) {  // a row of the launch is a row of a sequence
        const bool lives = number < sequences[sequence].rows;
        P.ids[row] = lives ? ids[sequence * span + number] : 0;
        P.position[row] = lives ? sequences[sequence].position + number : 0;
        P.active[row] = lives;
        ((double *)P.uniform)[row] = uniform[sequence * span + number];
        for (int page = 0; page < WIDTH; page++) ((int *)P.table)[row * WIDTH + page] = lives ? (sequence * WIDTH + page) * 7 % NOBODYS : NOBODYS;
    };
    begin();
    Row expected[ROWS];
    P.rows = count; P.span = 1; P.left = left; P.tick = &tick;
    for (int number = 0; number < span; number++) {
        for (int sequence = 0; sequence < count; sequence++) { line(sequence, sequence, number); left[sequence] = 100; }
        launch(P, backwards);
        for (int sequence = 0; sequence < count; sequence++) expected[sequence * span + number] = {P.token[sequence], P.logp[sequence]};
    }
    const std::vector<bf16> keys_then(P.keys, P.keys + CACHE), values_then(P.values, P.values + CACHE);
    begin();
    P.rows = count * span; P.span = span; P.left = nullptr; P.tick = nullptr;
    for (int row = 0; row < P.rows; row++) line(row, row / span, row % span);
    launch(P, !backwards);
    int faults = 0;
    for (int sequence = 0; sequence < count; sequence++)
        for (int number = 0; number < sequences[sequence].rows; number++) {
            const int row = sequence * span + number;
            const bool same = P.token[row] == expected[row].token && !memcmp(&P.logp[row], &expected[row].logp, 4);
            const bool stayed = P.ids[row] == ids[row] && P.position[row] == sequences[sequence].position + number && P.active[row];
            if (!same) printf("sequence %d, row %d: token %lld at %.9g, not %lld at %.9g\n", sequence, number, P.token[row], P.logp[row], expected[row].token, expected[row].logp);
            faults += !same + !stayed;
        }
    const size_t page = (size_t)KEY_HEADS * PAGE * HEAD;
    for (size_t i = 0; i < CACHE; i += page)
        if (i / page % PAGES != NOBODYS) faults += memcmp(&keys_then[i], P.keys + i, page * 2) || memcmp(&values_then[i], P.values + i, page * 2);
    return faults;
}
int main() {
    Params P = a_model();
    const bf16 *keys = normal(CACHE, 1), *values = normal(CACHE, 1);
    // across a page's edge and an edge of 16 keys; from the first token on; rows that do not live; beside each other
    const std::vector<std::vector<Sequence>> cases = {{{1020, 8}}, {{0, 6}}, {{127, 4}, {1022, 3}}, {{126, 2}, {15, 2}, {300, 1}, {1535, 2}}, {{140, 0}, {63, 2}, {255, 2}}};
    int faults = 0;
    for (size_t i = 0; i < cases.size(); i++) {
        const int found = faults_of(P, keys, values, cases[i], i % 2);
        printf("case %zu: %s\n", i, found ? "different" : "the same");
        fflush(stdout);
        faults += found;
    }
    return faults != 0;
}
