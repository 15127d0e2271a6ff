/* ONNX Runtime's external allocator, which names neither device nor stream. */
#include "hooks/failures.h"
#include "mend/mend_hooks.h"

void *mend_ort_alloc(size_t size)
{
    void *pointer = NULL;
    mend_result result = mend_device_alloc(MEND_ALL_DEVICES, size, MEND_NO_STREAM, &pointer);
    return result == MEND_OK ? pointer : NULL;
}

void mend_ort_free(void *pointer)
{
    mend_hooks_note(mend_device_free(MEND_ALL_DEVICES, pointer, 0, MEND_NO_STREAM),
                    "a free of ONNX Runtime");
}

void mend_ort_empty_cache(void)
{
    mend_hooks_note(mend_device_trim(MEND_ALL_DEVICES, 0, NULL), "empty_cache of ONNX Runtime");
}
