/* Overrides: allocators that the program set in the place of Mend's pools. A table has an entry for
 * each of its blocks, so that the allocator of a block frees it, whatever is set by then. The
 * functions of an override are called without a lock. */
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "hooks/hooks.h"
#include "mend/mend_frameworks.h"
#include "pool/pool.h"

/* ---- life ------------------------------------------------------------------------------------ */

static mend_process_devices *lock(void)
{
    mend_process_devices *devices = &mend_process_own_devices;
    mend_mutex_lock(&devices->mutex);
    return devices;
}

/* Ends one use, under the mutex. True if it was the last. */
static bool drop(mend_override *override)
{
    assert(override->holds > 0);
    return --override->holds == 0;
}

/* Called when nothing can reach the override any more. The caller holds no lock. */
static void retire(mend_override *override)
{
    assert(override->holds == 0);
    if (override->allocator.retired != NULL) {
        override->allocator.retired(override->allocator.handler.ctx);
    }
    free(override);
    mend_process_devices *devices = lock();
    assert(atomic_load(&devices->override_count) > 0);
    if (atomic_fetch_sub_explicit(&devices->override_count, 1, memory_order_release) == 1) {
        mend_pointer_map_clear(&devices->blocks); /* it is empty */
    }
    mend_mutex_unlock(&devices->mutex);
}

static void let_go(mend_override *override)
{
    mend_process_devices *devices = lock();
    bool was_last = drop(override);
    mend_mutex_unlock(&devices->mutex);
    if (was_last) {
        retire(override);
    }
}

static int place_of(int device)
{
    return device == MEND_ALL_DEVICES ? MEND_DEVICE_LIMIT : device;
}

/* The override of a block, or of a device, or the one for all. Begins a use of it. */
static mend_override *use(int device, const void *pointer)
{
    if (!mend_devices_have_overrides()) {
        return NULL;
    }
    mend_process_devices *devices = lock();
    mend_override *found =
        pointer != NULL ? mend_pointer_map_find(&devices->blocks, (uint64_t)(uintptr_t)pointer)
                        : devices->override[place_of(device)];
    if (found != NULL) {
        found->holds++;
    }
    mend_mutex_unlock(&devices->mutex);
    return found;
}

mend_override *mend_override_of_block(const void *pointer)
{
    return pointer != NULL ? use(MEND_ALL_DEVICES, pointer) : NULL;
}

/* ---- set and get ----------------------------------------------------------------------------- */

/* Version 1 already had the handler. */
static bool is_whole(const mend_allocator *allocator)
{
    return mend_struct_size_is_whole(allocator->struct_size,
                                     offsetof(mend_allocator, record_stream));
}

/* The new one is counted before it can be found, so that no call takes the way of a process without
 * any. The replaced override retires when no lock is held, because its function may call Mend. So
 * does the new one, if it was replaced meanwhile and this was its last use. */
mend_result mend_set_allocator(int device, const mend_allocator *allocator)
{
    mend_override *replaced[MEND_DEVICE_LIMIT + 1] = {NULL};
    mend_override *override = NULL;
    MEND_TRY(mend_devices_check(device, true));
    if (allocator != NULL) {
        mend_allocator own = MEND_ALLOCATOR_INIT;
        MEND_INVALID_IF(!is_whole(allocator),
                        "mend_allocator.struct_size is wrong: begin with MEND_ALLOCATOR_INIT");
        MEND_INVALID_IF(allocator->struct_size > sizeof(own),
                        "mend_allocator is of a newer version than the library");
        memcpy(&own, allocator, allocator->struct_size);
        own.handler.name[sizeof(own.handler.name) - 1] = '\0';
        MEND_INVALID_IF(own.handler.alloc == NULL || own.handler.free == NULL,
                        "mend_allocator.handler: alloc or free is NULL");
        override = mend_process_prepare() == MEND_OK ? malloc(sizeof(*override)) : NULL;
        if (override == NULL) {
            return mend_publish(mend_no_host_memory("an allocator"));
        }
        *override = (mend_override){.allocator = own, .holds = 1};
    }
    int first = device == MEND_ALL_DEVICES ? 0 : device;
    int last = place_of(device);
    mend_process_devices *devices = lock();
    if (override != NULL) {
        atomic_fetch_add_explicit(&devices->override_count, 1, memory_order_relaxed);
    }
    for (int i = first; i <= last; i++) {
        mend_override *before = devices->override[i];
        devices->override[i] = override;
        if (override != NULL) {
            override->holds++;
        }
        replaced[i] = before != NULL && drop(before) ? before : NULL;
    }
    mend_mutex_unlock(&devices->mutex);
    for (int i = first; i <= last; i++) {
        if (replaced[i] != NULL) {
            retire(replaced[i]);
        }
    }
    if (override != NULL) {
        let_go(override);
    }
    return MEND_OK;
}

mend_result mend_get_allocator(int device, mend_allocator *allocator)
{
    MEND_INVALID_IF(allocator == NULL || !is_whole(allocator),
                    "mend_get_allocator: allocator is NULL, or its struct_size is "
                    "wrong: begin with MEND_ALLOCATOR_INIT");
    MEND_TRY(mend_devices_check(device, true));
    mend_allocator all = {.handler = {.ctx = mend_devices_ctx(device),
                                      .alloc = mend_devices_alloc,
                                      .free = mend_devices_free,
                                      .name = "mend"},
                          .record_stream = mend_devices_record_stream,
                          .trim = mend_devices_trim,
                          .block_info = mend_devices_block_info};
    mend_process_devices *devices = lock();
    const mend_override *set = devices->override[place_of(device)];
    if (set != NULL) {
        all = set->allocator;
        all.retired = NULL;
    }
    mend_mutex_unlock(&devices->mutex);
    mend_struct_write(allocator, &all, sizeof(all));
    return MEND_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Turns the answer of an override's function into a result. A number that is not a result becomes
 * `otherwise`. If the override wraps Mend and returned Mend's own failure, Mend's message stays. */
static mend_result result_of(const mend_override *override, int answer, mend_result otherwise,
                             const char *what, const mend_thread_error *before)
{
    mend_thread_error *error = mend_process_error();
    if (answer == MEND_OK) {
        *error = *before;
        return MEND_OK;
    }
#define X(name, value, meaning) answer == (value) ||
    mend_result result = MEND_RESULTS(X) false ? (mend_result)answer : otherwise;
#undef X
    return error->result == result ? result
                                   : mend_fail(result, "the allocator \"%s\" returned %d from %s",
                                               override->allocator.handler.name, answer, what);
}

/* The same at the end of a call, and of the use of the override. */
static mend_result end_call(mend_override *override, int answer, const char *what,
                            const mend_thread_error *before)
{
    mend_result result = result_of(override, answer, MEND_ERROR_DRIVER, what, before);
    let_go(override);
    return result;
}

/* Before a call of the override: clears the thread's error, to see whether the call sets it. */
static mend_thread_error begin_call(void)
{
    assert(mend_mutex_none_is_held_from(MEND_RANK_PROCESS));
    mend_thread_error before = *mend_process_error();
    mend_process_error()->result = MEND_OK;
    return before;
}

/* Adds a block to the table, in the entry promised for it. The block counts as a use of its
 * override. */
static void keep_block(mend_override *override, void *pointer)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    mend_process_devices *devices = lock();
    mend_pointer_map_end_promise(&devices->blocks);
    bool is_new = mend_pointer_map_find(&devices->blocks, address) == NULL;
    if (is_new) {
        mend_pointer_map_insert(&devices->blocks, address, override);
        override->holds++;
    }
    mend_mutex_unlock(&devices->mutex);
    if (!is_new) {
        mend_warn("the allocator \"%s\" returned %p, which is in use",
                  override->allocator.handler.name, pointer);
    }
}

static void end_promise(void)
{
    mend_process_devices *devices = lock();
    mend_pointer_map_end_promise(&devices->blocks);
    mend_mutex_unlock(&devices->mutex);
}

static mend_result override_alloc(mend_override *override, uint64_t size_bytes, mend_stream stream,
                                  void **pointer)
{
    const mend_device_handler *handler = &override->allocator.handler;
    void *made = NULL;
    mend_process_devices *devices = lock();
    const bool is_promised = mend_pointer_map_promise(&devices->blocks);
    mend_mutex_unlock(&devices->mutex);
    if (!is_promised) {
        mend_result result = mend_publish(mend_no_host_memory("the table of blocks"));
        let_go(override);
        return result;
    }
    const mend_thread_error before = begin_call();
    int answer = handler->alloc(handler->ctx, &made, size_bytes, stream);
    mend_result result =
        result_of(override, answer, MEND_ERROR_OUT_OF_MEMORY, "an allocation", &before);
    if (result == MEND_OK && made == NULL) {
        result =
            mend_fail(MEND_ERROR_OUT_OF_MEMORY, "the allocator \"%s\" returned NULL for %lu bytes",
                      handler->name, size_bytes);
    }
    if (result != MEND_OK) {
        end_promise();
    } else {
        keep_block(override, made);
        *pointer = made;
    }
    let_go(override);
    return result;
}

/* The block's entry is removed before the free, because another thread's allocation may get the
 * address at once. It stays promised. */
mend_result mend_override_free(mend_override *override, void *pointer, uint64_t size_bytes,
                               mend_stream stream)
{
    const mend_device_handler *handler = &override->allocator.handler;
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    mend_result result;
    mend_process_devices *devices = lock();
    const bool is_there = mend_pointer_map_find(&devices->blocks, address) == override;
    if (is_there) {
        mend_pointer_map_remove(&devices->blocks, address);
        assert(override->holds > 1);
        devices->blocks.promised_count++;
        drop(override); /* the caller's own use remains */
    }
    mend_mutex_unlock(&devices->mutex);
    if (is_there) {
        const mend_thread_error before = begin_call();
        int answer = handler->free(handler->ctx, pointer, size_bytes, stream);
        result = result_of(override, answer, MEND_ERROR_DRIVER, "a free", &before);
        if (result == MEND_OK) {
            end_promise();
        } else {
            keep_block(override, pointer);
        }
    } else {
        result = mend_fail(MEND_ERROR_DOUBLE_FREE, "%p is being freed by another thread", pointer);
    }
    let_go(override);
    return result;
}

static mend_result not_supported(mend_override *override, const char *what)
{
    mend_result result = mend_fail(MEND_ERROR_NOT_SUPPORTED, "the allocator \"%s\" has no %s",
                                   override->allocator.handler.name, what);
    let_go(override);
    return result;
}

static mend_result override_block_info(mend_override *override, const void *pointer,
                                       mend_block_info *info)
{
    const mend_allocator *of = &override->allocator;
    const mend_thread_error before = begin_call();
    return of->block_info == NULL
               ? not_supported(override, "block_info")
               : end_call(override, of->block_info(of->handler.ctx, pointer, info), "block_info",
                          &before);
}

/* ---- calls that hooks forward ---------------------------------------------------------------- */

/* The calls that hooks use: each goes to the override of the device or of the block. If there is
 * none, it goes to the device's default pool. */

/* The pool for a call in the usual process: one device, its pool exists, and there are no
 * overrides. NULL: another case. */
static inline mend_pool *usual_pool(int device)
{
    const mend_process_devices *devices = &mend_process_own_devices;
    bool is_usual = (unsigned)device < MEND_DEVICE_LIMIT &&
                    atomic_load_explicit(&devices->override_count, memory_order_acquire) == 0;
    return is_usual ? atomic_load_explicit(&devices->device[device].pool, memory_order_acquire)
                    : NULL;
}

/* A function of its own, so that the usual call saves no registers for it. */
__attribute__((noinline)) static mend_result alloc_with_care(int device, uint64_t size_bytes,
                                                             mend_stream stream, void **pointer)
{
    MEND_INVALID_IF(pointer == NULL, "mend_device_alloc: pointer is NULL");
    MEND_TRY(mend_devices_check(device, true));
    if (size_bytes == 0) {
        *pointer = NULL;
        return MEND_OK;
    }
    if (device == MEND_ALL_DEVICES) {
        MEND_TRY(mend_current_device(&device));
    }
    mend_override *override = use(device, NULL);
    return override != NULL ? override_alloc(override, size_bytes, stream, pointer)
                            : (mend_result)mend_devices_alloc(mend_devices_ctx(device), pointer,
                                                              size_bytes, stream);
}

mend_result mend_device_alloc(int device, uint64_t size_bytes, mend_stream stream, void **pointer)
{
    mend_pool *pool = usual_pool(device);
    return pool != NULL && size_bytes != 0 ? mend_alloc(pool, size_bytes, stream, pointer)
                                           : alloc_with_care(device, size_bytes, stream, pointer);
}

__attribute__((noinline)) static mend_result free_with_care(int device, void *pointer,
                                                            uint64_t size_bytes, mend_stream stream)
{
    mend_result result = mend_devices_check(device, true);
    if (result != MEND_OK || pointer == NULL) {
        return result;
    }
    mend_override *override = mend_override_of_block(pointer);
    return override != NULL ? mend_override_free(override, pointer, size_bytes, stream)
                            : (mend_result)mend_devices_free(mend_devices_ctx(device), pointer,
                                                             size_bytes, stream);
}

mend_result mend_device_free(int device, void *pointer, uint64_t size_bytes, mend_stream stream)
{
    mend_pool *pool = usual_pool(device);
    return pool != NULL ? mend_free(pool, pointer, stream)
                        : free_with_care(device, pointer, size_bytes, stream);
}

mend_result mend_device_free_untagged(void *pointer, mend_block_info *info, int *device)
{
    mend_block_info found = MEND_BLOCK_INFO_INIT;
    int at = MEND_ALL_DEVICES;
    MEND_INVALID_IF(pointer == NULL || info == NULL || device == NULL ||
                        !MEND_STRUCT_IS_WHOLE(info),
                    "mend_device_free_untagged: pointer, info or device is NULL, or "
                    "info->struct_size is wrong: begin with MEND_BLOCK_INFO_INIT");
    mend_result result = MEND_OK;
    if (mend_devices_have_overrides()) { /* whose blocks have no device that Mend knows */
        result = mend_device_block_info(MEND_ALL_DEVICES, pointer, &found);
        if (result == MEND_OK && found.base != pointer) {
            result = mend_pool_invalid("mend_device_free_untagged: no block begins at the pointer");
        }
        if (result == MEND_OK && found.tag == 0) {
            result = free_with_care(MEND_ALL_DEVICES, pointer, found.requested_bytes, found.stream);
        }
    } else {
        for (int i = 0; i < MEND_DEVICE_LIMIT && result == MEND_OK && found.base == NULL; i++) {
            mend_pool *pool = mend_devices_pool(at = i);
            result = pool != NULL ? mend_pool_free_untagged(pool, pointer, &found) : MEND_OK;
        }
        if (result == MEND_OK && found.base == NULL) { /* names the memory that is there */
            result = (mend_result)mend_devices_free(mend_devices_ctx(MEND_ALL_DEVICES), pointer, 0,
                                                    MEND_NO_STREAM);
        }
    }
    if (result == MEND_OK) {
        mend_struct_write(info, &found, sizeof(found));
        *device = at;
    }
    return result;
}

mend_result mend_device_record_stream(int device, void *pointer, mend_stream stream)
{
    MEND_TRY(mend_devices_check(device, true));
    mend_override *override = mend_override_of_block(pointer);
    if (override == NULL) {
        return (mend_result)mend_devices_record_stream(mend_devices_ctx(device), pointer, stream);
    }
    const mend_allocator *of = &override->allocator;
    const mend_thread_error before = begin_call();
    return of->record_stream == NULL
               ? not_supported(override, "record_stream")
               : end_call(override, of->record_stream(of->handler.ctx, pointer, stream),
                          "record_stream", &before);
}

/* An override is asked about a pointer that is not one of its blocks, too: it may lie inside one.
 * That it does not know it is no failure of the call. */
mend_result mend_device_block_info(int device, const void *pointer, mend_block_info *info)
{
    MEND_TRY(mend_devices_check(device, true));
    MEND_INVALID_IF(pointer == NULL || info == NULL || !MEND_STRUCT_IS_WHOLE(info),
                    "mend_device_block_info: pointer or info is NULL, or its "
                    "struct_size is wrong: begin with MEND_BLOCK_INFO_INIT");
    mend_override *override = mend_override_of_block(pointer);
    if (override != NULL) {
        return override_block_info(override, pointer, info);
    }
    bool is_known = false;
    if (mend_devices_have_overrides()) {
        const mend_thread_error error_before = *mend_process_error();
        const mend_device_range range = mend_devices_range(device);
        for (int i = range.first; i < range.end && !is_known; i++) {
            override = use(i, NULL);
            is_known = override != NULL && override_block_info(override, pointer, info) == MEND_OK;
        }
        *mend_process_error() = error_before;
    }
    return is_known ? MEND_OK
                    : (mend_result)mend_devices_block_info(mend_devices_ctx(device), pointer, info);
}

/* An override for all devices is called once. */
mend_result mend_device_trim(int device, uint64_t keep_bytes, mend_trim_mode mode,
                             uint64_t *released_bytes)
{
    uint64_t all_bytes = 0;
    bool is_asked = false;
    mend_result result = MEND_OK;
    MEND_TRY(mend_devices_check(device, true));
    MEND_INVALID_IF((unsigned)mode > MEND_TRIM_BY_POLICY,
                    "mend_device_trim: mode is no mend_trim_mode");
    const mend_device_range range = mend_devices_range(device);
    mend_override *of_all = use(MEND_ALL_DEVICES, NULL);
    for (int i = range.first; i < range.end; i++) {
        uint64_t bytes = 0;
        mend_result here = MEND_OK;
        mend_override *override = use(i, NULL);
        if (override == NULL) {
            here = (mend_result)mend_devices_trim(mend_devices_ctx(i), keep_bytes, mode, &bytes);
        } else if (override != of_all || !is_asked) {
            const mend_allocator *of = &override->allocator;
            const mend_thread_error before = begin_call();
            int answer =
                of->trim != NULL ? of->trim(of->handler.ctx, keep_bytes, mode, &bytes) : MEND_OK;
            is_asked = is_asked || override == of_all;
            here = end_call(override, answer, "trim", &before);
        } else {
            let_go(override);
        }
        result = result == MEND_OK ? here : result;
        all_bytes += bytes;
    }
    if (of_all != NULL) {
        let_go(of_all);
    }
    if (result == MEND_OK && released_bytes != NULL) {
        *released_bytes = all_bytes;
    }
    return result;
}
