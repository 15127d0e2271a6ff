/* The operations of graph pools, callbacks and pools, and the rest. Each keeps the rules of
 * mend.h. */
#include "base/align.h"
#include "driver/driver.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_range.h"
#include "tests/interleave/arena.h"
#include "tests/support/place.h"

/* ---- graph pools ----------------------------------------------------------------------------- */

static void begin_graph_pool(arena *a, const program_op *op)
{
    arena_graph_pool *graph_pool = &a->graph_pools[op->graph_pool];
    int pool = graph_pool->graph_pool != NULL ? graph_pool->pool : op->pool;
    if (graph_pool->is_busy || graph_pool->is_begun || a->pools[pool].pool == NULL) {
        arena_skip(a);
        return;
    }
    arena_enter_stream(a, op->stream);
    graph_pool->is_busy = true;
    graph_pool->pool = pool;
    arena_enter_pool(a, pool);
    mend_result result = MEND_OK;
    if (graph_pool->graph_pool == NULL) {
        result = mend_graph_pool_create(a->pools[pool].pool, &graph_pool->graph_pool);
        arena_expect(a, "graph_pool_create", result, false);
    }
    if (result == MEND_OK) {
        mend_stream stream = op->bytes % 4 == 0 ? MEND_EVERY_STREAM : a->streams[op->stream].handle;
        result = mend_graph_pool_begin(graph_pool->graph_pool, stream);
        arena_expect(a, "graph_pool_begin", result, false);
        graph_pool->is_begun = result == MEND_OK;
    }
    arena_leave_pool(a, pool);
    arena_leave_stream(a, op->stream);
    graph_pool->is_busy = false;
}

static void end_graph_pool(arena *a, const program_op *op)
{
    arena_graph_pool *graph_pool = &a->graph_pools[op->graph_pool];
    if (graph_pool->is_busy || !graph_pool->is_begun) {
        arena_skip(a);
        return;
    }
    graph_pool->is_busy = true;
    arena_enter_pool(a, graph_pool->pool);
    mend_result result = mend_graph_pool_end(graph_pool->graph_pool);
    arena_expect(a, "graph_pool_end", result, false);
    graph_pool->is_begun = result != MEND_OK;
    arena_leave_pool(a, graph_pool->pool);
    graph_pool->is_busy = false;
}

/* For a named stream, all work on blocks that were freed in the graph pool must precede this point:
 * it waits for all others, and no block of it is freed until the release is over. */
static bool is_freed_in(const arena *a, const arena_graph_pool *graph_pool)
{
    bool is = false;
    for (int i = 0; i < PROGRAM_SLOTS; i++) {
        is |= a->slots[i].is_busy && a->slots[i].graph_pool == graph_pool->graph_pool;
    }
    return is;
}

static void release_graph_pool(arena *a, const program_op *op)
{
    arena_graph_pool *graph_pool = &a->graph_pools[op->graph_pool];
    bool is_behind = op->bytes % 2 != 0;
    if (graph_pool->is_busy || graph_pool->is_begun || graph_pool->graph_pool == NULL ||
        graph_pool->users > 0 || (is_behind && is_freed_in(a, graph_pool))) {
        arena_skip(a);
        return;
    }
    graph_pool->is_busy = true;
    graph_pool->is_going = is_behind;
    arena_enter_stream(a, op->stream);
    arena_enter_pool(a, graph_pool->pool);
    mend_stream stream = is_behind ? a->streams[op->stream].handle : MEND_NO_STREAM;
    for (int i = 0; is_behind && i < PROGRAM_STREAMS; i++) {
        arena_stream_waits(a, op->stream, i);
    }
    mend_result result = mend_graph_pool_destroy(graph_pool->graph_pool, stream);
    arena_expect(a, "graph_pool_release", result, false);
    for (int i = 0; i < PROGRAM_SLOTS && result == MEND_OK; i++) {
        arena_slot *slot = &a->slots[i];
        slot->graph_pool = slot->graph_pool == graph_pool->graph_pool ? NULL : slot->graph_pool;
    }
    graph_pool->graph_pool = result == MEND_OK ? NULL : graph_pool->graph_pool;
    arena_leave_pool(a, graph_pool->pool);
    arena_leave_stream(a, op->stream);
    graph_pool->is_busy = graph_pool->is_going = false;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static int press(void *context, mend_pool *pool, uint64_t needed_bytes)
{
    arena_callback *callback = context;
    arena *a = callback->arena;
    (void)needed_bytes;
    if (!callback->is_added) {
        arena_find(a, "callback %d was called after its removal", callback->number);
    }
    if (pool != a->pools[0].pool) {
        arena_find(a, "callback %d was called for a pool it was not added to", callback->number);
    }
    uint64_t before = a->outcome->skipped;
    const program_list *list = &a->program->in_callback[callback->number];
    arena_do_all(a, list);
    return a->outcome->skipped < before + (uint64_t)list->count;
}

static void add_callback(arena *a, const program_op *op)
{
    arena_callback *callback = &a->callbacks[op->callback];
    if (callback->is_added || callback->is_busy) {
        arena_skip(a);
        return;
    }
    callback->is_busy = true;
    callback->is_added = true;
    mend_pool *pool = arena_enter_pool(a, 0);
    mend_result result = mend_add_pressure_callback(pool, press, callback);
    arena_expect(a, "add_pressure_callback", result, false);
    arena_leave_pool(a, 0);
    callback->is_busy = false;
}

static void remove_callback(arena *a, const program_op *op)
{
    arena_callback *callback = &a->callbacks[op->callback];
    if (!callback->is_added || callback->is_busy) {
        arena_skip(a);
        return;
    }
    callback->is_busy = true;
    mend_pool *pool = arena_enter_pool(a, 0);
    mend_result result = mend_remove_pressure_callback(pool, press, callback);
    arena_expect(a, "remove_pressure_callback", result, false);
    callback->is_added = false;
    arena_leave_pool(a, 0);
    callback->is_busy = false;
}

/* ---- pools ----------------------------------------------------------------------------------- */

bool arena_open_pool(arena *a, int pool)
{
    const program *p = a->program;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(a->sim);
    config.address_reservation_bytes = 64 * MEND_MIB;
    config.limit_bytes = p->limit_bytes;
    config.detect_destroyed_streams = p->may_vanish;
    config.allow_stream_waits = p->may_not_wait ? -1 : 0;
    mend_pool *created = NULL;
    mend_result result = mend_pool_create(&config, &created);
    if (result == MEND_OK) {
        mend_test_place(created, &(mend_test_sizes){.chunk_bytes = ARENA_CHUNK_BYTES,
                                                    .small_chunk_bytes = ARENA_PAGE_BYTES,
                                                    .unfenced_bytes = p->unfenced_bytes,
                                                    .small_request_bytes = 8 * MEND_KIB});
    }
    arena_expect(a, "pool_create", result, false);
    a->pools[pool].pool = result == MEND_OK ? created : NULL;
    return result == MEND_OK;
}

static void create_pool(arena *a, const program_op *op)
{
    arena_pool *pool = &a->pools[op->pool];
    if (op->pool == 0 || pool->pool != NULL || pool->users > 0) {
        arena_skip(a);
        return;
    }
    pool->users++;
    a->has_peer_pools = true;
    arena_open_pool(a, op->pool);
    pool->users--;
}

static void drop_what_is_in(arena *a, int pool)
{
    for (int i = 0; i < PROGRAM_SLOTS; i++) {
        if (a->slots[i].pool == pool) {
            a->slots[i].pointer = NULL;
        }
    }
    for (int i = 0; i < PROGRAM_GRAPH_POOLS; i++) {
        if (a->graph_pools[i].graph_pool != NULL && a->graph_pools[i].pool == pool) {
            a->graph_pools[i] = (arena_graph_pool){0};
        }
    }
}

static void destroy_pool(arena *a, const program_op *op)
{
    arena_pool *pool = &a->pools[op->pool];
    if (op->pool == 0 || pool->pool == NULL || pool->users > 0) {
        arena_skip(a);
        return;
    }
    mend_pool *gone = pool->pool;
    pool->pool = NULL;
    pool->users++;
    drop_what_is_in(a, op->pool);
    mend_result result = mend_pool_destroy(gone);
    a->has_lost_memory = a->has_lost_memory || result != MEND_OK;
    arena_expect(a, "pool_destroy", result, false);
    pool->users--;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* An operation on a pool, where that is there. */
#define IN_A_POOL(name)                                                                            \
    static void name(arena *a, const program_op *op)                                               \
    {                                                                                              \
        mend_pool *pool = arena_enter_pool(a, op->pool);                                           \
        if (pool == NULL) {                                                                        \
            arena_skip(a);                                                                         \
        } else {                                                                                   \
            name##_in(a, pool, op);                                                                \
            arena_leave_pool(a, op->pool);                                                         \
        }                                                                                          \
    }

static void room_in(arena *a, mend_pool *pool, const program_op *op)
{
    if (op->kind == PROGRAM_COMPACT) {
        a->quiet_calls++;
        arena_expect(a, "compact", mend_compact(pool, NULL, NULL), false);
        a->quiet_calls--;
    } else if (op->kind == PROGRAM_TRIM) {
        mend_result result = op->bytes % 2 == 1 ? mend_trim(pool, op->bytes, MEND_TRIM_WAIT, NULL)
                                                : mend_trim(pool, op->bytes, MEND_TRIM_IDLE, NULL);
        arena_expect(a, "trim", result, false);
    } else if (op->kind == PROGRAM_SET_LIMIT) {
        arena_expect(a, "set_limit", mend_set_limit(pool, op->bytes), false);
    } else {
        mend_result result = mend_validate(pool);
        if (result != MEND_OK) {
            mend_error error = MEND_ERROR_INIT;
            mend_get_last_error(&error);
            arena_find(a, "mend_validate: %s", error.message);
        }
    }
}
IN_A_POOL(room)

static void look_in(arena *a, mend_pool *pool, const program_op *op)
{
    mend_stats stats = MEND_STATS_INIT;
    arena_expect(a, "get_stats", mend_get_stats(pool, &stats), false);
    if (stats.live_bytes + stats.free_bytes != stats.reserved_bytes + stats.asleep_live_bytes) {
        arena_find(a, "get_stats: live and free are not what is reserved");
    }
    arena_slot *slot = &a->slots[op->slot];
    if (slot->pointer != NULL && !slot->is_busy && slot->pool == op->pool) {
        slot->users++;
        mend_block_info info = MEND_BLOCK_INFO_INIT;
        arena_expect(a, "get_block_info", mend_get_block_info(pool, slot->pointer, &info), false);
        if (info.base != slot->pointer || info.requested_bytes != slot->size_bytes) {
            arena_find(a, "get_block_info: another block");
        }
        slot->users--;
    }
    arena_expect(a, "reset_peak_stats", mend_reset_peak_stats(pool), false);
}
IN_A_POOL(look)

/* Begins or ends a history, and reads its events. Blocks come and go meanwhile. */
static void tell_in(arena *a, mend_pool *pool, const program_op *op)
{
    enum { EVENTS = 16 };
    mend_history_event events[EVENTS];
    mend_region regions[EVENTS];
    uint64_t cursor = 0;
    size_t count = 0;
    uint64_t capacity = op->bytes % 3 == 0 ? 0 : op->bytes % 64 + 1;
    arena_expect(a, "history_start", mend_history_start(pool, capacity), false);
    do {
        const uint64_t before = cursor;
        mend_result result =
            mend_history_read(pool, &cursor, events, sizeof(*events), EVENTS, &count);
        arena_expect(a, "history_read", result, false);
        for (size_t i = 0; i < count; i++) {
            if (events[i].sequence <= (i > 0 ? events[i - 1].sequence : before - (before > 0))) {
                arena_find(a, "history_read: events are out of order");
            }
        }
    } while (count == EVENTS);
    mend_result result = mend_get_regions(pool, regions, sizeof(*regions), EVENTS, &count);
    arena_expect(a, "get_regions", result, false);
    for (size_t i = 1; i < count && count <= EVENTS; i++) {
        if ((char *)regions[i - 1].address + regions[i - 1].size_bytes >
            (char *)regions[i].address) {
            arena_find(a, "get_regions: two overlap");
        }
    }
}
IN_A_POOL(tell)

/* Between the two calls other threads compact, trim and move unpinned memory. */
static void pin_in(arena *a, mend_pool *pool, const program_op *op)
{
    arena_slot *slot = &a->slots[op->slot];
    if (slot->pointer != NULL && !slot->is_busy && slot->pool == op->pool) {
        slot->users++;
        uint64_t bytes = slot->size_bytes;
        mend_result result = mend_pin(pool, slot->pointer, bytes);
        arena_expect(a, "pin", result, a->has_slept && result == MEND_ERROR_ASLEEP);
        mend_stats stats = MEND_STATS_INIT;
        arena_expect(a, "get_stats", mend_get_stats(pool, &stats), false);
        if (result == MEND_OK && stats.pinned_bytes < bytes) {
            arena_find(a, "pin: less is pinned than was asked for");
        }
        if (result == MEND_OK) {
            arena_expect(a, "unpin", mend_unpin(pool, slot->pointer, bytes), false);
        }
        slot->users--;
    }
}
IN_A_POOL(pin)

/* Other threads allocate and free meanwhile, and take the memory before it wakes. */
static void sleep_in(arena *a, mend_pool *pool, const program_op *op)
{
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    options.skip_pinned = 1;
    options.keep_free = (int)(op->bytes % 3);
    a->quiet_calls++;
    a->has_slept = true;
    mend_result result = mend_sleep(pool, &options, NULL);
    arena_expect(a, "sleep", result, result == MEND_ERROR_ASLEEP);
    result = mend_wake(pool, NULL, 0, NULL);
    arena_expect(a, "wake", result, result == MEND_ERROR_OUT_OF_MEMORY);
    a->quiet_calls--;
}
IN_A_POOL(sleep)

/* Pages of a range come and go while other threads take, trim and move memory. */
static void pages_in(arena *a, mend_pool *pool, const program_op *op)
{
    mend_range *range = NULL;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    const mend_stream stream = a->streams[op->stream].handle;
    arena_enter_stream(a, op->stream);
    mend_result result = mend_range_create(pool, 8 * ARENA_PAGE_BYTES, NULL, &range);
    arena_expect(a, "range_create", result, false);
    for (int i = 0; range != NULL && i < 2; i++) {
        arena_slot page = {.size_bytes = ARENA_PAGE_BYTES << op->bytes % 4, .pool = op->pool};
        result = mend_range_commit(range, 0, page.size_bytes, stream);
        arena_expect(a, "commit", result, result == MEND_ERROR_OUT_OF_MEMORY);
        if (result == MEND_OK && mend_range_get_info(range, &info) == MEND_OK) {
            page.pointer = info.base;
            page.tag = ++a->last_tag;
            arena_launch(a, &page, op->stream, MEND_SIM_WORK_WRITE);
            arena_launch(a, &page, op->stream, MEND_SIM_WORK_VERIFY);
            result = mend_range_decommit(range, 0, page.size_bytes, stream);
            arena_expect(a, "decommit", result, false);
        }
    }
    if (range != NULL) {
        arena_expect(a, "range_destroy", mend_range_destroy(range, stream), false);
    }
    arena_leave_stream(a, op->stream);
}
IN_A_POOL(pages)

static void forget_own_in(arena *a, mend_pool *pool, const program_op *op)
{
    (void)op;
    arena_expect(a, "forget", mend_unregister_stream(pool, MEND_STREAM_PER_THREAD), false);
}
IN_A_POOL(forget_own)

/* Whether just these blocks are live in the graph pool. */
static bool has_blocks(mend_graph_pool *graph_pool, const mend_graph_pool_block *blocks,
                       size_t count)
{
    mend_graph_pool_block now[2];
    size_t now_count = 0;
    bool is_same = mend_graph_pool_checkpoint(graph_pool, now, sizeof(mend_graph_pool_block), 2,
                                              &now_count) == MEND_OK &&
                   now_count == count;
    for (size_t i = 0; i < count && is_same; i++) {
        is_same = now[i].pointer == blocks[i].pointer && now[i].size_bytes == blocks[i].size_bytes;
    }
    return is_same;
}

/* Two blocks of a graph pool of its own are freed, and live again, while other threads use up, trim
 * and move other memory. */
static void restore_blocks(arena *a, mend_pool *pool, mend_graph_pool *graph_pool,
                           const program_op *op)
{
    const mend_stream stream = a->streams[op->stream].handle;
    mend_graph_pool_block blocks[2];
    size_t count = 0;
    void *block = NULL;
    for (int i = 0; i < 2; i++) {
        mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
        options.graph_pool = graph_pool;
        mend_result result = mend_alloc_with(pool, op->bytes, stream, &options, &block);
        arena_expect(a, "alloc_with", result, result == MEND_ERROR_OUT_OF_MEMORY);
    }
    arena_expect(
        a, "get_blocks",
        mend_graph_pool_checkpoint(graph_pool, blocks, sizeof(mend_graph_pool_block), 2, &count),
        false);
    for (size_t i = 0; i < count; i++) {
        arena_expect(a, "graph_pool_free",
                     mend_graph_pool_free(graph_pool, blocks[i].pointer, stream), false);
    }
    mend_result result =
        mend_graph_pool_restore(graph_pool, blocks, sizeof(mend_graph_pool_block), count);
    arena_expect(a, "set_blocks", result, false);
    if (result == MEND_OK && !has_blocks(graph_pool, blocks, count)) {
        arena_find(a, "set_blocks: other blocks are live than were restored");
    }
    arena_expect(a, "set_blocks to none",
                 mend_graph_pool_restore(graph_pool, NULL, sizeof(mend_graph_pool_block), 0),
                 false);
}

static void restore_in(arena *a, mend_pool *pool, const program_op *op)
{
    mend_graph_pool *graph_pool = NULL;
    arena_enter_stream(a, op->stream);
    a->restorations++;
    mend_result result = mend_graph_pool_create(pool, &graph_pool);
    arena_expect(a, "graph_pool_create", result, false);
    if (result == MEND_OK) {
        restore_blocks(a, pool, graph_pool, op);
        result = mend_graph_pool_destroy(graph_pool, MEND_NO_STREAM);
        arena_expect(a, "graph_pool_release", result, false);
    }
    a->restorations--;
    arena_leave_stream(a, op->stream);
}
IN_A_POOL(restore)

static void fail_calls(arena *a, const program_op *op)
{
    static const char *const calls[] = {"create",  "map",     "set_access",   "unmap",
                                        "release", "reserve", "event_record", NULL};
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = calls[op->bytes % 8];
    fault.after_calls = op->bytes / 8 % 4;
    fault.count = 1 + op->bytes / 32 % 3;
    a->has_failed_calls = true;
    mend_sim_fail(a->sim, &fault);
}

static void break_context(arena *a, const program_op *op)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.after_calls = op->bytes % 64;
    fault.status = MEND_DRIVER_ILLEGAL_ADDRESS;
    fault.sticky = 1;
    a->has_failed_calls = a->is_broken = a->has_lost_memory = true;
    mend_sim_fail(a->sim, &fault);
}

static void advance(arena *a, const program_op *op)
{
    mend_sim_advance(a->sim, op->bytes);
}

void arena_do(arena *a, const program_op *op)
{
    static void (*const actions[PROGRAM_KIND_COUNT])(arena *, const program_op *) = {
#define X(kind, act) [PROGRAM_##kind] = act,
        PROGRAM_KINDS(X)
#undef X
    };
    actions[op->kind](a, op);
}

void arena_do_all(arena *a, const program_list *list)
{
    for (int i = 0; i < list->count; i++) {
        arena_do(a, &list->ops[i]);
    }
}
