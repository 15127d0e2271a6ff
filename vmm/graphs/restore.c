/*
 * Checkpoints of graph pools: their live blocks can be listed, and restored at their addresses. A
 * framework that records a graph at some point of its execution first restores the graph pool's
 * memory of that point.
 *
 * It works because of an invariant: memory that was freed in a graph pool stays mapped and stays
 * with the graph pool, until the graph pool is released. A request of the graph pool may move a
 * chunk that the graph pool has freed. Then the old mapping retires, and is still there.
 */
#include <stdlib.h>

#include "alloc/heap.h"
#include "base/align.h"
#include "mend/mend_graph_pools.h"
#include "pool/pool.h"

/* A block to be restored. */
typedef struct target {
    mend_graph_pool_block block; /* first: so targets are compared as blocks */
    uint64_t address;
    uint64_t size_bytes; /* rounded up */
    uint32_t stream;     /* index, in the graph pool */
    bool is_there;       /* it is live as it is */
} target;

/* The state of a restoration. */
typedef struct restoration {
    mend_heap *heap;
    uint32_t graph_pool;
    target *targets; /* by address */
    size_t target_count;
    mend_graph_pool_block *live; /* the graph pool's live blocks */
    size_t live_count;
    /* The chunks that the graph pool has moved since the checkpoint, by number, with the old
     * mapping that each returns to. It is still there, because a graph of the graph pool may use
     * it. */
    mend_pointer_map ways_back;
    size_t live_parts; /* of these: one that lies in frozen chunks is freed in parts */
    size_t most_waits; /* that one piece of memory has, which is cut once */
} restoration;

/* ---- the blocks of a graph pool -------------------------------------------------------------- */

/* Writes as many as fit, in no order. Returns their number. Reads all blocks of the pool, but only
 * if the graph pool may have some. */
static size_t list(const mend_heap *heap, uint32_t graph_pool, mend_graph_pool_block *blocks,
                   size_t block_bytes, size_t capacity)
{
    size_t count = 0;
    bool any = false; /* the mark of each counts as a user on a stream of the graph pool */
    MEND_SLOTS_EACH(i, &heap->streams, graph_pool) {
        any = any || heap->streams.items[i].users > 0;
    }
    for (size_t i = 0; any && i < heap->blocks.capacity; i++) {
        const mend_span *at = heap->blocks.entries[i].value;
        if (at == NULL || !at->live || mend_graph_pool_number_of(heap, at) != graph_pool) {
            continue;
        }
        if (count < capacity) {
            const mend_graph_pool_block block = {.pointer = (void *)(uintptr_t)at->address,
                                                 .size_bytes = at->requested_bytes,
                                                 .stream = at->stream,
                                                 .tag = at->tag};
            mend_element_write(blocks, block_bytes, count, &block, sizeof(block));
        }
        count++;
    }
    return count;
}

static int compare_blocks(const void *first, const void *second)
{
    return mend_compare_u64((uintptr_t)((const mend_graph_pool_block *)first)->pointer,
                            (uintptr_t)((const mend_graph_pool_block *)second)->pointer);
}

/* Lists the graph pool's live blocks, by address, each `block_bytes` behind the one before. Returns
 * their number. If it is above `capacity`, `blocks` is untouched. */
static size_t list_sorted(const mend_heap *heap, uint32_t graph_pool, mend_graph_pool_block *blocks,
                          size_t block_bytes, size_t capacity)
{
    const size_t count = list(heap, graph_pool, NULL, block_bytes, 0);
    if (count > 0 && count <= capacity) {
        list(heap, graph_pool, blocks, block_bytes, capacity);
        qsort(blocks, count, block_bytes, compare_blocks);
    }
    return count;
}

/* ---- the checks before a restoration --------------------------------------------------------- */

static mend_result cannot(mend_result result, const target *t, const char *why)
{
    return mend_failure(result, "the block of %lu bytes at 0x%lx cannot be restored: %s",
                        t->block.size_bytes, t->address, why);
}

static mend_result wrong_block(const target *t, const char *why)
{
    return cannot(MEND_ERROR_INVALID_ARGUMENT, t, why);
}

/* Copies the wanted blocks in the order of their addresses, and makes the checks without the
 * heap. */
static mend_result read_targets(restoration *r, const mend_graph_pool_block *blocks,
                                size_t block_bytes)
{
    r->targets = calloc(mend_max_u64(r->target_count, 1), sizeof(*r->targets));
    if (r->targets == NULL) {
        return mend_no_host_memory("the blocks of a graph pool");
    }
    for (size_t i = 0; i < r->target_count; i++) {
        target *t = &r->targets[i];
        mend_element_read(&t->block, sizeof(t->block), blocks, block_bytes, i);
        t->address = (uint64_t)(uintptr_t)t->block.pointer;
        uint64_t bytes = t->block.size_bytes;
        if (bytes == 0 || bytes > MEND_LARGEST_REQUEST_BYTES) {
            return wrong_block(t, "sizes are 1 to 2^60 bytes");
        }
        t->size_bytes = mend_align_up(bytes, MEND_GRANULE_BYTES);
        if (t->address == 0 || t->address % MEND_GRANULE_BYTES != 0 ||
            t->address > UINT64_MAX - t->size_bytes) {
            return wrong_block(t, "no block of a pool begins there");
        }
        if (t->block.stream == MEND_NO_STREAM || t->block.stream == MEND_EVERY_STREAM) {
            return wrong_block(t, "a block of a graph pool has a stream");
        }
    }
    qsort(r->targets, r->target_count, sizeof(*r->targets), compare_blocks);
    for (size_t i = 1; i < r->target_count; i++) {
        const target *before = &r->targets[i - 1];
        if (r->targets[i].address - before->address < before->size_bytes) {
            return wrong_block(&r->targets[i], "it overlaps another one");
        }
    }
    return MEND_OK;
}

static bool is_there(const restoration *r, const target *t)
{
    const mend_span *span = mend_pointer_map_find(&r->heap->blocks, t->address);
    return span != NULL && mend_graph_pool_number_of(r->heap, span) == r->graph_pool &&
           span->size_bytes == t->size_bytes && span->requested_bytes == t->block.size_bytes &&
           span->stream == t->block.stream;
}

/* Whether free memory waits for a stream of the graph pool. */
static bool is_kept(const restoration *r, const mend_waits *waits)
{
    const mend_stream_state *streams = r->heap->streams.items;
    bool is_kept = false;
    for (const mend_wait *at = &waits->all; at != NULL && !is_kept; at = at->next) {
        is_kept = streams[at->stamp.stream].graph_pool == r->graph_pool;
    }
    return is_kept;
}

static const target *find_target(const restoration *r, uint64_t address)
{
    const mend_graph_pool_block key = {.pointer = (void *)(uintptr_t)address};
    return bsearch(&key, r->targets, r->target_count, sizeof(*r->targets), compare_blocks);
}

/* Whether a restoration can use the memory of a span: it is kept for the graph pool, or idle, or of
 * a block that is freed first. */
static bool is_usable(const restoration *r, const mend_span *span, uint32_t stream)
{
    if (span->live) {
        const target *t = find_target(r, span->address);
        return mend_graph_pool_number_of(r->heap, span) == r->graph_pool &&
               (t == NULL || !t->is_there) &&
               mend_layout_frozen_under(r->heap, span) == NULL; /* set aside: in no run */
    }
    assert(!span->cached);
    return mend_layout_frozen_under(r->heap, span) == NULL &&
           (is_kept(r, &span->waits) ||
            mend_waits_are_ready(&r->heap->streams, &span->waits, stream, 0));
}

static mend_result unusable(const restoration *r, const target *t, const mend_span *span)
{
    const mend_chunk *frozen = mend_layout_frozen_under(r->heap, span);
    if (!span->live && frozen != NULL && mend_chunk_misses_mapping(frozen)) {
        return cannot(r->heap->unlocking.lost != MEND_DRIVER_OK ? MEND_ERROR_DEVICE_LOST
                                                                : MEND_ERROR_DRIVER,
                      t, "its memory could not be mapped again yet");
    }
    return wrong_block(t, span->live ? "another block lies there"
                                     : "work outside of the graph pool may use its memory");
}

/* The map is for addresses. */
static uint64_t key_of(const mend_chunk *chunk)
{
    return chunk->memory.number * MEND_GRANULE_BYTES;
}

/* Plans the ways back of the chunks that the block lay in, each once. */
static mend_result plan_ways_back(restoration *r, const target *t)
{
    const uint64_t end = t->address + t->size_bytes;
    for (uint64_t at = t->address; at < end;) {
        const mend_chunk *mapped = mend_chunk_at(&r->heap->chunks, at);
        if (mapped != NULL) {
            at = mapped->address + mapped->size_bytes;
            continue;
        }
        mend_retired *retired = mend_retire_at(r->heap, at);
        if (retired == NULL) {
            return wrong_block(t, "its memory is not mapped any more");
        }
        at = retired->address + retired->size_bytes;
        const mend_chunk *chunk = mend_chunk_numbered(&r->heap->chunks, retired->number);
        const mend_retired *planned =
            chunk != NULL ? mend_pointer_map_find(&r->ways_back, key_of(chunk)) : NULL;
        if (planned == retired) {
            continue;
        }
        if (chunk == NULL || chunk->address == 0 || chunk->holds != 0 ||
            !is_kept(r, &retired->waits) || planned != NULL) {
            return wrong_block(t, "its memory was given to something else");
        }
        MEND_SPANS_EACH(const mend_span, span, r->heap, chunk) {
            if (!is_usable(r, span, t->stream)) {
                return unusable(r, t, span);
            }
        }
        if (!mend_pointer_map_reserve(&r->ways_back)) {
            return mend_no_host_memory("the blocks of a graph pool");
        }
        mend_pointer_map_insert(&r->ways_back, key_of(chunk), retired);
    }
    return MEND_OK;
}

/* The waits of a span, also after its free: of its stream, and of a stream of its graph pool. */
static size_t span_waits(const mend_span *span)
{
    enum { STAMPS_OF_FREE = 2 };
    return 1 + mend_waits_count_others(&span->waits) + STAMPS_OF_FREE;
}

/* Whether the mapped memory of the block can be used, and stays where it is. */
static mend_result check_memory(restoration *r, const target *t)
{
    const uint64_t end = t->address + t->size_bytes;
    uint64_t at = t->address;
    size_t waits = 0;
    while (at < end) {
        const mend_chunk *chunk = mend_chunk_at(&r->heap->chunks, at);
        const mend_span *span = chunk != NULL ? mend_heap_span_at(r->heap, at) : NULL;
        if (span == NULL) { /* of a chunk that comes back */
            const mend_retired *retired = mend_retire_at(r->heap, at);
            at = retired->address + retired->size_bytes;
            continue;
        }
        if (!is_usable(r, span, t->stream)) {
            return unusable(r, t, span);
        }
        if (mend_pointer_map_find(&r->ways_back, key_of(chunk)) != NULL) {
            return wrong_block(t, "its memory was at another address");
        }
        waits += span_waits(span);
        at = mend_min_u64(mend_span_end(span), chunk->address + chunk->size_bytes);
    }
    r->most_waits = mend_max_u64(waits, r->most_waits);
    return MEND_OK;
}

static mend_span *span_of(const restoration *r, const mend_graph_pool_block *live)
{
    return mend_pointer_map_find(&r->heap->blocks, (uint64_t)(uintptr_t)live->pointer);
}

static mend_result list_live(restoration *r)
{
    const bool has_frozen = r->heap->chunks.frozen_count > 0;
    const size_t count = list(r->heap, r->graph_pool, NULL, sizeof(*r->live), 0);
    r->live = calloc(count + 1, sizeof(*r->live));
    if (r->live == NULL) {
        return mend_no_host_memory("the blocks of a graph pool");
    }
    r->live_count = list_sorted(r->heap, r->graph_pool, r->live, sizeof(*r->live), count);
    for (size_t i = 0; i < count; i++) {
        const mend_span *span = span_of(r, &r->live[i]);
        const size_t parts = has_frozen ? mend_layout_count_chunks(r->heap, span) : 1;
        r->live_parts += parts;
        r->most_waits = mend_max_u64(parts > 1 ? span_waits(span) : 0, r->most_waits);
    }
    return MEND_OK;
}

/* ---- the changes, which cannot fail ---------------------------------------------------------- */

/* All host memory that the changes may need. A chunk on its way back has the waits of both
 * mappings, and memory freed without a stream may wait for all of them. */
static mend_result reserve(restoration *r)
{
    mend_heap *heap = r->heap;
    const size_t streams = heap->streams.count;
    bool waits_for_all = r->ways_back.count > 0 || r->most_waits > streams;
    MEND_SLOTS_EACH(i, &heap->streams, r->graph_pool) {
        waits_for_all = waits_for_all || heap->streams.items[i].has_ended;
    }
    size_t promised = 0;
    while (promised < r->target_count && mend_pointer_map_promise(&heap->blocks)) {
        promised++;
    }
    const bool are_promised = promised == r->target_count;
    for (; promised > 0; promised--) {
        mend_pointer_map_end_promise(&heap->blocks);
    }
    /* A change takes or frees a block, or its part in a frozen chunk, or attaches and detaches a
     * chunk. Its copies of waits: at four cuts, of two runs and two sides, and two of a chunk. */
    enum { COPIES = 10 };
    const size_t changes = r->live_parts + r->target_count + r->ways_back.count;
    const size_t most_waits = waits_for_all ? streams : r->most_waits;
    const mend_layout_promise one = mend_layout_nodes_for(heap, 1);
    const mend_layout_promise nodes = {changes * one.spans, changes * one.runs,
                                       changes * (COPIES * most_waits + 1)};
    return are_promised && mend_layout_reserve_these(heap, &nodes)
               ? MEND_OK
               : mend_no_host_memory("the blocks of a graph pool");
}

/* Frees a block on the stream of the graph pool that it was allocated on. */
static void let_go(restoration *r, mend_span *span)
{
    uint32_t stream = MEND_STREAM_UNKNOWN;
    for (const mend_wait *at = span->waits.others; at != NULL; at = at->next) {
        stream = at->stamp.epoch == 0 ? at->stamp.stream : stream; /* the last one is the mark */
    }
    assert(r->heap->streams.items[stream].graph_pool == r->graph_pool);
    if (r->heap->streams.items[stream].has_ended) {
        stream = MEND_STREAM_UNKNOWN; /* forgotten. The mark still keeps the memory */
    }
    mend_block_let_go(r->heap, span, (mend_block_users){stream, MEND_STREAM_UNKNOWN});
}

static void take(restoration *r, const target *t)
{
    mend_heap *heap = r->heap;
    mend_run *run = NULL;
    for (int zone = 0; zone < MEND_ZONES_OF_BLOCKS && run == NULL; zone++) {
        run = mend_layout_run_at(&heap->zones[zone], t->address);
    }
    assert(run != NULL && mend_run_end(run) - t->address >= t->size_bytes);
    const mend_request request = {.size_bytes = t->size_bytes,
                                  .alignment_bytes = MEND_GRANULE_BYTES,
                                  .requested_bytes = t->block.size_bytes,
                                  .handle = t->block.stream,
                                  .stream = t->stream,
                                  .graph_pool = r->graph_pool,
                                  .tag = t->block.tag,
                                  .sleep_tag = mend_heap_span_at(heap, t->address)->sleep_tag};
    mend_span *span = mend_layout_take(heap, run, t->address, t->size_bytes, 0);
    heap->counters.placed_in_run++;
    mend_block_hand_out(heap, &request, span);
}

static void apply(restoration *r)
{
    for (size_t i = 0; i < r->live_count; i++) {
        mend_span *span = span_of(r, &r->live[i]);
        const target *same = find_target(r, span->address);
        if (same == NULL || !same->is_there) {
            let_go(r, span);
        }
    }
    for (size_t i = 0; i < r->ways_back.capacity; i++) {
        mend_retired *retired = r->ways_back.entries[i].value;
        if (retired != NULL) {
            mend_retire_swap(r->heap, retired,
                             mend_chunk_numbered(&r->heap->chunks, retired->number));
        }
    }
    for (size_t i = 0; i < r->target_count; i++) {
        if (!r->targets[i].is_there) {
            take(r, &r->targets[i]);
        }
    }
}

/* First the steps that may call the driver and release `state`: finding streams, and retrying
 * refused mappings. Then, with `state` held to the end, the checks, which also plan the chunks that
 * return to an old mapping, and all nodes. apply() cannot fail. */
static mend_result restore(restoration *r, const mend_graph_pool_block *blocks, size_t block_bytes)
{
    MEND_TRY(read_targets(r, blocks, block_bytes));
    for (size_t i = 0; i < r->target_count; i++) {
        target *t = &r->targets[i];
        if (i > 0 && t[-1].block.stream == t->block.stream) {
            t->stream = t[-1].stream;
        } else {
            MEND_TRY(mend_users_find_stream(r->heap, t->block.stream, r->graph_pool, &t->stream));
        }
    }
    mend_retry_all(r->heap); /* a chunk may have no mapping */
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        mend_cache_flush(r->heap, zone);
    }
    for (size_t i = 0; i < r->target_count; i++) {
        r->targets[i].is_there = is_there(r, &r->targets[i]);
    }
    for (size_t i = 0; i < r->target_count; i++) {
        MEND_TRY(r->targets[i].is_there ? MEND_OK : plan_ways_back(r, &r->targets[i]));
    }
    for (size_t i = 0; i < r->target_count; i++) {
        MEND_TRY(r->targets[i].is_there ? MEND_OK : check_memory(r, &r->targets[i]));
    }
    MEND_TRY(list_live(r));
    MEND_TRY(reserve(r));
    apply(r);
    return MEND_OK;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

mend_result mend_graph_pool_checkpoint(mend_graph_pool *graph_pool, mend_graph_pool_block *blocks,
                                       size_t block_bytes, size_t capacity, size_t *count)
{
    MEND_INVALID_IF(graph_pool == NULL || count == NULL || (blocks == NULL && capacity > 0) ||
                        !mend_struct_size_is_whole(block_bytes, sizeof(*blocks)),
                    "mend_graph_pool_checkpoint: graph pool, count or blocks is NULL, or "
                    "block_bytes is not sizeof(mend_graph_pool_block)");
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter(pool));
    *count = list_sorted(&pool->heap, graph_pool->number, blocks, block_bytes, capacity);
    return mend_pool_leave(pool, MEND_OK);
}

mend_result mend_graph_pool_restore(mend_graph_pool *graph_pool,
                                    const mend_graph_pool_block *blocks, size_t block_bytes,
                                    size_t count)
{
    MEND_INVALID_IF(graph_pool == NULL || (blocks == NULL && count > 0) ||
                        !mend_struct_size_is_whole(block_bytes, sizeof(*blocks)),
                    "mend_graph_pool_restore: graph pool or blocks is NULL, or block_bytes "
                    "is not sizeof(mend_graph_pool_block)");
    mend_pool *pool = graph_pool->pool;
    MEND_TRY(mend_pool_enter_all(pool));
    restoration r = {.heap = &pool->heap, .graph_pool = graph_pool->number, .target_count = count};
    const mend_result result =
        pool->heap.chunks.asleep_count > 0
            ? mend_failure(
                  MEND_ERROR_ASLEEP,
                  "mend_graph_pool_restore: memory of the pool sleeps; call mend_wake first")
            : restore(&r, blocks, block_bytes);
    free(r.targets);
    free(r.live);
    mend_pointer_map_clear(&r.ways_back);
    return mend_pool_leave_all(pool, result);
}
