/*
 * The runs of a zone by size (layout/state.h), by growth and by address. And from an address to the
 * span that contains it. The pointer map has the starts of blocks. Any other address is found from
 * its neighborhood, in steps by the spans of one chunk and the chunks of one block.
 */
#include "layout/layout.h"

#include "base/error.h"

#define SIZED(node)          MEND_CONTAINER_OR_NULL(node, mend_run, by_size)
#define CHUNK_OF(node)       MEND_CONTAINER_OR_NULL(node, mend_chunk, by_address)
#define RUN_OF(node, member) MEND_CONTAINER_OR_NULL(node, mend_run, member)

MEND_TREE_ORDER_BY_TWO(compare_sizes, mend_run, by_size, size_bytes, address);

static bool is_smaller(const mend_tree_node *run, const void *size_bytes)
{
    return MEND_CONTAINER_OF(run, mend_run, by_size)->size_bytes < *(const uint64_t *)size_bytes;
}

/* The exponent of the size, and the bits behind its first one. */
static unsigned class_of(uint64_t size_bytes)
{
    assert(size_bytes >= MEND_GRANULE_BYTES);
    const unsigned exponent = 63 - (unsigned)__builtin_clzll(size_bytes);
    const unsigned first_bits = (unsigned)(size_bytes >> (exponent - MEND_SIZE_STEP_BITS));
    return ((exponent - 9) << MEND_SIZE_STEP_BITS) + first_bits - (1U << MEND_SIZE_STEP_BITS);
}
static_assert(MEND_GRANULE_BYTES == 1 << 9, "the smallest class is that of the granule");

static mend_tree class_at(const mend_sizes *sizes, unsigned at)
{
    return (mend_tree){.root = sizes->roots[at], .compare = compare_sizes};
}

/* As most runs are in their class. */
static bool is_alone(const mend_run *run)
{
    const mend_tree_node *node = &run->by_size;
    return mend_tree_parent(node) == NULL && node->child[0] == NULL && node->child[1] == NULL;
}

/* The first run of this class and those above, or NULL. */
static mend_run *first_from(const mend_sizes *sizes, unsigned first)
{
    if (first >= MEND_SIZE_CLASSES) {
        return NULL;
    }
    unsigned word = first / 64;
    uint64_t bits = sizes->words[word] & (UINT64_MAX << first % 64);
    if (bits == 0) {
        const uint64_t above = sizes->used & (UINT64_MAX - 1) << word;
        if (above == 0) {
            return NULL;
        }
        word = (unsigned)__builtin_ctzll(above);
        bits = sizes->words[word];
    }
    mend_tree_node *node = sizes->roots[word * 64 + (unsigned)__builtin_ctzll(bits)];
    while (node->child[0] != NULL) {
        node = node->child[0];
    }
    return SIZED(node);
}

void mend_sizes_insert(mend_sizes *sizes, mend_run *run)
{
    const unsigned at = class_of(run->size_bytes);
    mend_tree_insert_at(&sizes->roots[at], &run->by_size, compare_sizes);
    sizes->words[at / 64] |= UINT64_C(1) << at % 64;
    sizes->used |= UINT64_C(1) << at / 64;
    sizes->count++;
}

void mend_sizes_remove(mend_sizes *sizes, mend_run *run)
{
    const unsigned at = class_of(run->size_bytes);
    assert(sizes->count > 0);
    sizes->count--;
    if (!is_alone(run)) {
        mend_tree_detach(&sizes->roots[at], &run->by_size);
        return;
    }
    assert(sizes->roots[at] == &run->by_size);
    sizes->roots[at] = NULL;
    sizes->words[at / 64] &= ~(UINT64_C(1) << at % 64);
    sizes->used ^= (uint64_t)(sizes->words[at / 64] == 0) << at / 64;
}

mend_run *mend_sizes_at_least(const mend_sizes *sizes, uint64_t size_bytes)
{
    const unsigned at = class_of(size_bytes);
    const mend_tree class = class_at(sizes, at);
    mend_tree_node *found = mend_tree_first_from(&class, &size_bytes, is_smaller);
    return found != NULL ? SIZED(found) : first_from(sizes, at + 1);
}

mend_run *mend_sizes_next(const mend_sizes *sizes, const mend_run *run)
{
    mend_tree_node *next = is_alone(run) ? NULL : mend_tree_next(&run->by_size);
    return next != NULL ? SIZED(next) : first_from(sizes, class_of(run->size_bytes) + 1);
}

mend_run *mend_sizes_last(const mend_sizes *sizes)
{
    assert(sizes->used != 0);
    const unsigned word = 63 - (unsigned)__builtin_clzll(sizes->used);
    const unsigned bit = 63 - (unsigned)__builtin_clzll(sizes->words[word]);
    const mend_tree class = class_at(sizes, word * 64 + bit);
    return SIZED(mend_tree_last(&class));
}

bool mend_sizes_has(const mend_sizes *sizes, const mend_run *run)
{
    const mend_tree class = class_at(sizes, class_of(run->size_bytes));
    mend_run key = {.address = run->address, .size_bytes = run->size_bytes};
    return mend_tree_at_or_after(&class, &key.by_size) == &run->by_size;
}

/* Of the classes that have a bit. A run of another one is missing in the sum. */
bool mend_sizes_are_valid(const mend_sizes *sizes)
{
    size_t count = 0;
    for (unsigned word = 0; word < MEND_SIZE_WORDS; word++) {
        if ((sizes->words[word] != 0) != (sizes->used >> word & 1)) {
            return false;
        }
        for (uint64_t bits = sizes->words[word]; bits != 0; bits &= bits - 1) {
            const unsigned at = word * 64 + (unsigned)__builtin_ctzll(bits);
            mend_tree class = class_at(sizes, at < MEND_SIZE_CLASSES ? at : 0);
            MEND_TREE_EACH(mend_run, run, by_size, &class) {
                class.count++;
            }
            const mend_run *first = SIZED(mend_tree_first(&class));
            const mend_run *last = SIZED(mend_tree_last(&class));
            if (at >= MEND_SIZE_CLASSES || first == NULL || class_of(first->size_bytes) != at ||
                class_of(last->size_bytes) != at || !mend_tree_is_valid(&class)) {
                return false;
            }
            count += class.count;
        }
    }
    return count == sizes->count;
}

/* ---- runs by growth and by address ----------------------------------------------------------- */

static bool is_as_large(const mend_tree_node *run, const void *size_bytes)
{
    return MEND_CONTAINER_OF(run, mend_run, by_growth)->size_bytes >= *(const uint64_t *)size_bytes;
}

mend_run *mend_layout_growing_below(const mend_zone *zone, uint64_t size_bytes)
{
    return RUN_OF(mend_tree_last_to(&zone->runs_by_growth, &size_bytes, is_as_large), by_growth);
}

mend_run *mend_layout_growing_smaller(const mend_run *run)
{
    assert(run->extensible);
    return RUN_OF(mend_tree_previous(&run->by_growth), by_growth);
}

static bool is_behind(const mend_tree_node *run, const void *address)
{
    return MEND_CONTAINER_OF(run, mend_run, by_address)->address > *(const uint64_t *)address;
}

mend_run *mend_layout_run_at(const mend_zone *zone, uint64_t address)
{
    mend_run *run =
        RUN_OF(mend_tree_last_to(&zone->runs_by_address, &address, is_behind), by_address);
    return run != NULL && address - run->address < run->size_bytes ? run : NULL;
}

mend_run *mend_layout_run_from(const mend_zone *zone, uint64_t address)
{
    mend_run key = {.address = address};
    mend_run *run = mend_layout_run_at(zone, address);
    return run != NULL
               ? run
               : RUN_OF(mend_tree_at_or_after(&zone->runs_by_address, &key.by_address), by_address);
}

mend_span *mend_layout_segment_end(const mend_zone *zone, uint64_t address)
{
    const mend_span key = {.address = address}; /* the tree is by ends */
    return MEND_CONTAINER_OR_NULL(mend_tree_at_or_after(&zone->segment_ends, &key.by_end),
                                  mend_span, by_end);
}

/* A span before an address in the chunk and in no run: the nearest one that an index finds from the
 * start of this chunk or of one before it. NULL if everything from the segment's start to there is
 * claimed. */
static mend_span *anchor_before(const mend_heap *heap, const mend_chunk *chunk)
{
    assert(chunk->address != 0);
    const mend_zone *zone = &heap->zones[chunk->zone];
    for (;;) {
        mend_span *span = zone == &heap->zones[MEND_ZONE_RANGE]
                              ? heap->ranges.page_at(heap, chunk->address)
                              : mend_pointer_map_find(&heap->blocks, chunk->address);
        const mend_run *run = span == NULL ? mend_layout_run_at(zone, chunk->address) : NULL;
        span = run != NULL ? run->last : span;
        const mend_chunk *before = CHUNK_OF(mend_tree_previous(&chunk->by_address));
        if (span != NULL || before == NULL || before->zone != chunk->zone ||
            before->address + before->size_bytes != chunk->address) {
            return span;
        }
        chunk = before;
    }
}

/* Two searches in turns. One walks up from the anchor. The other looks up each possible start of a
 * block in the chunk at or before the address, the nearest first. So many small blocks before the
 * address cost as little as one large block around it. */
static mend_span *search_chunk(const mend_heap *heap, const mend_chunk *chunk, mend_span *anchor,
                               uint64_t address)
{
    assert(address - chunk->address < chunk->size_bytes);
    uint64_t start = mend_align_down(address, MEND_GRANULE_BYTES);
    for (mend_span *span = anchor; span != NULL; span = span->next) {
        if (mend_span_end(span) > address) {
            return span;
        }
        mend_span *nearest = start >= chunk->address && start > mend_span_end(span)
                                 ? mend_pointer_map_find(&heap->blocks, start)
                                 : NULL;
        if (nearest != NULL) {
            return mend_span_walk(nearest, address);
        }
        start -= MEND_GRANULE_BYTES;
    }
    return NULL;
}

/* The span around an address of the chunk that lies in no run. Where all before it is claimed, from
 * the end of its segment. Two neighboring chunks may belong to two segments for a moment, while one
 * of them gets its address: then the end of the right segment leads there. */
static mend_span *find_beside_runs(const mend_heap *heap, const mend_chunk *chunk, uint64_t address)
{
    mend_span *anchor = anchor_before(heap, chunk);
    mend_span *span = anchor != NULL ? search_chunk(heap, chunk, anchor, address) : NULL;
    if (span != NULL) {
        return span;
    }
    span = mend_layout_segment_end(&heap->zones[chunk->zone], chunk->address + chunk->size_bytes);
    while (span != NULL && span->address > address) {
        span = span->previous;
    }
    return span;
}

/* The block that is passed through and contains the address. NULL: none. */
static mend_span *passed_at(const mend_heap *heap, uint64_t address)
{
    mend_span *span = mend_layout_segment_end(&heap->zones[MEND_ZONE_PASSED], address + 1);
    return span != NULL && span->live && span->address <= address ? span : NULL;
}

mend_span *mend_heap_block_at(const mend_heap *heap, uint64_t address)
{
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    const mend_chunk *chunk = span == NULL ? mend_chunk_at(&heap->chunks, address) : NULL;
    if (chunk != NULL && mend_layout_run_at(&heap->zones[chunk->zone], address) == NULL) {
        span = find_beside_runs(heap, chunk, address);
    }
    if (span == NULL && chunk == NULL) {
        span = passed_at(heap, address);
    }
    return span != NULL && span->live ? span : NULL;
}

bool mend_heap_holds(const mend_heap *heap, uint64_t address)
{
    return mend_chunk_at(&heap->chunks, address) != NULL || passed_at(heap, address) != NULL;
}

mend_span *mend_heap_span_at(const mend_heap *heap, uint64_t address)
{
    mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    const mend_chunk *chunk = span == NULL ? mend_chunk_at(&heap->chunks, address) : NULL;
    if (chunk == NULL) {
        return span;
    }
    const mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], address);
    return run != NULL ? mend_span_walk(run->first, address)
                       : find_beside_runs(heap, chunk, address);
}

const mend_span *mend_layout_last_span(const mend_heap *heap, const mend_chunk *chunk,
                                       const mend_span *above)
{
    uint64_t end = chunk->address + chunk->size_bytes;
    if (above != NULL && above->address >= end) {
        above = above->previous; /* NULL if a segment begins behind the chunk */
    }
    assert(above == NULL || mend_span_end(above) >= end);
    return above != NULL ? above : mend_heap_span_at(heap, end - 1);
}

static bool is_frozen(const mend_chunk *chunk)
{
    return chunk->is_frozen;
}

/* The first chunk with one of these addresses for which `is_so` is true. NULL: there is none. */
static const mend_chunk *find_under(const mend_heap *heap, uint64_t address, uint64_t size_bytes,
                                    bool (*is_so)(const mend_chunk *))
{
    MEND_CHUNKS_EACH(const mend_chunk, chunk, heap, address, address + size_bytes) {
        if (is_so(chunk)) {
            return chunk;
        }
    }
    return NULL;
}

const mend_chunk *mend_layout_find_frozen(const mend_heap *heap, const mend_span *span)
{
    return find_under(heap, span->address, span->size_bytes, is_frozen);
}

bool mend_layout_misses_mapping(const mend_heap *heap, const mend_span *span)
{
    return heap->chunks.missing_count > 0 &&
           find_under(heap, span->address, span->size_bytes, mend_chunk_misses_mapping) != NULL;
}

bool mend_layout_sleeps(const mend_heap *heap, const mend_span *span)
{
    return heap->chunks.asleep_count > 0 &&
           find_under(heap, span->address, span->size_bytes, mend_chunk_sleeps) != NULL;
}

size_t mend_layout_count_chunks(const mend_heap *heap, const mend_span *span)
{
    size_t count = 0;
    MEND_CHUNKS_EACH(const mend_chunk, chunk, heap, span->address, mend_span_end(span)) {
        count++;
    }
    return count;
}

/* A sleeping block has no memory, so no user outside of the pool may begin to rely on it. */
mend_result mend_heap_check_awake(const mend_heap *heap, uint64_t address, uint64_t size_bytes,
                                  const char *what)
{
    const mend_chunk *asleep = heap->chunks.asleep_count > 0
                                   ? find_under(heap, address, size_bytes, mend_chunk_sleeps)
                                   : NULL;
    return asleep == NULL
               ? MEND_OK
               : mend_failure(MEND_ERROR_ASLEEP,
                              "%s: the memory at 0x%llx sleeps; call mend_wake first", what,
                              (unsigned long long)mend_max_u64(address, asleep->address));
}

bool mend_layout_is_home(const mend_heap *heap, const mend_request *request, const mend_run *run,
                         uint64_t address, uint64_t end)
{
    assert(address < end);
    const mend_chunk *at = mend_run_chunk_at(heap, run, address);
    for (; at != NULL && at->address < end; at = mend_chunk_next(at)) {
        if (at->live_bytes > 0 && at->sleep_tag != request->home) {
            return false;
        }
    }
    return true;
}
