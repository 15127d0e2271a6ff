/* CuPy's CFunctionAllocator, which names no stream. */
#include "hooks/failures.h"
#include "mend/mend_hooks.h"

void *mend_cupy_malloc(void *param, size_t size, int device)
{
    void *pointer = NULL;
    (void)param;
    return mend_device_alloc(device, size, MEND_NO_STREAM, &pointer) == MEND_OK ? pointer : NULL;
}

void mend_cupy_free(void *param, void *pointer, int device)
{
    (void)param;
    mend_hooks_note(mend_device_free(device, pointer, 0, MEND_NO_STREAM), "a free of CuPy");
}
