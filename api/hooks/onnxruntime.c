/* ONNX Runtime's external allocator. Its functions are given neither device nor stream, so each
 * stream that a program names has functions of its own. */
#include "hooks/failures.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_hooks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

static void *alloc_on(mend_stream stream, size_t size)
{
    void *pointer = NULL;
    mend_result result = mend_device_alloc(MEND_ALL_DEVICES, size, stream, &pointer);
    return result == MEND_OK ? pointer : NULL;
}

static void free_on(mend_stream stream, void *pointer)
{
    mend_hooks_note(mend_device_free(MEND_ALL_DEVICES, pointer, 0, stream),
                    "a free of ONNX Runtime");
}

static void *alloc_idle(size_t size)
{
    return alloc_on(MEND_NO_STREAM, size);
}

static void free_idle(void *pointer)
{
    free_on(MEND_NO_STREAM, pointer);
}

/* It follows the end of a session. A capture forbids the wait. Idle memory is released then. */
static void empty_cache(void)
{
    mend_result result = mend_device_trim(MEND_ALL_DEVICES, 0, MEND_TRIM_WAIT, NULL);
    mend_hooks_note(result == MEND_ERROR_CAPTURING ? MEND_OK : result,
                    "empty_cache of ONNX Runtime");
}

/* ---- functions of a stream ------------------------------------------------------------------- */

#define SLOTS(X)                                                                                   \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/* Each stream, plus 1. 0: no stream yet. A slot keeps its stream, because nothing tells when the
 * last session with its functions has ended. */
static _Atomic uintptr_t slots[MEND_ORT_STREAMS];

static mend_stream stream_of(int slot)
{
    return (mend_stream)(atomic_load_explicit(&slots[slot], memory_order_acquire) - 1);
}

#define X(slot)                                                                                    \
    static void *alloc_##slot(size_t size)                                                         \
    {                                                                                              \
        return alloc_on(stream_of(slot), size);                                                    \
    }                                                                                              \
    static void free_##slot(void *pointer)                                                         \
    {                                                                                              \
        free_on(stream_of(slot), pointer);                                                         \
    }
SLOTS(X)
#undef X

static const mend_ort_functions functions_of[] = {
#define X(slot) {sizeof(mend_ort_functions), alloc_##slot, free_##slot, empty_cache},
    SLOTS(X)
#undef X
};

_Static_assert(sizeof(functions_of) / sizeof(*functions_of) == MEND_ORT_STREAMS,
               "each slot has its functions");

/* As base/align.h, which plug-ins do not include. */
static bool is_whole(const mend_ort_functions *functions)
{
    return functions->struct_size >= sizeof(size_t) && functions->struct_size % sizeof(size_t) == 0;
}

mend_result mend_ort_functions_for(mend_stream stream, mend_ort_functions *functions)
{
    const uintptr_t key = (uintptr_t)stream + 1;
    /* The handle 2 means another stream in each thread. */
    const bool names_one = stream != MEND_NO_STREAM && stream != MEND_STREAM_OF(2);
    mend_ort_functions chosen = {sizeof(chosen), alloc_idle, free_idle, empty_cache};
    if (functions == NULL || !is_whole(functions)) {
        return mend_get_allocator(MEND_ALL_DEVICES, NULL); /* fails, and gives the reason */
    }
    for (int i = 0; i < MEND_ORT_STREAMS && names_one; i++) {
        uintptr_t found = 0;
        if (atomic_compare_exchange_strong(&slots[i], &found, key) || found == key) {
            chosen = functions_of[i];
            break;
        }
    }
    const size_t size_bytes = functions->struct_size;
    memcpy(functions, &chosen, size_bytes < sizeof(*functions) ? size_bytes : sizeof(*functions));
    functions->struct_size = size_bytes;
    return MEND_OK;
}

uint64_t mend_hook_failures(void)
{
    return mend_hooks_failures();
}
