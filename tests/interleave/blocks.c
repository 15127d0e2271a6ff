/* Users of blocks, and the operations of blocks and streams. Each keeps the rules of mend.h,
 * whatever the others have come to. */
#include <stdarg.h>

#include "driver/driver.h"
#include "mend/mend_frameworks.h"
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

/* A call that may fail only where driver calls do. */
void arena_expect(arena *a, const char *call, mend_result result, bool is_fine)
{
    if (result != MEND_OK && !is_fine && !a->has_failed_calls) {
        mend_error error = MEND_ERROR_INIT;
        mend_get_last_error(&error);
        arena_check_device(a); /* the first breach */
        arena_find(a, "%s: %s: %s", call, mend_result_name(result), error.message);
    }
}

/* ---- who uses what --------------------------------------------------------------------------- */

mend_pool *arena_enter_pool(arena *a, int pool)
{
    a->pools[pool].users += a->pools[pool].pool != NULL;
    return a->pools[pool].pool;
}

void arena_leave_pool(arena *a, int pool)
{
    a->pools[pool].users--;
}

void arena_enter_stream(arena *a, int stream)
{
    a->streams[stream].users++;
    a->streams[stream].named++;
}

void arena_leave_stream(arena *a, int stream)
{
    a->streams[stream].users--;
}

void arena_skip(arena *a)
{
    a->outcome->skipped++;
}

static bool sleeps(arena *a, const arena_slot *slot)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    return a->has_slept &&
           mend_get_block_info(a->pools[slot->pool].pool, slot->pointer, &info) == MEND_OK &&
           info.is_asleep;
}

void arena_launch(arena *a, arena_slot *slot, int stream, mend_sim_work_kind kind)
{
    if (sleeps(a, slot) || a->quiet_calls > 0 || slot->tag == 0) {
        slot->tag = kind == MEND_SIM_WORK_WRITE ? 0 : slot->tag;
        return;
    }
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = kind,
                          .address = (uint64_t)(uintptr_t)slot->pointer,
                          .size_bytes = slot->size_bytes,
                          .tag = slot->tag,
                          .finish_ns = mend_sim_now_ns(a->sim) + WORK_NS};
    arena_expect(a, "launch", mend_sim_launch(a->sim, a->streams[stream].handle, &work), false);
}

void arena_stream_waits(arena *a, int stream, int other)
{
    if (stream != other) {
        arena_expect(
            a, "stream_wait",
            mend_sim_stream_wait(a->sim, a->streams[stream].handle, a->streams[other].handle),
            false);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The one that an operation names. NULL: none. */
static bool enter_graph_pool(arena_graph_pool *named, int pool)
{
    bool is_there =
        named == NULL || (named->graph_pool != NULL && named->pool == pool && !named->is_busy);
    if (named != NULL) {
        named->users += is_there;
    }
    return is_there;
}

static void leave_graph_pool(arena_graph_pool *named)
{
    if (named != NULL) {
        named->users--;
    }
}

void arena_alloc(arena *a, const program_op *op)
{
    arena_slot *slot = &a->slots[op->slot];
    arena_graph_pool *named = op->kind == PROGRAM_ALLOC_IN ? &a->graph_pools[op->graph_pool] : NULL;
    const int number = named != NULL ? named->pool : op->pool;
    if (slot->pointer != NULL || slot->is_busy || a->pools[number].pool == NULL ||
        !enter_graph_pool(named, number)) {
        arena_skip(a);
        return;
    }
    arena_enter_stream(a, op->stream);
    slot->is_busy = true;
    arena_thread *self = arena_self(a);
    arena_thread outer = *self;
    *self = (arena_thread){.pool = number};
    mend_pool *pool = arena_enter_pool(a, number);
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.graph_pool = named != NULL ? named->graph_pool : NULL;
    void *pointer = NULL;
    mend_stream handle =
        op->kind == PROGRAM_ALLOC_ANYWHERE ? MEND_NO_STREAM : a->streams[op->stream].handle;
    mend_result result = named == NULL
                             ? mend_alloc(pool, op->bytes, handle, &pointer)
                             : mend_alloc_with(pool, op->bytes, handle, &options, &pointer);
    if (result == MEND_OK) {
        mend_block_info info = MEND_BLOCK_INFO_INIT;
        *slot = (arena_slot){.pointer = pointer,
                             .size_bytes = op->bytes,
                             .tag = ++a->last_tag,
                             .pool = number,
                             .stream = op->stream,
                             .is_busy = true};
        arena_launch(a, slot, op->stream, MEND_SIM_WORK_WRITE);
        arena_expect(a, "get_block_info", mend_get_block_info(pool, pointer, &info), false);
        slot->graph_pool = info.graph_pool;
        a->outcome->allocations++;
    } else if (result == MEND_ERROR_OUT_OF_MEMORY) {
        arena_check_refusal(a, op->bytes);
        a->outcome->refused++;
    }
    arena_expect(a, "alloc", result, result == MEND_ERROR_OUT_OF_MEMORY);
    *self = outer;
    leave_graph_pool(named);
    arena_leave_pool(a, number);
    arena_leave_stream(a, op->stream);
    slot->is_busy = false;
}

/* All work on blocks that are freed in a graph pool comes before its end. */
static bool is_in_graph_pool_that_goes(const arena *a, const arena_slot *slot)
{
    bool goes = false;
    for (int i = 0; i < PROGRAM_GRAPH_POOLS; i++) {
        goes |= a->graph_pools[i].is_going && a->graph_pools[i].graph_pool == slot->graph_pool;
    }
    return goes;
}

/* Takes the slot's block, with the streams, for an operation: alone, if it frees the block. */
static arena_slot *enter_slot(arena *a, int number, int stream, bool frees)
{
    arena_slot *slot = &a->slots[number];
    if (slot->pointer == NULL || slot->is_busy ||
        (frees && (slot->users > 0 || is_in_graph_pool_that_goes(a, slot)))) {
        arena_skip(a);
        return NULL;
    }
    arena_enter_pool(a, slot->pool);
    arena_enter_stream(a, slot->stream);
    arena_enter_stream(a, stream);
    slot->users++;
    slot->is_busy = frees;
    return slot;
}

static void leave_slot(arena *a, arena_slot *slot, int stream)
{
    arena_leave_stream(a, slot->stream);
    arena_leave_stream(a, stream);
    arena_leave_pool(a, slot->pool);
    slot->users--;
    slot->is_busy = false;
}

/* A block that could not be freed stays as it was. */
void arena_free(arena *a, const program_op *op)
{
    const int stream = op->kind == PROGRAM_FREE_ELSEWHERE ? op->stream : a->slots[op->slot].stream;
    arena_graph_pool *named = op->kind == PROGRAM_FREE_IN ? &a->graph_pools[op->graph_pool] : NULL;
    arena_slot *slot = enter_slot(a, op->slot, stream, true);
    if (slot == NULL) {
        return;
    }
    named = enter_graph_pool(named, slot->pool) ? named : NULL;
    arena_launch(a, slot, slot->stream, MEND_SIM_WORK_VERIFY);
    arena_stream_waits(a, stream, slot->stream);
    mend_stream handle = a->streams[stream].handle;
    if (op->kind == PROGRAM_FREE_BY_THREAD) {
        arena_expect(a, "stream_wait", mend_sim_stream_wait(a->sim, MEND_STREAM_PER_THREAD, handle),
                     false);
        handle = MEND_STREAM_PER_THREAD;
    }
    if (op->kind == PROGRAM_FREE_ANYWHEN) {
        handle = MEND_NO_STREAM;
    }
    slot->graph_pool = named != NULL ? named->graph_pool : slot->graph_pool;
    mend_result result = named != NULL
                             ? mend_graph_pool_free(named->graph_pool, slot->pointer, handle)
                             : mend_free(a->pools[slot->pool].pool, slot->pointer, handle);
    slot->pointer = result == MEND_OK ? NULL : slot->pointer;
    arena_expect(a, "free", result, false);
    leave_graph_pool(named);
    leave_slot(a, slot, stream);
}

void arena_share(arena *a, const program_op *op)
{
    arena_slot *slot = enter_slot(a, op->slot, op->stream, false);
    if (slot == NULL) {
        return;
    }
    slot->declared |= UINT32_C(1) << op->stream;
    mend_result result =
        mend_record_stream(a->pools[slot->pool].pool, slot->pointer, a->streams[op->stream].handle);
    if (result == MEND_OK) {
        arena_stream_waits(a, op->stream, slot->stream);
        arena_launch(a, slot, op->stream, MEND_SIM_WORK_VERIFY);
    }
    arena_expect(a, "record_stream", result, a->has_slept && result == MEND_ERROR_ASLEEP);
    leave_slot(a, slot, op->stream);
}

/* ---- streams --------------------------------------------------------------------------------- */

void arena_forget(arena *a, const program_op *op)
{
    mend_pool *pool = arena_enter_pool(a, op->pool);
    if (pool == NULL) {
        arena_skip(a);
        return;
    }
    arena_enter_stream(a, op->stream);
    arena_expect(a, "forget", mend_unregister_stream(pool, a->streams[op->stream].handle), false);
    arena_leave_pool(a, op->pool);
    arena_leave_stream(a, op->stream);
}

/* All that is queued on the stream that goes comes first on the one that takes its blocks over. */
static void inherit_blocks(arena *a, int from, int to)
{
    arena_stream_waits(a, to, from);
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
        mend_pool *pool = arena_enter_pool(a, i);
        if (pool != NULL) {
            mend_result result = mend_unregister_stream(pool, handle);
            arena_expect(a, "forget at the end", result, false);
            is_forgotten = is_forgotten && result == MEND_OK;
            arena_leave_pool(a, i);
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

/* Streams that were declared for a live block, or that a graph pool may have taken, do not vanish.
 */
static bool may_vanish(const arena *a, int stream)
{
    bool may = a->program->may_vanish;
    for (int i = 0; i < PROGRAM_SLOTS; i++) {
        may = may && (a->slots[i].pointer == NULL || (a->slots[i].declared >> stream & 1) == 0);
    }
    for (int i = 0; i < PROGRAM_GRAPH_POOLS; i++) {
        may = may && !a->graph_pools[i].is_begun && !a->graph_pools[i].is_busy;
    }
    return may;
}

/* Other threads name it while the pools forget it. Then it lives on, as they may know it again. */
void arena_replace_stream(arena *a, const program_op *op)
{
    arena_stream *stream = &a->streams[op->stream];
    const bool is_alone = stream->users == 0;
    arena_enter_stream(a, op->stream);
    const uint64_t named = stream->named;
    const bool may_go =
        (op->bytes % 2 == 0 && may_vanish(a, op->stream)) || forget_everywhere(a, stream->handle);
    arena_leave_stream(a, op->stream);
    if (!may_go || !is_alone || stream->named > named || is_any_pool_going(a)) {
        arena_skip(a);
        return;
    }
    inherit_blocks(a, op->stream, (op->stream + 1) % PROGRAM_STREAMS);
    arena_expect(a, "stream_destroy", mend_sim_stream_destroy(a->sim, stream->handle), false);
    arena_expect(a, "stream_create", mend_sim_stream_create(a->sim, NULL, &stream->handle), false);
}
