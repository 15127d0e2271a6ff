/* The first pool as its device's default one: blocks pass through the calls of hooks, and through
 * whatever allocator the program puts below them. */
#include <stdlib.h>

#include "hooks/hooks.h"
#include "mend/mend_frameworks.h"
#include "tests/sim/trial.h"

/* Wraps Mend's own. Lives until it retires. */
struct trial_wrapper {
    trial *t;
    mend_list link;
    mend_allocator inner;
    uint32_t live_blocks;
    uint32_t most_blocks;
    bool is_abandoned; /* the device is gone: it frees the remaining memory */
};

static int wrapped_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    trial_wrapper *w = ctx;
    if (w->live_blocks >= w->most_blocks) {
        w->t->refused = true;
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    int answer = w->inner.handler.alloc(w->inner.handler.ctx, pointer, size_bytes, stream);
    w->live_blocks += answer == MEND_OK;
    return answer;
}

static int wrapped_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    trial_wrapper *w = ctx;
    int answer = w->is_abandoned
                     ? MEND_OK
                     : w->inner.handler.free(w->inner.handler.ctx, pointer, size_bytes, stream);
    w->live_blocks -= answer == MEND_OK;
    return answer;
}

static int wrapped_record(void *ctx, void *pointer, mend_stream stream)
{
    trial_wrapper *w = ctx;
    return w->inner.record_stream(w->inner.handler.ctx, pointer, stream);
}

static int wrapped_trim(void *ctx, uint64_t keep_bytes, mend_trim_mode mode,
                        uint64_t *released_bytes)
{
    trial_wrapper *w = ctx;
    return w->inner.trim(w->inner.handler.ctx, keep_bytes, mode, released_bytes);
}

static int wrapped_info(void *ctx, const void *pointer, mend_block_info *info)
{
    trial_wrapper *w = ctx;
    return w->inner.block_info(w->inner.handler.ctx, pointer, info);
}

static void wrapped_end(void *ctx)
{
    trial_wrapper *w = ctx;
    trial_claim(w->t, TRIAL_MODEL, w->live_blocks == 0, "an allocator retires with %u blocks",
                w->live_blocks);
    mend_list_remove(&w->link);
    free(w);
}

static trial_wrapper *make_wrapper(trial *t, const operation *op)
{
    trial_wrapper *w = calloc(1, sizeof(*w));
    if (w != NULL) {
        w->t = t;
        w->most_blocks = op->size % 4 == 0 ? 2u + op->slot % 4 : UINT32_MAX;
        w->inner = (mend_allocator)MEND_ALLOCATOR_INIT;
        mend_list_append(&t->wrappers, &w->link);
    }
    return w;
}

/* An allocator may retire while it is wrapped, so Mend's own is restored first. */
bool trial_set_allocator(trial *t, const operation *op)
{
    int device = op->stream % 2 == 0 ? 0 : MEND_ALL_DEVICES;
    if (!t->config.hooks) {
        return false;
    }
    mend_result result = mend_set_allocator(MEND_ALL_DEVICES, NULL);
    trial_wrapper *w = op->amount % 3 != 0 ? make_wrapper(t, op) : NULL;
    if (w != NULL && result == MEND_OK) {
        mend_allocator allocator = MEND_ALLOCATOR_INIT;
        result = mend_get_allocator(0, &w->inner);
        allocator.handler = (mend_device_handler){
            .ctx = w, .alloc = wrapped_alloc, .free = wrapped_free, .name = "wrapper"};
        allocator.record_stream = wrapped_record;
        allocator.trim = wrapped_trim;
        allocator.block_info = wrapped_info;
        allocator.retired = wrapped_end;
        result = result == MEND_OK ? mend_set_allocator(device, &allocator) : result;
    }
    return trial_claim(t, TRIAL_RESULT, result == MEND_OK, "an allocator is not set: %s",
                       mend_result_name(result));
}

mend_result trial_hooks_open(trial *t, const mend_pool_config *config, mend_pool **pool)
{
    mend_list_init(&t->wrappers);
    mend_result result = mend_set_default_config(0, config);
    return result == MEND_OK ? mend_pool_for_device(0, pool) : result;
}

static mend_result free_by_pointer(trial_call *call)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = -2;
    const mend_result result = mend_device_free_untagged(call->pointer, &info, &device);
    trial_claim(call->trial, TRIAL_MODEL,
                result != MEND_OK || (info.base == call->pointer && info.stream == call->stream &&
                                      (device == 0 || device == MEND_ALL_DEVICES)),
                "a free of a pointer alone described another block");
    return result == MEND_OK && info.tag != 0 ? mend_device_free(0, call->pointer, 0, call->stream)
                                              : result;
}

bool trial_hooks_take(trial_call *call)
{
    /* Hooks that get no device look for it. */
    int device = ((uintptr_t)call->pointer >> 9) % 2 == 0 ? 0 : MEND_ALL_DEVICES;
    bool asks = false; /* which device is current, a driver that works */
    if (!call->trial->config.hooks || call->pool != 0) {
        return false;
    }
    switch (call->kind) {
    case CALL_ALLOC:
        if (call->alignment_bytes > 512 || call->wanted != NULL) {
            return false;
        }
        asks = call->size_bytes % 2 == 1 && !call->trial->stopped && !call->trial->may_be_lost;
        device = asks ? MEND_ALL_DEVICES : 0; /* the current one */
        call->result = mend_device_alloc(device, call->size_bytes, call->stream, &call->pointer);
        return true;
    case CALL_FREE:
        call->result = call->by_pointer ? free_by_pointer(call)
                                        : mend_device_free(device, call->pointer, 0, call->stream);
        return true;
    case CALL_FORGET:
        call->result =
            mend_device_unregister_stream(call->at % 2 == 0 ? 0 : MEND_ALL_DEVICES, call->stream);
        return true;
    case CALL_RECORD:
        call->result = mend_device_record_stream(device, call->pointer, call->stream);
        return true;
    case CALL_TRIM:
        if (call->collects) {
            return false;
        }
        call->result =
            mend_device_trim(0, call->size_bytes, call->waits ? MEND_TRIM_WAIT : MEND_TRIM_IDLE,
                             &call->released_bytes);
        return true;
    default:
        return false;
    }
}

void trial_hooks_end_allocators(trial *t)
{
    if (t->config.hooks) {
        mend_set_allocator(MEND_ALL_DEVICES, NULL);
    }
}

/* Blocks of a lost device are freed by their allocators. */
void trial_hooks_close(trial *t)
{
    if (!t->config.hooks) {
        return;
    }
    MEND_LIST_EACH(trial_wrapper, wrapper, link, &t->wrappers) {
        wrapper->is_abandoned = true;
    }
    TRIAL_EACH_BLOCK(const trial_block, block, t) {
        if (block->live && block->pool == 0 && block->range == 0) {
            mend_device_free(0, (void *)(uintptr_t)block->address, 0, MEND_NO_STREAM);
        }
    }
    mend_set_allocator(MEND_ALL_DEVICES, NULL);
    mend_set_default_config(0, NULL);
    trial_claim(t, TRIAL_REMAINS,
                mend_list_is_empty(&t->wrappers) && !mend_devices_have_overrides(),
                "an allocator that was replaced has not retired");
}
