/* The calls of the program, each in a thread that may make it, and what a failed one must keep. */
#include <stdio.h>

#include "tests/model/program_state.h"

mend_stream program_handle(program *p, int stream)
{
    mend_stream handle = p->streams[stream].handle;
    return handle == NULL && program_one_in(p, 2) ? MEND_STREAM_LEGACY : handle;
}

int program_thread_of(program *p, int stream)
{
    int own = p->streams[stream].thread;
    return own != ANY_THREAD ? own : (int)program_below(p, (uint64_t)p->turns.count);
}

static void mark(const mend_driver *driver, program_call *call)
{
    call->status = driver->event_create(driver, &call->event);
    if (call->status == MEND_DRIVER_OK) {
        call->status = driver->event_record(driver, call->event, call->stream);
    }
}

static void wait(const mend_driver *driver, program_call *call)
{
    call->status = driver->stream_wait(driver, call->stream, call->event);
    driver->event_destroy(driver, call->event);
}

static void call_range(mend_pool *pool, program_call *call)
{
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    options.page_bytes = call->page_bytes;
    switch (call->kind) {
    case CALL_RANGE_CREATE:
        call->result = mend_range_create(pool, call->size_bytes, &options, &call->range);
        break;
    case CALL_COMMIT:
        call->result =
            mend_range_commit(call->range, call->offset_bytes, call->size_bytes, call->stream);
        break;
    case CALL_DECOMMIT:
        call->result =
            mend_range_decommit(call->range, call->offset_bytes, call->size_bytes, call->stream);
        break;
    case CALL_RECORD_PAGES:
        call->result = mend_range_record_stream(call->range, call->offset_bytes, call->size_bytes,
                                                call->stream);
        break;
    default:
        call->result = mend_range_destroy(call->range, call->stream);
        break;
    }
}

static void call_pool(mend_pool *pool, program_call *call)
{
    switch (call->kind) {
    case CALL_RANGE_CREATE:
    case CALL_COMMIT:
    case CALL_DECOMMIT:
    case CALL_RECORD_PAGES:
    case CALL_RANGE_DESTROY:
        call_range(pool, call);
        break;
    case CALL_ALLOC:
        call->result = mend_alloc_aligned(pool, call->size_bytes, call->alignment_bytes,
                                          call->stream, &call->pointer);
        break;
    case CALL_FREE:
        call->result = mend_free(pool, call->pointer, call->stream);
        break;
    case CALL_RECORD_STREAM:
        call->result = mend_record_stream(pool, call->pointer, call->stream);
        break;
    case CALL_FORGET_STREAM:
        call->result = mend_forget_stream(pool, call->stream);
        break;
    case CALL_GROUP_CREATE:
        call->result = mend_group_create(pool, &call->group);
        break;
    case CALL_GROUP_BEGIN:
        call->result = mend_group_begin(call->group, call->stream);
        break;
    case CALL_GROUP_END:
        call->result = mend_group_end(call->group);
        break;
    case CALL_GROUP_RELEASE:
        call->result = mend_group_release(call->group, call->stream);
        break;
    case CALL_TRIM:
        call->result = mend_trim(pool, call->size_bytes, NULL);
        break;
    default:
        call->result = mend_set_limit(pool, call->size_bytes);
        break;
    }
    if (call->result != MEND_OK) {
        mend_error error = MEND_ERROR_INIT;
        mend_last_error(&error);
        snprintf(call->message, sizeof(call->message), "%s", error.message);
    }
}

static void perform(void *argument)
{
    program_call *call = argument;
    program *p = call->program;
    switch (call->kind) {
    case CALL_LAUNCH:
        call->result = mend_sim_launch(p->world.sim, call->stream, &call->work);
        break;
    case CALL_LAUNCH_GRAPH:
        call->result =
            mend_sim_graph_launch(p->world.sim, call->graph, call->stream, call->work.finish_ns);
        break;
    case CALL_MARK:
        mark(p->driver, call);
        break;
    case CALL_WAIT:
        wait(p->driver, call);
        break;
    case CALL_SYNCHRONIZE:
        call->status = p->driver->context_synchronize(p->driver);
        break;
    case CALL_ENTER:
        call->status = p->driver->context_push(p->driver, p->context);
        break;
    case CALL_LEAVE:
        call->status = p->driver->context_pop(p->driver);
        break;
    default:
        call_pool(p->world.pool, call);
        break;
    }
}

/* The next calls of the driver, or the one after some, fail: once, a few times or to the end. */
static bool raise_faults(program *p)
{
    static const int statuses[] = {MEND_DRIVER_OUT_OF_MEMORY, MEND_DRIVER_UNKNOWN,
                                   MEND_DRIVER_NOT_READY};
    static const uint64_t counts[] = {1, 1, 3, UINT64_MAX};
    if (program_below(p, 1000) >= (uint64_t)p->config->faults_per_mille) {
        return false;
    }
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.status = statuses[program_below(p, 3)];
    fault.after_calls = program_below(p, program_one_in(p, 2) ? 4 : 24);
    fault.count = counts[program_below(p, 4)];
    return mend_sim_fail(p->world.sim, &fault) == MEND_OK;
}

/* A failed call may leave more or less memory reserved: what the driver would not take back stays,
 * and room was made. What the user holds is as it was. */
static bool is_as_before(const mend_stats *before, const mend_stats *after)
{
    return before->live_bytes == after->live_bytes && before->live_blocks == after->live_blocks &&
           before->requested_bytes == after->requested_bytes &&
           before->allocations == after->allocations && before->frees == after->frees &&
           before->range_bytes == after->range_bytes && before->ranges == after->ranges &&
           before->pages_committed == after->pages_committed &&
           before->pages_decommitted == after->pages_decommitted &&
           before->peak_live_bytes == after->peak_live_bytes;
}

mend_result program_try(program *p, int thread, program_call *call)
{
    call->program = p;
    mend_stats before = mend_world_stats(&p->world);
    void *pointer = call->pointer;
    call->faulty = raise_faults(p);
    turns_run(&p->turns, thread, perform, call);
    if (call->faulty) {
        mend_sim_clear_faults(p->world.sim);
    }
    if (call->result == MEND_OK) {
        return MEND_OK;
    }
    mend_stats after = mend_world_stats(&p->world);
    p->outcome->failed_calls += call->faulty;
    program_claim(p, is_as_before(&before, &after) && call->pointer == pointer,
                  "call %d failed (%s) and changed what the user holds", (int)call->kind,
                  mend_result_name(call->result));
    return call->result;
}

void program_must(program *p, int thread, program_call *call)
{
    if (program_try(p, thread, call) != MEND_OK && call->faulty) {
        turns_run(&p->turns, thread, perform, call);
    }
    program_claim(p, call->result == MEND_OK, "call %d of the pool: %s (%s)", (int)call->kind,
                  mend_result_name(call->result), call->message);
}

void program_drive(program *p, int thread, program_call *call)
{
    call->program = p;
    turns_run(&p->turns, thread, perform, call);
    program_claim(p, call->result == MEND_OK && call->status == MEND_DRIVER_OK,
                  "call %d of the device: %s, %s", (int)call->kind, mend_result_name(call->result),
                  mend_status_name(call->status));
}

void program_order(program *p, int from, int to)
{
    if (from == to || p->config->sin == SIN_NO_EVENT) {
        return;
    }
    program_call call = {.kind = CALL_MARK, .stream = program_handle(p, from)};
    program_drive(p, program_thread_of(p, from), &call);
    call.kind = CALL_WAIT;
    call.stream = program_handle(p, to);
    program_drive(p, program_thread_of(p, to), &call);
}
