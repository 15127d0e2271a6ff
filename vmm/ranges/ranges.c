/*
 * Growable ranges and their calls: addresses that stay, and memory that comes and goes below them,
 * in pages. A committed page is a live span of the zone MEND_ZONE_RANGE, so that waits, streams,
 * pins and compactions treat it as a block. A decommitted page is free memory of that zone: its
 * chunks are in the set of empty ones, and any request may move them elsewhere. Until then the page
 * is still mapped, and is committed again without a driver call. Invariants, checked by the
 * validation:
 *  - each range has one reservation of `range_space`, and nothing else is mapped there. A range is
 *    closed, or the program has it.
 *  - a chunk of the zone lies inside one page of one range.
 *  - the live spans of the zone are exactly the committed pages, each of one page, which the page
 *    table of its range names. So a chunk there is live as a whole, or empty.
 *  - a chunk there may sleep (memory/chunk.h). A page sleeps as far as its chunks do, and stays
 *    committed. Decommitted, a sleeping chunk is claimed, and in the way of a commit, until it is
 *    collected. Then nothing is mapped at its addresses.
 *  - a closed range has no committed pages, and something is mapped in it.
 *  - the deferred work of ranges is closed ranges.
 */
#include "ranges/ranges.h"

#include <stdlib.h>

#include "alloc/heap.h"
#include "base/align.h"
#include "map/map.h"
#include "pool/pool.h"

#define LARGEST_RANGE_BYTES (UINT64_C(1) << 46)
#define MOST_PAGES          (UINT64_C(1) << 26)

#define RANGE_OF(node)      MEND_CONTAINER_OR_NULL(node, mend_range, by_address)

/* Ranges have sums of the chunks that are mapped in them. */
static mend_chunk_sums *sums_at(mend_chunks *chunks, uint64_t address)
{
    return &mend_range_at(MEND_CONTAINER_OF(chunks, mend_heap, chunks), address)->sums;
}

MEND_TREE_ORDER(compare_address, mend_range, by_address, address);

static mend_span *page_at(const mend_heap *heap, uint64_t address)
{
    const mend_range *range = mend_range_at(heap, address);
    return range != NULL ? range->pages[mend_range_page_of(range, address)] : NULL;
}

static uint64_t around(const mend_heap *heap, uint64_t address)
{
    const mend_range *range = mend_range_at(heap, address);
    return range != NULL && !range->is_closed ? range->address : 0;
}

void mend_ranges_init(mend_heap *heap)
{
    mend_tree_init(&heap->ranges.by_address, compare_address);
    heap->ranges.page_at = page_at;
    heap->ranges.around = around;
    heap->chunks.sums_at = sums_at;
}

static void drop(mend_heap *heap, mend_range *range)
{
    mend_tree_remove(&heap->ranges.by_address, &range->by_address);
    mend_defer(&heap->chunks.deferred, &range->deferred, MEND_DEFERRED_NOTHING, 0);
    free(range);
}

static bool begins_behind(const mend_tree_node *node, const void *key)
{
    return MEND_CONTAINER_OF(node, mend_range, by_address)->address > *(const uint64_t *)key;
}

mend_range *mend_range_at(const mend_heap *heap, uint64_t address)
{
    mend_range *range =
        RANGE_OF(mend_tree_last_to(&heap->ranges.by_address, &address, begins_behind));
    return range != NULL && address - range->address < range->size_bytes ? range : NULL;
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Here `from` and `end` are addresses at pages of the range. */

/* Reserves addresses. If the driver has none left, those that the pool does not use are freed
 * first, also of idle chunks, which can move. */
static mend_result reserve(mend_heap *heap, mend_range *range)
{
    mend_space *space = &heap->range_space;
    mend_status status = MEND_DRIVER_OUT_OF_MEMORY;
    mend_retry_these(heap, MEND_DEFERRED_RANGE, MEND_DEFERRED_RANGE, MEND_STREAM_UNKNOWN);
    for (int tries = 0; tries <= 1 && status == MEND_DRIVER_OUT_OF_MEMORY; tries++) {
        if (tries == 1) {
            mend_trim_between(heap, 0, UINT64_MAX, MEND_STREAM_UNKNOWN);
            mend_space_trim(&heap->space, 0);
        }
        if (!mend_space_reserve_nodes(space, 1)) {
            return mend_no_host_memory("a range");
        }
        status = mend_space_own(space, range->size_bytes, &range->address);
    }
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        (void)mend_driver_did(heap, status);
        return mend_refused(heap->driver, MEND_ERROR_OUT_OF_ADDRESS_SPACE, MEND_CALL_reserve,
                            status,
                            "no addresses are left for a range of %lu bytes; the pool's "
                            "blocks lie in %lu: create ranges before blocks, or set a "
                            "smaller address_reservation_bytes",
                            range->size_bytes, heap->space.address_bytes);
    }
    return mend_driver_result(heap, MEND_ANSWER(reserve, status));
}

mend_result mend_range_create(mend_pool *pool, uint64_t size_bytes, const mend_range_options *given,
                              mend_range **range)
{
    MEND_INVALID_IF(pool == NULL || range == NULL, "mend_range_create: pool or range is NULL");
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    MEND_TRY(mend_pool_read_struct(given, "MEND_RANGE_OPTIONS_INIT", &options, sizeof(options)));
    MEND_TRY(mend_pool_needs_chunks(pool, "mend_range_create"));
    const uint64_t device_page = pool->heap.device.granularity_bytes;
    const uint64_t page = options.page_bytes != 0 ? options.page_bytes : device_page;
    if (page % device_page != 0 || page > LARGEST_RANGE_BYTES) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "mend_range_options.page_bytes is %lu; it takes multiples of the device's "
                         "page, %lu bytes, up to 2^46",
                         page, device_page);
    }
    if (size_bytes == 0 || size_bytes > LARGEST_RANGE_BYTES ||
        (size_bytes - 1) / page >= MOST_PAGES) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "a range of %lu bytes is not possible; it has 1 to 2^46 bytes, in at "
                         "most 2^26 pages (of %lu bytes)",
                         size_bytes, page);
    }
    const uint64_t page_count = (size_bytes - 1) / page + 1;
    const uint64_t sleep_tag = mend_process_marks().sleep_tag;
    mend_range *made = calloc(1, sizeof(*made) + (size_t)page_count * sizeof(mend_span *));
    if (made == NULL) {
        return mend_publish(mend_no_host_memory("a range"));
    }
    made->pool = pool;
    made->size_bytes = page_count * page;
    made->requested_bytes = size_bytes;
    made->page_bytes = page;
    made->tag = options.tag;
    made->sleep_tag = sleep_tag != 0 ? sleep_tag : options.tag;
    mend_result result = mend_pool_enter_all(pool);
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    mend_driver_scope scope;
    result = mend_enter(&pool->heap, &scope);
    if (result == MEND_OK) {
        result = reserve(&pool->heap, made);
        mend_driver_scope_close(&pool->heap, &scope);
    }
    if (result == MEND_OK) {
        mend_tree_insert(&pool->heap.ranges.by_address, &made->by_address);
        *range = made;
    } else {
        free(made);
    }
    return mend_pool_leave_all(pool, result);
}

mend_result mend_range_get_info(mend_range *range, mend_range_info *info)
{
    MEND_INVALID_IF(range == NULL || info == NULL, "mend_range_get_info: range or info is NULL");
    mend_pool *pool = range->pool;
    MEND_TRY(mend_pool_check_struct(info, "MEND_RANGE_INFO_INIT"));
    MEND_TRY(mend_pool_look(pool));
    const mend_range_info all = {
        .base = (void *)(uintptr_t)range->address,
        .size_bytes = range->size_bytes,
        .page_bytes = range->page_bytes,
        .committed_bytes = range->committed_bytes,
        .mapped_bytes = range->sums.mapped_bytes,
        .tag = range->tag,
        .pool = pool,
        .asleep_bytes = range->sums.asleep_live_bytes,
    };
    mend_heap_unlock(&pool->heap);
    mend_struct_write(info, &all, sizeof(all));
    return MEND_OK;
}

/* Checks the pages of a range, and finds the order of the stream. */
static mend_result check_bytes(const char *call, mend_range *range, uint64_t offset_bytes,
                               uint64_t size_bytes, mend_stream stream)
{
    if (range == NULL || stream == MEND_EVERY_STREAM) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "%s: range is NULL, or stream is MEND_EVERY_STREAM", call);
    }
    if (size_bytes == 0 || offset_bytes > range->size_bytes ||
        size_bytes > range->size_bytes - offset_bytes) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "%s: %lu bytes at offset %lu are not in the range of %lu bytes", call,
                         size_bytes, offset_bytes, range->size_bytes);
    }
    return MEND_OK;
}

/* A graph would use the pages at each launch, whatever they are by then: so its program commits
 * them before, and decommits them behind all launches. */
static mend_result check_capture(mend_pool *pool, const char *call, mend_stream stream)
{
    mend_order order = {.stream = stream};
    mend_result result = mend_pool_find_capture(pool, stream, &order.capture);
    return result == MEND_OK && order.capture != 0
               ? mend_fail(MEND_ERROR_CAPTURING,
                           "%s: the stream is being captured; commit pages before the capture, "
                           "and decommit them after the graph's launches",
                           call)
               : result;
}

/* ---- commit ---------------------------------------------------------------------------------- */

/* The pages that hold any of these bytes. */
static mend_part pages_around(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes)
{
    const uint64_t page = range->page_bytes;
    const uint64_t last = (offset_bytes + size_bytes - 1) / page;
    return (mend_part){range, range->address + offset_bytes / page * page,
                       range->address + (last + 1) * page};
}

static int compare_parts(const void *first, const void *second)
{
    return mend_compare_u64(((const mend_part *)first)->from, ((const mend_part *)second)->from);
}

static mend_range_part given_part(const mend_range_part *given, size_t part_bytes, size_t at)
{
    mend_range_part part;
    mend_element_read(&part, sizeof(part), given, part_bytes, at);
    return part;
}

mend_result mend_range_commit_all(const mend_range_part *given, size_t part_bytes,
                                  size_t part_count, mend_stream stream)
{
    const char *call = "mend_range_commit";
    MEND_INVALID_IF((given == NULL && part_count > 0) ||
                        !mend_struct_size_is_whole(part_bytes, sizeof(mend_range_part)),
                    "mend_range_commit_all: parts is NULL, or part_bytes is not "
                    "sizeof(mend_range_part)");
    if (part_count == 0) {
        return MEND_OK;
    }
    mend_pool *pool = NULL;
    for (size_t i = 0; i < part_count; i++) {
        const mend_range_part part = given_part(given, part_bytes, i);
        MEND_TRY(check_bytes(call, part.range, part.offset_bytes, part.size_bytes, stream));
        MEND_INVALID_IF(pool != NULL && part.range->pool != pool,
                        "mend_range_commit_all: the ranges are of several pools");
        pool = part.range->pool;
    }
    MEND_TRY(check_capture(pool, call, stream));
    mend_part *parts = calloc(part_count, sizeof(*parts));
    if (parts == NULL) {
        return mend_publish(mend_no_host_memory("parts of ranges"));
    }
    for (size_t i = 0; i < part_count; i++) {
        const mend_range_part part = given_part(given, part_bytes, i);
        parts[i] = pages_around(part.range, part.offset_bytes, part.size_bytes);
    }
    qsort(parts, part_count, sizeof(*parts), compare_parts);
    size_t count = 1; /* without parts of one range that touch the one before */
    for (size_t i = 1; i < part_count; i++) {
        mend_part *last = &parts[count - 1];
        if (parts[i].from <= last->end) { /* ranges touch none */
            assert(parts[i].range == last->range);
            last->end = mend_max_u64(last->end, parts[i].end);
        } else {
            parts[count++] = parts[i];
        }
    }
    mend_result result = mend_pool_take(pool);
    if (result == MEND_OK) {
        const mend_parts pages = {parts, count};
        result = mend_pool_leave(pool, mend_parts_commit(&pool->heap, &pages, stream));
    }
    free(parts);
    return result;
}

mend_result mend_range_commit(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                              mend_stream stream)
{
    const mend_range_part part = {range, offset_bytes, size_bytes};
    return mend_range_commit_all(&part, sizeof(part), 1, stream);
}

/* ---- decommit -------------------------------------------------------------------------------- */

/* Visits the committed pages between two addresses. */
#define COMMITTED_EACH(span, range, from, end)                                                     \
    for (uint64_t at_ = (from); at_ < (end) && (range)->committed_bytes > 0;                       \
         at_ += (range)->page_bytes)                                                               \
        for (mend_span *span = (range)->pages[mend_range_page_of(range, at_)]; span != NULL;       \
             span = NULL)

/* Each page keeps its span, and neighbors are one run. Over frozen chunks it is cut at their
 * edges. It has the stamp of its memory. */
static bool reserve_decommit(mend_heap *heap, const mend_range *range, uint64_t from, uint64_t end)
{
    const bool any_frozen = heap->chunks.frozen_count > 0;
    mend_layout_promise nodes = {0};
    uint64_t behind = 0;
    COMMITTED_EACH(span, range, from, end) {
        const size_t parts = any_frozen ? mend_layout_count_chunks(heap, span) : 1;
        const size_t waits = mend_waits_count_others(&span->waits) + 1;
        nodes.waits += any_frozen ? (1 + 2 * parts) * waits : span->waits.first.epoch != 0;
        nodes.spans += any_frozen ? 2 * parts : 0;
        nodes.runs += any_frozen ? parts + 2 : span->address != behind;
        behind = mend_span_end(span);
    }
    return mend_layout_reserve_these(heap, &nodes);
}

/* The stream is found and the nodes are reserved, which may fail. Then page after page is free
 * memory again, idle after the waits of its span, which cannot. Fences come last, because they
 * release `state`. */
static mend_result decommit_pages(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                                  mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    mend_block_users users = {MEND_STREAM_UNKNOWN, MEND_STREAM_UNKNOWN};
    if (stream != MEND_NO_STREAM) {
        mend_result result = mend_users_find_stream(heap, stream, 0, &users.first);
        MEND_TRY(mend_block_go_without_users(heap, result, &users));
    }
    if (!reserve_decommit(heap, range, from, end)) {
        return mend_no_host_memory("pages of a range");
    }
    const uint64_t of_users_before = heap->frees.of_users;
    mend_page_stretch stretch = {.kind = MEND_EVENT_DECOMMIT, .stream = stream};
    bool any = false;
    COMMITTED_EACH(span, range, from, end) {
        if (span->is_exported) {
            MEND_FEATURES_CALL(block_ends, heap, span);
        }
        mend_block_stamp(heap, span, users.first);
        mend_range_note_page(heap, &stretch, span);
        assert(span->size_bytes == range->page_bytes);
        range->pages[mend_range_page_of(range, span->address)] = NULL;
        range->committed_bytes -= range->page_bytes;
        mend_layout_count_free(heap, &heap->zones[span->zone], span);
        mend_layout_free(heap, span);
        mend_usage_note(heap);
        any = true;
    }
    mend_range_note_last(heap, &stretch);
    if (any) {
        mend_block_record_fences(heap, users.first, of_users_before);
    }
    if (heap->chunks.deferred.count[MEND_DEFERRED_END] > 0) {
        mend_retry_ends(heap);
    }
    return MEND_OK;
}

/* Of the pages that hold only these bytes. Bytes beyond the requested size do not count. */
mend_result mend_range_decommit(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                                mend_stream stream)
{
    const char *call = "mend_range_decommit";
    MEND_TRY(check_bytes(call, range, offset_bytes, size_bytes, stream));
    MEND_TRY(check_capture(range->pool, call, stream));
    MEND_TRY(mend_pool_take_to_free(range->pool));
    mend_pool *pool = range->pool;
    const uint64_t page = range->page_bytes;
    const uint64_t end = offset_bytes + size_bytes;
    const uint64_t from = range->address + (offset_bytes + page - 1) / page * page;
    const uint64_t to =
        end >= range->requested_bytes ? mend_range_end(range) : range->address + end / page * page;
    return mend_pool_leave(pool, from < to ? decommit_pages(&pool->heap, range, from, to, stream)
                                           : MEND_OK);
}

static mend_result record_pages(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                                mend_stream stream)
{
    assert(mend_mutex_is_held(&heap->state));
    uint32_t user = MEND_STREAM_UNKNOWN;
    MEND_TRY(mend_users_find_stream(heap, stream, 0, &user));
    size_t count = 0;
    COMMITTED_EACH(span, range, from, end) {
        MEND_TRY(mend_heap_check_awake(heap, span->address, span->size_bytes,
                                       "mend_range_record_stream"));
        count++;
    }
    if (!mend_slab_reserve(mend_heap_wait_env(heap).nodes, count)) {
        return mend_no_host_memory("pages of a range");
    }
    COMMITTED_EACH(span, range, from, end) {
        MEND_TRY(mend_block_add_user(heap, span, user));
    }
    return MEND_OK;
}

mend_result mend_range_record_stream(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                                     mend_stream stream)
{
    const char *call = "mend_range_record_stream";
    MEND_TRY(check_bytes(call, range, offset_bytes, size_bytes, stream));
    MEND_INVALID_IF(stream == MEND_NO_STREAM, "mend_range_record_stream: MEND_NO_STREAM");
    MEND_TRY(check_capture(range->pool, call, stream));
    MEND_TRY(mend_pool_take(range->pool));
    mend_pool *pool = range->pool;
    const mend_part part = pages_around(range, offset_bytes, size_bytes);
    return mend_pool_leave(pool, record_pages(&pool->heap, range, part.from, part.end, stream));
}

/* Whether a chunk below the range is pinned, for more than the export of its page. A page is in one
 * export at most, and a chunk in one page. */
static bool is_pinned(const mend_heap *heap, const mend_range *range)
{
    bool any = false;
    const mend_chunk *chunk =
        heap->chunks.pinned_bytes > 0 ? mend_chunk_from(&heap->chunks, range->address) : NULL;
    for (; chunk != NULL && chunk->address < mend_range_end(range);
         chunk = mend_chunk_next(chunk)) {
        const mend_span *page = range->pages[mend_range_page_of(range, chunk->address)];
        any = any || chunk->pins != (page != NULL && page->is_exported);
    }
    return any;
}

static mend_result destroy(mend_heap *heap, mend_range *range, mend_stream stream)
{
    mend_driver_scope scope;
    assert(mend_mutex_is_held(&heap->grow));
    if (is_pinned(heap, range)) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "the range 0x%lx has pinned memory: undo its pins (mend_unpin) "
                            "before it is destroyed",
                            range->address);
    }
    MEND_TRY(decommit_pages(heap, range, range->address, mend_range_end(range), stream));
    range->is_closed = true;
    mend_defer(&heap->chunks.deferred, &range->deferred, MEND_DEFERRED_RANGE, range->address);
    if (mend_enter(heap, &scope) == MEND_OK) {
        mend_retry_these(heap, MEND_DEFERRED_RANGE, MEND_DEFERRED_RANGE, MEND_STREAM_UNKNOWN);
        mend_driver_scope_close(heap, &scope);
    }
    return MEND_OK;
}

mend_result mend_range_destroy(mend_range *range, mend_stream stream)
{
    if (range == NULL) {
        return MEND_OK;
    }
    MEND_INVALID_IF(stream == MEND_EVERY_STREAM, "mend_range_destroy: stream is MEND_EVERY_STREAM");
    mend_pool *pool = range->pool;
    MEND_TRY(check_capture(pool, "mend_range_destroy", stream));
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, destroy(&pool->heap, range, stream));
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The addresses of growable ranges: reserved when a range is created, and freed when nothing is
 * mapped there any more. A range that the program has destroyed is closed: its memory is free, and
 * leaves when it is idle. Until then requests may move its chunks away. */

void mend_ranges_clear(mend_heap *heap)
{
    mend_tree_node *at;
    while ((at = mend_tree_first(&heap->ranges.by_address)) != NULL) {
        drop(heap, RANGE_OF(at));
    }
}

/* Its idle memory is unmapped. When it is empty, its addresses are freed. */
void mend_ranges_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking)
{
    mend_range *range = MEND_CONTAINER_OF(deferred, mend_range, deferred);
    mend_trim_between(heap, range->address, mend_range_end(range), asking);
    if (mend_space_disown(&heap->range_space, range->address)) {
        drop(heap, range);
    }
}

void mend_ranges_statistics(const mend_heap *heap, mend_stats *stats)
{
    const mend_zone_counters *pages = &heap->zones[MEND_ZONE_RANGE].counters;
    assert(heap->ranges.by_address.count >= heap->chunks.deferred.count[MEND_DEFERRED_RANGE]);
    stats->ranges =
        heap->ranges.by_address.count - heap->chunks.deferred.count[MEND_DEFERRED_RANGE];
    if (heap->chunks.missing_count > 0) { /* committed pages without a mapping, by a failed sleep */
        const mend_span *last = NULL;
        MEND_TREE_EACH(const mend_chunk, chunk, by_address, &heap->chunks.mapped) {
            const bool is_missing =
                chunk->zone == MEND_ZONE_RANGE && mend_chunk_misses_mapping(chunk);
            const mend_span *page = is_missing ? page_at(heap, chunk->address) : NULL;
            stats->unmapped_blocks += page != NULL && page != last;
            last = page != NULL ? page : last;
        }
    }
    stats->range_free_bytes = mend_heap_free_in(heap, MEND_ZONE_RANGE);
    stats->range_bytes = pages->live_bytes;
    stats->peak_range_bytes = pages->peak_live_bytes;
    stats->range_address_bytes = heap->range_space.address_bytes;
    stats->pages_committed = pages->allocations;
    stats->pages_decommitted = pages->allocations - pages->live_blocks;
}
