// What the program reads is laid out anew: weights after each update, pages of keys and values when it takes over.
#include "attention.cuh"

// ---- weights: blocks of 32 features, 64 bytes. `from` says for each block of the layout which one of the matrices'
// blocks it is; inside a block the features are in the order of `packed`. Four lanes a block.
__global__ void lay_out_layers(const uint32_t *const *matrices, const int *from, uint32_t *to, int blocks, int blocks_a_cta, size_t cta_words, int layers) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) >> 2, t = threadIdx.x & 3, layer = blockIdx.y;
    if (i >= blocks) return;
    const int source = from[i], which = source >> 29, block = source & ((1 << 29) - 1);
    const uint32_t *words = matrices[layer * 4 + which] + (size_t)block * 16 + t;
    uint4 v;
    v.x = __ldg(words); v.y = __ldg(words + 4); v.z = __ldg(words + 8); v.w = __ldg(words + 12);
    const size_t at = (i / blocks_a_cta) * cta_words + ((size_t)layer * blocks_a_cta + i % blocks_a_cta) * 16 + t * 4;
    __stcs((uint4 *)(to + at), v);
}
// A tile of the head is 16 rows over HIDDEN columns; `order` says which block of a row comes when.
__global__ void lay_out_head(const uint32_t *head, const int *order, uint32_t *to, int tiles, int vocabulary, size_t cta_words, size_t layers_words) {
    constexpr int BLOCKS = HEAD_TILE / 64;
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) >> 2, t = threadIdx.x & 3, tile = i / BLOCKS, block = i % BLOCKS;
    if (tile >= tiles) return;
    const int each = tiles / CTAS, rest = tiles % CTAS, longer = rest * (each + 1);
    const int cta = tile < longer ? tile / (each + 1) : rest + (tile - longer) / each, first = cta * each + min(cta, rest);
    const int row = min(tile * 16 + block % 16, vocabulary - 1);
    const uint32_t *words = head + ((size_t)row * (HIDDEN / 32) + order[block / 16]) * 16 + t;
    uint4 v;
    v.x = __ldg(words); v.y = __ldg(words + 4); v.z = __ldg(words + 8); v.w = __ldg(words + 12);
    __stcs((uint4 *)(to + cta * cta_words + layers_words + ((size_t)(tile - first) * BLOCKS + block) * 16 + t * 4), v);
}

// ---- pages: from rows of keys, as the other engines have them, to fragments and back, in place. A page's keys behind
// `tokens` become zeros, so that nothing of an earlier sequence is left in them. A block has one page's head.
__global__ void turn_pages(bf16 *keys, bf16 *values, const int *listed, const int *tokens, int pages, bool to_fragments) {
    extern __shared__ __align__(16) bf16 whole[];
    const int page = listed[blockIdx.x], used = tokens[blockIdx.x], layer = blockIdx.y, head = blockIdx.z % KEY_HEADS;
    const bool are_keys = blockIdx.z < KEY_HEADS;
    uint4 *memory = (uint4 *)((are_keys ? keys : values) + (((size_t)layer * pages + page) * KEY_HEADS + head) * PAGE * HEAD);
    const auto place = [&](int key, int d) { return are_keys ? key_place(key, d) : value_place(key, d); };
    constexpr int VECTORS = PAGE * HEAD / 8;
    for (int i = threadIdx.x; i < VECTORS; i += blockDim.x) {
        uint4 v = memory[i];
        if (to_fragments) {
            const int key = i / (HEAD / 8), d = i % (HEAD / 8) * 8;
            if (key >= used) v = make_uint4(0, 0, 0, 0);
            const bf16 *one = (const bf16 *)&v;
#pragma unroll
            for (int j = 0; j < 8; j++) whole[place(key, d + j)] = one[j];
        } else
            ((uint4 *)whole)[i] = v;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < VECTORS; i += blockDim.x) {
        uint4 v;
        if (to_fragments)
            v = ((uint4 *)whole)[i];
        else {
            const int key = i / (HEAD / 8), d = i % (HEAD / 8) * 8;
            bf16 *one = (bf16 *)&v;
#pragma unroll
            for (int j = 0; j < 8; j++) one[j] = whole[place(key, d + j)];
        }
        memory[i] = v;
    }
}

extern "C" {
int opd_lay_out(const void *matrices, const int *from, const void *head, const int *order, void *to, int layers, int vocabulary, cudaStream_t stream) {
    const int blocks_a_cta = LAYER_BYTES / 64, blocks = blocks_a_cta * WORKERS, tiles = (vocabulary + 15) / 16;
    const size_t cta_words = (layers * LAYER_BYTES + (size_t)((tiles + CTAS - 1) / CTAS) * HEAD_TILE) / 4;
    lay_out_layers<<<dim3((blocks * 4 + 255) / 256, layers), 256, 0, stream>>>((const uint32_t *const *)matrices, from, (uint32_t *)to, blocks, blocks_a_cta, cta_words, layers);
    lay_out_head<<<((size_t)tiles * (HEAD_TILE / 64) * 4 + 255) / 256, 256, 0, stream>>>((const uint32_t *)head, order, (uint32_t *)to, tiles, vocabulary, cta_words, layers * LAYER_BYTES / 4);
    return cudaGetLastError();
}
int opd_turn_pages(void *keys, void *values, const int *listed, const int *tokens, int count, int pages, int layers, int to_fragments, cudaStream_t stream) {
    turn_pages<<<dim3(count, layers, 2 * KEY_HEADS), 256, PAGE * HEAD * sizeof(bf16), stream>>>((bf16 *)keys, (bf16 *)values, listed, tokens, pages, to_fragments);
    return cudaGetLastError();
}
}
