/*
 * Stand-ins: allocators that were set in the place of Mend's pools. While there is one, each of its
 * blocks has an entry in a table, so that it goes back where it came from whatever is set by then.
 * The functions of a stand-in are called without a lock.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/struct_size.h"
#include "devices/devices.h"
#include "pool/pool.h"

/* ---- life -------------------------------------------------------------------------------------
 */

static mend_process_devices *lock(void)
{
    mend_process_devices *devices = mend_process_get_devices();
    mend_mutex_lock(&devices->mutex);
    return devices;
}

/* Under the mutex: drops a hold; whether it was the last. */
static bool drop(mend_stand_in *stand_in)
{
    assert(stand_in->holds > 0);
    return --stand_in->holds == 0;
}

/* A fork inside a function of the user's: the child knows no stand-ins. */
static bool is_inherited(const mend_stand_in *stand_in)
{
    return stand_in->generation != mend_process_generation();
}

/* Nobody can reach it any more. Without locks. */
static void retire(mend_stand_in *stand_in)
{
    if (!is_inherited(stand_in) && stand_in->allocator.retired != NULL) {
        stand_in->allocator.retired(stand_in->allocator.handler.ctx);
    }
    if (is_inherited(stand_in)) {
        return;
    }
    free(stand_in);
    mend_process_devices *devices = lock();
    if (atomic_fetch_sub_explicit(&devices->stand_in_count, 1, memory_order_release) == 1) {
        mend_pointer_map_clear(&devices->blocks); /* it is empty, and so far nobody needs it */
    }
    mend_mutex_unlock(&devices->mutex);
}

void mend_stand_in_let_go(mend_stand_in *stand_in)
{
    if (is_inherited(stand_in)) {
        return;
    }
    mend_process_devices *devices = lock();
    bool was_last = drop(stand_in);
    mend_mutex_unlock(&devices->mutex);
    if (was_last) {
        retire(stand_in);
    }
}

static int place_of(int device)
{
    return device == MEND_ALL_DEVICES ? MEND_DEVICE_LIMIT : device;
}

mend_stand_in *mend_stand_in_of_device(int device)
{
    mend_process_devices *devices = lock();
    mend_stand_in *stand_in = devices->stand_in[place_of(device)];
    if (stand_in != NULL) {
        stand_in->holds++;
    }
    mend_mutex_unlock(&devices->mutex);
    return stand_in;
}

mend_stand_in *mend_stand_in_of_block(const void *pointer)
{
    mend_process_devices *devices = lock();
    mend_stand_in *stand_in = mend_pointer_map_find(&devices->blocks, (uint64_t)(uintptr_t)pointer);
    if (stand_in != NULL) {
        stand_in->holds++;
    }
    mend_mutex_unlock(&devices->mutex);
    return stand_in;
}

/* ---- set and get ------------------------------------------------------------------------------
 */

/* Its handler was there from the first version on. */
static bool is_whole(const mend_allocator *allocator)
{
    return mend_struct_size_is_whole(allocator->struct_size,
                                     offsetof(mend_allocator, record_stream));
}

static mend_result make_stand_in(const mend_allocator *given, mend_stand_in **stand_in)
{
    if (!is_whole(given)) {
        return mend_pool_invalid(
            "mend_allocator.struct_size is that of no version: start from MEND_ALLOCATOR_INIT");
    }
    if (given->struct_size > sizeof(*given)) {
        return mend_pool_invalid("mend_allocator is of a newer version than the library");
    }
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    memcpy(&allocator, given, given->struct_size);
    allocator.struct_size = sizeof(allocator);
    allocator.handler.name[sizeof(allocator.handler.name) - 1] = '\0';
    if (allocator.handler.alloc == NULL || allocator.handler.free == NULL) {
        return mend_pool_invalid("mend_allocator.handler: alloc or free is NULL");
    }
    mend_stand_in *made = mend_process_prepare() == MEND_OK ? malloc(sizeof(*made)) : NULL;
    if (made == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for an allocator");
    }
    *made = (mend_stand_in){
        .allocator = allocator, .generation = mend_process_generation(), .holds = 1};
    *stand_in = made;
    return MEND_OK;
}

mend_result mend_set_allocator(int device, const mend_allocator *allocator)
{
    mend_stand_in *replaced[MEND_DEVICE_LIMIT + 1] = {NULL};
    mend_stand_in *stand_in = NULL;
    mend_result result = mend_devices_check(device, true);
    if (result == MEND_OK && allocator != NULL) {
        result = make_stand_in(allocator, &stand_in);
    }
    if (result != MEND_OK) {
        return result;
    }
    int first = device == MEND_ALL_DEVICES ? 0 : device;
    int last = place_of(device);
    mend_process_devices *devices = lock();
    if (stand_in != NULL) {
        atomic_fetch_add_explicit(&devices->stand_in_count, 1, memory_order_relaxed);
    }
    for (int i = first; i <= last; i++) {
        mend_stand_in *before = devices->stand_in[i];
        devices->stand_in[i] = stand_in;
        if (stand_in != NULL) {
            stand_in->holds++;
        }
        replaced[i] = before != NULL && drop(before) ? before : NULL;
    }
    mend_mutex_unlock(&devices->mutex);
    for (int i = first; i <= last; i++) {
        if (replaced[i] != NULL) {
            retire(replaced[i]);
        }
    }
    if (stand_in != NULL) {
        mend_stand_in_let_go(stand_in);
    }
    return MEND_OK;
}

/* Mend's own, as an allocator that another may wrap: ctx is the device. */
static int own_device(void *ctx)
{
    return (int)(intptr_t)ctx;
}

static int own_alloc(void *ctx, void **pointer, size_t size_bytes, mend_stream stream)
{
    return (int)mend_devices_alloc(own_device(ctx), size_bytes, stream, pointer);
}

static int own_free(void *ctx, void *pointer, size_t size_bytes, mend_stream stream)
{
    (void)size_bytes;
    return (int)mend_devices_free(own_device(ctx), pointer, stream);
}

static int own_record_stream(void *ctx, void *pointer, mend_stream stream)
{
    return (int)mend_devices_record_stream(own_device(ctx), pointer, stream);
}

static int own_block_info(void *ctx, const void *pointer, mend_block_info *info)
{
    return (int)mend_devices_block_info(own_device(ctx), pointer, info);
}

static int own_trim(void *ctx, uint64_t keep_bytes, uint64_t *released_bytes)
{
    return (int)mend_devices_trim(own_device(ctx), false, keep_bytes, released_bytes);
}

static int own_trim_wait(void *ctx, uint64_t keep_bytes, uint64_t *released_bytes)
{
    return (int)mend_devices_trim(own_device(ctx), true, keep_bytes, released_bytes);
}

mend_result mend_get_allocator(int device, mend_allocator *allocator)
{
    if (allocator == NULL || !is_whole(allocator)) {
        return mend_pool_invalid(
            "mend_get_allocator: allocator is NULL, or its struct_size that of "
            "no version: start from MEND_ALLOCATOR_INIT");
    }
    mend_result result = mend_devices_check(device, true);
    if (result != MEND_OK) {
        return result;
    }
    mend_allocator all = {.struct_size = allocator->struct_size,
                          .handler = {.ctx = (void *)(intptr_t)device,
                                      .alloc = own_alloc,
                                      .free = own_free,
                                      .name = "mend"},
                          .record_stream = own_record_stream,
                          .trim = own_trim,
                          .block_info = own_block_info,
                          .trim_wait = own_trim_wait};
    mend_process_devices *devices = lock();
    if (devices->stand_in[place_of(device)] != NULL) {
        all = devices->stand_in[place_of(device)]->allocator;
        all.struct_size = allocator->struct_size;
        all.retired = NULL;
    }
    mend_mutex_unlock(&devices->mutex);
    memcpy(allocator, &all, mend_min_u64(allocator->struct_size, sizeof(all)));
    return MEND_OK;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static bool is_result(int answer)
{
#define X(name, value, meaning) answer == (value) ||
    return MEND_RESULTS(X) false;
#undef X
}

/* What a function of a stand-in answered, as a result; numbers that are none are `otherwise`. One
 * that wraps Mend has left Mend's own explanation, where this is the same failure. */
static mend_result result_of(const mend_stand_in *stand_in, int answer, mend_result otherwise,
                             const char *what, const mend_thread_error *before)
{
    mend_thread_error *error = mend_process_error();
    if (answer == MEND_OK) {
        *error = *before;
        return MEND_OK;
    }
    mend_result result = is_result(answer) ? (mend_result)answer : otherwise;
    if (error->result == result) {
        return result;
    }
    return mend_fail(result, "the allocator \"%s\" answered %d to %s",
                     stand_in->allocator.handler.name, answer, what);
}

/* Begins a call of the user's: what it leaves behind can be told from what was there. */
static mend_thread_error begin_call(void)
{
    mend_thread_error before = *mend_process_error();
    mend_process_error()->result = MEND_OK;
    return before;
}

/* Enters a block, in the room promised for it; it holds its stand-in. */
static void keep_block(mend_stand_in *stand_in, void *pointer)
{
    if (is_inherited(stand_in)) {
        return;
    }
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    mend_process_devices *devices = lock();
    mend_pointer_map_end_promise(&devices->blocks);
    bool is_new = mend_pointer_map_find(&devices->blocks, address) == NULL;
    if (is_new) {
        mend_pointer_map_insert(&devices->blocks, address, stand_in);
        stand_in->holds++;
    }
    mend_mutex_unlock(&devices->mutex);
    if (!is_new) {
        mend_log(MEND_LOG_WARNING, "the allocator \"%s\" gave %p, which is in use",
                 stand_in->allocator.handler.name, pointer);
    }
}

static bool promise_block(void)
{
    mend_process_devices *devices = lock();
    bool is_promised = mend_pointer_map_promise(&devices->blocks);
    mend_mutex_unlock(&devices->mutex);
    return is_promised;
}

static void end_promise(const mend_stand_in *stand_in)
{
    if (is_inherited(stand_in)) {
        return;
    }
    mend_process_devices *devices = lock();
    mend_pointer_map_end_promise(&devices->blocks);
    mend_mutex_unlock(&devices->mutex);
}

mend_result mend_stand_in_alloc(mend_stand_in *stand_in, uint64_t size_bytes, mend_stream stream,
                                void **pointer)
{
    const mend_device_handler *handler = &stand_in->allocator.handler;
    if (!promise_block()) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for the table of blocks");
    }
    void *made = NULL;
    mend_thread_error before = begin_call();
    int answer = handler->alloc(handler->ctx, &made, size_bytes, stream);
    mend_result result =
        result_of(stand_in, answer, MEND_ERROR_OUT_OF_MEMORY, "an allocation", &before);
    if (result == MEND_OK && made == NULL) {
        result =
            mend_fail(MEND_ERROR_OUT_OF_MEMORY, "the allocator \"%s\" gave NULL for %llu bytes",
                      handler->name, (unsigned long long)size_bytes);
    }
    if (result != MEND_OK) {
        end_promise(stand_in);
        return result;
    }
    keep_block(stand_in, made);
    *pointer = made;
    return MEND_OK;
}

/* Takes a block's entry out, before its address can come back from another thread's allocation; its
 * room stays promised. False: somebody else frees it. */
static bool take_block(mend_stand_in *stand_in, const void *pointer)
{
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    mend_process_devices *devices = lock();
    bool is_there = mend_pointer_map_find(&devices->blocks, address) == stand_in;
    if (is_there) {
        mend_pointer_map_remove(&devices->blocks, address);
        devices->blocks.promised_count++;
        drop(stand_in); /* the caller's own hold is left */
    }
    mend_mutex_unlock(&devices->mutex);
    return is_there;
}

mend_result mend_stand_in_free(mend_stand_in *stand_in, void *pointer, uint64_t size_bytes,
                               mend_stream stream)
{
    const mend_device_handler *handler = &stand_in->allocator.handler;
    if (!take_block(stand_in, pointer)) {
        return mend_fail(MEND_ERROR_DOUBLE_FREE, "%p is being freed by another thread", pointer);
    }
    mend_thread_error before = begin_call();
    int answer = handler->free(handler->ctx, pointer, size_bytes, stream);
    mend_result result = result_of(stand_in, answer, MEND_ERROR_DRIVER, "a free", &before);
    if (result == MEND_OK) {
        end_promise(stand_in);
    } else {
        keep_block(stand_in, pointer);
    }
    return result;
}

static mend_result not_supported(const mend_stand_in *stand_in, const char *what)
{
    return mend_fail(MEND_ERROR_NOT_SUPPORTED, "the allocator \"%s\" has no %s",
                     stand_in->allocator.handler.name, what);
}

mend_result mend_stand_in_record_stream(mend_stand_in *stand_in, void *pointer, mend_stream stream)
{
    const mend_allocator *allocator = &stand_in->allocator;
    if (allocator->record_stream == NULL) {
        return not_supported(stand_in, "record_stream");
    }
    mend_thread_error before = begin_call();
    int answer = allocator->record_stream(allocator->handler.ctx, pointer, stream);
    return result_of(stand_in, answer, MEND_ERROR_DRIVER, "record_stream", &before);
}

mend_result mend_stand_in_block_info(mend_stand_in *stand_in, const void *pointer,
                                     mend_block_info *info)
{
    const mend_allocator *allocator = &stand_in->allocator;
    if (allocator->block_info == NULL) {
        return not_supported(stand_in, "block_info");
    }
    mend_thread_error before = begin_call();
    int answer = allocator->block_info(allocator->handler.ctx, pointer, info);
    return result_of(stand_in, answer, MEND_ERROR_DRIVER, "block_info", &before);
}

mend_result mend_stand_in_trim(mend_stand_in *stand_in, bool waits, uint64_t keep_bytes,
                               uint64_t *released_bytes)
{
    const mend_allocator *allocator = &stand_in->allocator;
    bool has_waiting = waits && allocator->trim_wait != NULL;
    int (*trim)(void *, uint64_t, uint64_t *) =
        has_waiting ? allocator->trim_wait : allocator->trim;
    *released_bytes = 0;
    if (trim == NULL) {
        return MEND_OK;
    }
    mend_thread_error before = begin_call();
    int answer = trim(allocator->handler.ctx, keep_bytes, released_bytes);
    return result_of(stand_in, answer, MEND_ERROR_DRIVER, "trim", &before);
}
