/* The operations: each keeps the rules of mend.h, whatever the others have come to. */
#include <stdarg.h>
#include <string.h>

#include "base/align.h"
#include "tests/interleave/arena.h"

enum { WORK_NS = 40 };

void arena_find(arena *a, const char *format, ...)
{
    if (a->outcome->finding[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(a->outcome->finding, sizeof(a->outcome->finding), format, arguments);
        va_end(arguments);
    }
}

arena_thread *arena_self(arena *a)
{
    int number = schedule_self();
    return &a->threads[number >= 0 ? number : SCHEDULE_THREADS];
}

/* A call that may fail only where calls of the driver do. */
static void expect(arena *a, const char *call, mend_result result, bool is_fine)
{
    if (result != MEND_OK && !is_fine && !a->has_failed_calls) {
        mend_error error = MEND_ERROR_INIT;
        mend_last_error(&error);
        arena_judge_device(a); /* what broke first */
        arena_find(a, "%s: %s: %s", call, mend_result_name(result), error.message);
    }
}

/* ---- who uses what ------------------------------------------------------------------------------
 */

static mend_pool *enter_pool(arena *a, int pool)
{
    a->pools[pool].users += a->pools[pool].pool != NULL;
    return a->pools[pool].pool;
}

static void leave_pool(arena *a, int pool)
{
    a->pools[pool].users--;
}

static bool enter_stream(arena *a, int stream)
{
    bool is_there = !a->streams[stream].is_going;
    a->streams[stream].users += is_there;
    return is_there;
}

static void leave_stream(arena *a, int stream)
{
    a->streams[stream].users--;
}

static void skip(arena *a)
{
    a->outcome->skipped++;
}

static void launch(arena *a, const arena_slot *slot, int stream, mend_sim_work_kind kind)
{
    mend_sim_work work = {.kind = kind,
                          .address = (uint64_t)(uintptr_t)slot->pointer,
                          .size_bytes = slot->size_bytes,
                          .tag = slot->tag,
                          .finish_ns = mend_sim_now_ns(a->sim) + WORK_NS};
    expect(a, "launch", mend_sim_launch(a->sim, a->streams[stream].handle, &work), false);
}

static void stream_waits(arena *a, int stream, int other)
{
    if (stream != other) {
        expect(a, "stream_wait",
               mend_sim_stream_wait(a->sim, a->streams[stream].handle, a->streams[other].handle),
               false);
    }
}

/* ---- blocks -------------------------------------------------------------------------------------
 */

static void alloc(arena *a, const program_op *op)
{
    arena_slot *slot = &a->slots[op->slot];
    if (slot->pointer != NULL || slot->is_busy || a->is_closed || a->pools[op->pool].pool == NULL ||
        !enter_stream(a, op->stream)) {
        skip(a);
        return;
    }
    slot->is_busy = true;
    arena_thread *self = arena_self(a);
    arena_thread outer = *self;
    *self = (arena_thread){.pool = op->pool};
    mend_pool *pool = enter_pool(a, op->pool);
    void *pointer = NULL;
    mend_result result = mend_alloc(pool, op->bytes, a->streams[op->stream].handle, &pointer);
    if (result == MEND_OK) {
        *slot = (arena_slot){pointer, op->bytes, ++a->last_tag, op->pool, op->stream, true};
        launch(a, slot, op->stream, MEND_SIM_WORK_WRITE);
        a->outcome->allocations++;
    } else if (result == MEND_ERROR_OUT_OF_MEMORY) {
        arena_judge_refusal(a, op->bytes);
        a->outcome->refused++;
    }
    expect(a, "alloc", result, result == MEND_ERROR_OUT_OF_MEMORY);
    *self = outer;
    leave_pool(a, op->pool);
    leave_stream(a, op->stream);
    slot->is_busy = false;
}

/* Takes the slot's block, with the streams, for an operation. */
static arena_slot *enter_slot(arena *a, int number, int stream)
{
    arena_slot *slot = &a->slots[number];
    bool is_there = slot->pointer != NULL && !slot->is_busy && !a->is_closed &&
                    !a->streams[slot->stream].is_going && !a->streams[stream].is_going;
    if (!is_there) {
        skip(a);
        return NULL;
    }
    enter_pool(a, slot->pool);
    enter_stream(a, slot->stream);
    enter_stream(a, stream);
    slot->is_busy = true;
    return slot;
}

static void leave_slot(arena *a, arena_slot *slot, int stream)
{
    leave_stream(a, slot->stream);
    leave_stream(a, stream);
    leave_pool(a, slot->pool);
    slot->is_busy = false;
}

/* Where the pool is to know every stream, it is told of the one that has just verified: it may have
 * been forgotten. */
static void tell_of_stream(arena *a, const arena_slot *slot)
{
    if (a->program->knows_all) {
        expect(a, "record_stream",
               mend_record_stream(a->pools[slot->pool].pool, slot->pointer,
                                  a->streams[slot->stream].handle),
               false);
    }
}

/* A block that could not be freed stays as it was. */
static void free_block(arena *a, const program_op *op, int stream)
{
    arena_slot *slot = enter_slot(a, op->slot, stream);
    if (slot == NULL) {
        return;
    }
    launch(a, slot, slot->stream, MEND_SIM_WORK_VERIFY);
    stream_waits(a, stream, slot->stream);
    mend_stream handle = a->streams[stream].handle;
    if (op->kind == PROGRAM_FREE_ANYWHEN) {
        tell_of_stream(a, slot);
        handle = MEND_NO_STREAM;
    }
    mend_result result = mend_free(a->pools[slot->pool].pool, slot->pointer, handle);
    slot->pointer = result == MEND_OK ? NULL : slot->pointer;
    expect(a, "free", result, false);
    leave_slot(a, slot, stream);
}

static void share(arena *a, const program_op *op)
{
    arena_slot *slot = enter_slot(a, op->slot, op->stream);
    if (slot == NULL) {
        return;
    }
    mend_result result =
        mend_record_stream(a->pools[slot->pool].pool, slot->pointer, a->streams[op->stream].handle);
    if (result == MEND_OK) {
        stream_waits(a, op->stream, slot->stream);
        launch(a, slot, op->stream, MEND_SIM_WORK_VERIFY);
    }
    expect(a, "record_stream", result, false);
    leave_slot(a, slot, op->stream);
}

/* ---- streams ------------------------------------------------------------------------------------
 */

static void forget(arena *a, const program_op *op)
{
    if (a->pools[op->pool].pool == NULL || !enter_stream(a, op->stream)) {
        skip(a);
        return;
    }
    mend_pool *pool = enter_pool(a, op->pool);
    expect(a, "forget", mend_forget_stream(pool, a->streams[op->stream].handle), false);
    leave_pool(a, op->pool);
    leave_stream(a, op->stream);
}

/* All that is queued on the stream that goes comes first on the one that takes its blocks over. */
static void inherit_blocks(arena *a, int from, int to)
{
    stream_waits(a, to, from);
    for (int i = 0; i < PROGRAM_SLOTS; i++) {
        if (a->slots[i].pointer != NULL && a->slots[i].stream == from) {
            a->slots[i].stream = to;
        }
    }
}

static bool forget_everywhere(arena *a, mend_stream handle)
{
    bool is_forgotten = true;
    for (int i = 0; i < PROGRAM_POOLS; i++) {
        mend_pool *pool = enter_pool(a, i);
        if (pool != NULL) {
            mend_result result = mend_forget_stream(pool, handle);
            expect(a, "forget at the end", result, false);
            is_forgotten = is_forgotten && result == MEND_OK;
            leave_pool(a, i);
        }
    }
    return is_forgotten;
}

/* A pool that is being destroyed may still ask about its streams. */
static bool is_any_pool_going(const arena *a)
{
    bool is = false;
    for (int i = 0; i < PROGRAM_POOLS; i++) {
        is = is || (a->pools[i].pool == NULL && a->pools[i].users > 0);
    }
    return is;
}

/* Nobody names it meanwhile. A pool made meanwhile has never seen it. */
static void replace_stream(arena *a, const program_op *op)
{
    arena_stream *stream = &a->streams[op->stream];
    int heir = (op->stream + 1) % PROGRAM_STREAMS;
    if (stream->is_going || stream->users > 0 || is_any_pool_going(a) || !enter_stream(a, heir)) {
        skip(a);
        return;
    }
    stream->is_going = true;
    inherit_blocks(a, op->stream, heir);
    leave_stream(a, heir);
    if (forget_everywhere(a, stream->handle)) {
        expect(a, "stream_destroy", mend_sim_stream_destroy(a->sim, stream->handle), false);
        expect(a, "stream_create", mend_sim_stream_create(a->sim, &stream->handle), false);
    }
    stream->is_going = false;
}

/* ---- groups -------------------------------------------------------------------------------------
 */

static void begin_group(arena *a, const program_op *op)
{
    arena_group *group = &a->groups[op->group];
    int pool = group->group != NULL ? group->pool : op->pool;
    if (group->is_busy || group->is_begun || a->pools[pool].pool == NULL ||
        !enter_stream(a, op->stream)) {
        skip(a);
        return;
    }
    group->is_busy = true;
    group->pool = pool;
    enter_pool(a, pool);
    mend_result result = MEND_OK;
    if (group->group == NULL) {
        result = mend_group_create(a->pools[pool].pool, &group->group);
        expect(a, "group_create", result, false);
    }
    if (result == MEND_OK) {
        mend_stream stream = op->bytes % 4 == 0 ? MEND_EVERY_STREAM : a->streams[op->stream].handle;
        result = mend_group_begin(group->group, stream);
        expect(a, "group_begin", result, false);
        group->is_begun = result == MEND_OK;
    }
    leave_pool(a, pool);
    leave_stream(a, op->stream);
    group->is_busy = false;
}

static void end_group(arena *a, const program_op *op)
{
    arena_group *group = &a->groups[op->group];
    if (group->is_busy || !group->is_begun) {
        skip(a);
        return;
    }
    group->is_busy = true;
    enter_pool(a, group->pool);
    mend_result result = mend_group_end(group->group);
    expect(a, "group_end", result, false);
    group->is_begun = result != MEND_OK;
    leave_pool(a, group->pool);
    group->is_busy = false;
}

/* Of a stream that is named, all use of the group's memory is to come before this point: it waits
 * for all others, and nobody uses any block until the release is over. */
static bool may_release_behind(const arena *a)
{
    bool is_quiet = !a->is_closed;
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        is_quiet = is_quiet && a->streams[i].users == 0 && !a->streams[i].is_going;
    }
    return is_quiet;
}

static void release_group(arena *a, const program_op *op)
{
    arena_group *group = &a->groups[op->group];
    bool is_behind = op->bytes % 2 != 0;
    if (group->is_busy || group->is_begun || group->group == NULL ||
        (is_behind && !may_release_behind(a)) || !enter_stream(a, op->stream)) {
        skip(a);
        return;
    }
    group->is_busy = true;
    enter_pool(a, group->pool);
    mend_stream stream = is_behind ? a->streams[op->stream].handle : MEND_NO_STREAM;
    for (int i = 0; is_behind && i < PROGRAM_STREAMS; i++) {
        stream_waits(a, op->stream, i);
    }
    a->is_closed = a->is_closed || is_behind;
    mend_result result = mend_group_release(group->group, stream);
    expect(a, "group_release", result, false);
    group->group = result == MEND_OK ? NULL : group->group;
    a->is_closed = a->is_closed && !is_behind;
    leave_pool(a, group->pool);
    leave_stream(a, op->stream);
    group->is_busy = false;
}

/* ---- callbacks ----------------------------------------------------------------------------------
 */

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
        skip(a);
        return;
    }
    callback->is_busy = true;
    callback->is_added = true;
    mend_pool *pool = enter_pool(a, 0);
    mend_result result = mend_add_pressure_callback(pool, press, callback);
    expect(a, "add_pressure_callback", result, false);
    leave_pool(a, 0);
    callback->is_busy = false;
}

static void remove_callback(arena *a, const program_op *op)
{
    arena_callback *callback = &a->callbacks[op->callback];
    if (!callback->is_added || callback->is_busy) {
        skip(a);
        return;
    }
    callback->is_busy = true;
    mend_pool *pool = enter_pool(a, 0);
    mend_result result = mend_remove_pressure_callback(pool, press, callback);
    expect(a, "remove_pressure_callback", result, false);
    callback->is_added = false;
    leave_pool(a, 0);
    callback->is_busy = false;
}

/* ---- pools --------------------------------------------------------------------------------------
 */

bool arena_open_pool(arena *a, int pool)
{
    const program *p = a->program;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(a->sim);
    config.chunk_bytes = ARENA_CHUNK_BYTES;
    config.small_chunk_bytes = ARENA_PAGE_BYTES;
    config.small_request_bytes = 8 * MEND_KIB;
    config.reserve_bytes = 64 * MEND_MIB;
    config.limit_bytes = p->limit_bytes;
    config.streams_may_vanish = p->may_vanish;
    config.knows_all_streams = p->knows_all;
    config.allow_stream_waits = p->may_not_wait ? -1 : 0;
    mend_pool *created = NULL;
    mend_result result = mend_pool_create(&config, &created);
    expect(a, "pool_create", result, false);
    a->pools[pool].pool = result == MEND_OK ? created : NULL;
    return result == MEND_OK;
}

static void create_pool(arena *a, const program_op *op)
{
    arena_pool *pool = &a->pools[op->pool];
    if (op->pool == 0 || pool->pool != NULL || pool->users > 0) {
        skip(a);
        return;
    }
    pool->users++;
    a->has_siblings = true;
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
    for (int i = 0; i < PROGRAM_GROUPS; i++) {
        if (a->groups[i].group != NULL && a->groups[i].pool == pool) {
            a->groups[i] = (arena_group){0};
        }
    }
}

static void destroy_pool(arena *a, const program_op *op)
{
    arena_pool *pool = &a->pools[op->pool];
    if (op->pool == 0 || pool->pool == NULL || pool->users > 0) {
        skip(a);
        return;
    }
    mend_pool *gone = pool->pool;
    pool->pool = NULL;
    pool->users++;
    drop_what_is_in(a, op->pool);
    mend_result result = mend_pool_destroy(gone);
    a->has_lost_memory = a->has_lost_memory || result != MEND_OK;
    expect(a, "pool_destroy", result, false);
    pool->users--;
}

/* ---- the rest -----------------------------------------------------------------------------------
 */

static void room(arena *a, const program_op *op)
{
    mend_pool *pool = enter_pool(a, op->pool);
    if (pool == NULL) {
        skip(a);
        return;
    }
    if (op->kind == PROGRAM_TRIM) {
        expect(a, "trim", mend_trim(pool, op->bytes, NULL), false);
    } else if (op->kind == PROGRAM_SET_LIMIT) {
        expect(a, "set_limit", mend_set_limit(pool, op->bytes), false);
    } else {
        mend_result result = mend_audit(pool);
        if (result != MEND_OK) {
            mend_error error = MEND_ERROR_INIT;
            mend_last_error(&error);
            arena_find(a, "mend_audit: %s", error.message);
        }
    }
    leave_pool(a, op->pool);
}

static void look(arena *a, const program_op *op)
{
    mend_pool *pool = enter_pool(a, op->pool);
    if (pool == NULL) {
        skip(a);
        return;
    }
    mend_stats stats = MEND_STATS_INIT;
    expect(a, "get_stats", mend_get_stats(pool, &stats), false);
    if (stats.live_bytes + stats.free_bytes != stats.reserved_bytes) {
        arena_find(a, "get_stats: live and free are not what is reserved");
    }
    arena_slot *slot = &a->slots[op->slot];
    if (slot->pointer != NULL && !slot->is_busy && slot->pool == op->pool) {
        slot->is_busy = true;
        mend_block_info info = MEND_BLOCK_INFO_INIT;
        expect(a, "get_block_info", mend_get_block_info(pool, slot->pointer, &info), false);
        if (info.base != slot->pointer || info.requested_bytes != slot->size_bytes) {
            arena_find(a, "get_block_info: another block");
        }
        slot->is_busy = false;
    }
    expect(a, "reset_peak_stats", mend_reset_peak_stats(pool), false);
    leave_pool(a, op->pool);
}

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

void arena_do(arena *a, const program_op *op)
{
    switch (op->kind) {
    case PROGRAM_ALLOC:
        alloc(a, op);
        break;
    case PROGRAM_FREE:
    case PROGRAM_FREE_ANYWHEN:
        free_block(a, op, a->slots[op->slot].stream);
        break;
    case PROGRAM_FREE_ELSEWHERE:
        free_block(a, op, op->stream);
        break;
    case PROGRAM_SHARE:
        share(a, op);
        break;
    case PROGRAM_FORGET:
        forget(a, op);
        break;
    case PROGRAM_REPLACE_STREAM:
        replace_stream(a, op);
        break;
    case PROGRAM_GROUP_BEGIN:
        begin_group(a, op);
        break;
    case PROGRAM_GROUP_END:
        end_group(a, op);
        break;
    case PROGRAM_GROUP_RELEASE:
        release_group(a, op);
        break;
    case PROGRAM_ADD_CALLBACK:
        add_callback(a, op);
        break;
    case PROGRAM_REMOVE_CALLBACK:
        remove_callback(a, op);
        break;
    case PROGRAM_POOL_CREATE:
        create_pool(a, op);
        break;
    case PROGRAM_POOL_DESTROY:
        destroy_pool(a, op);
        break;
    case PROGRAM_FAIL:
        fail_calls(a, op);
        break;
    case PROGRAM_ADVANCE:
        mend_sim_advance(a->sim, op->bytes);
        break;
    case PROGRAM_LOOK:
        look(a, op);
        break;
    default:
        room(a, op);
        break;
    }
}

void arena_do_all(arena *a, const program_list *list)
{
    for (int i = 0; i < list->count; i++) {
        arena_do(a, &list->ops[i]);
    }
}
