/* Users of blocks, and the operations of blocks and streams. Each keeps the rules of mend.h,
 * whatever the others have come to. */
#include <stdarg.h>

#include "driver/driver.h"
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

bool arena_enter_stream(arena *a, int stream)
{
    bool is_there = !a->streams[stream].is_going;
    a->streams[stream].users += is_there;
    return is_there;
}

void arena_leave_stream(arena *a, int stream)
{
    a->streams[stream].users--;
}

void arena_skip(arena *a)
{
    a->outcome->skipped++;
}

/* Not while another thread's call may move live blocks. */
static void launch(arena *a, const arena_slot *slot, int stream, mend_sim_work_kind kind)
{
    if (a->quiet_calls > 0 || slot->tag == 0) {
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

void arena_alloc(arena *a, const program_op *op)
{
    arena_slot *slot = &a->slots[op->slot];
    if (slot->pointer != NULL || slot->is_busy || a->is_closed || a->pools[op->pool].pool == NULL ||
        !arena_enter_stream(a, op->stream)) {
        arena_skip(a);
        return;
    }
    slot->is_busy = true;
    arena_thread *self = arena_self(a);
    arena_thread outer = *self;
    *self = (arena_thread){.pool = op->pool};
    mend_pool *pool = arena_enter_pool(a, op->pool);
    void *pointer = NULL;
    a->quiet_calls += a->program->is_quiet;
    mend_stream handle =
        op->kind == PROGRAM_ALLOC_ANYWHERE ? MEND_NO_STREAM : a->streams[op->stream].handle;
    mend_result result = mend_alloc(pool, op->bytes, handle, &pointer);
    a->quiet_calls -= a->program->is_quiet;
    if (result == MEND_OK) {
        uint64_t tag = a->quiet_calls > 0 ? 0 : ++a->last_tag;
        *slot = (arena_slot){pointer, op->bytes, tag, op->pool, op->stream, true};
        launch(a, slot, op->stream, MEND_SIM_WORK_WRITE);
        a->outcome->allocations++;
    } else if (result == MEND_ERROR_OUT_OF_MEMORY) {
        arena_check_refusal(a, op->bytes);
        a->outcome->refused++;
    }
    arena_expect(a, "alloc", result, result == MEND_ERROR_OUT_OF_MEMORY);
    *self = outer;
    arena_leave_pool(a, op->pool);
    arena_leave_stream(a, op->stream);
    slot->is_busy = false;
}

/* Takes the slot's block, with the streams, for an operation. */
static arena_slot *enter_slot(arena *a, int number, int stream)
{
    arena_slot *slot = &a->slots[number];
    bool is_there = slot->pointer != NULL && !slot->is_busy && !a->is_closed &&
                    !a->streams[slot->stream].is_going && !a->streams[stream].is_going;
    if (!is_there) {
        arena_skip(a);
        return NULL;
    }
    arena_enter_pool(a, slot->pool);
    arena_enter_stream(a, slot->stream);
    arena_enter_stream(a, stream);
    slot->is_busy = true;
    return slot;
}

static void leave_slot(arena *a, arena_slot *slot, int stream)
{
    arena_leave_stream(a, slot->stream);
    arena_leave_stream(a, stream);
    arena_leave_pool(a, slot->pool);
    slot->is_busy = false;
}

/* A block that could not be freed stays as it was. */
void arena_free(arena *a, const program_op *op)
{
    const int stream = op->kind == PROGRAM_FREE_ELSEWHERE ? op->stream : a->slots[op->slot].stream;
    arena_slot *slot = enter_slot(a, op->slot, stream);
    if (slot == NULL) {
        return;
    }
    launch(a, slot, slot->stream, MEND_SIM_WORK_VERIFY);
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
    mend_result result = mend_free(a->pools[slot->pool].pool, slot->pointer, handle);
    slot->pointer = result == MEND_OK ? NULL : slot->pointer;
    arena_expect(a, "free", result, false);
    leave_slot(a, slot, stream);
}

void arena_share(arena *a, const program_op *op)
{
    arena_slot *slot = enter_slot(a, op->slot, op->stream);
    if (slot == NULL) {
        return;
    }
    mend_result result =
        mend_record_stream(a->pools[slot->pool].pool, slot->pointer, a->streams[op->stream].handle);
    if (result == MEND_OK) {
        arena_stream_waits(a, op->stream, slot->stream);
        launch(a, slot, op->stream, MEND_SIM_WORK_VERIFY);
    }
    arena_expect(a, "record_stream", result, false);
    leave_slot(a, slot, op->stream);
}

/* ---- streams --------------------------------------------------------------------------------- */

void arena_forget(arena *a, const program_op *op)
{
    if (a->pools[op->pool].pool == NULL || !arena_enter_stream(a, op->stream)) {
        arena_skip(a);
        return;
    }
    mend_pool *pool = arena_enter_pool(a, op->pool);
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

/* No other thread names it meanwhile. A pool made meanwhile has never seen it. */
void arena_replace_stream(arena *a, const program_op *op)
{
    arena_stream *stream = &a->streams[op->stream];
    int heir = (op->stream + 1) % PROGRAM_STREAMS;
    if (stream->is_going || stream->users > 0 || is_any_pool_going(a) ||
        !arena_enter_stream(a, heir)) {
        arena_skip(a);
        return;
    }
    stream->is_going = true;
    inherit_blocks(a, op->stream, heir);
    arena_leave_stream(a, heir);
    if (forget_everywhere(a, stream->handle)) {
        arena_expect(a, "stream_destroy", mend_sim_stream_destroy(a->sim, stream->handle), false);
        arena_expect(a, "stream_create", mend_sim_stream_create(a->sim, NULL, &stream->handle),
                     false);
    }
    stream->is_going = false;
}
