/* The handler for cuStateVec, cuTensorNet and cuDSS: its context is the device. */
#include "mend/mend_hooks.h"

#include <string.h>

static int handler_alloc(void *ctx, void **pointer, size_t size, mend_stream stream)
{
    return (int)mend_device_alloc((int)(intptr_t)ctx, size, stream, pointer);
}

static int handler_free(void *ctx, void *pointer, size_t size, mend_stream stream)
{
    return (int)mend_device_free((int)(intptr_t)ctx, pointer, size, stream);
}

mend_result mend_hook_handler(int device, mend_device_handler *handler)
{
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    if (handler == NULL) {
        return mend_get_allocator(device, NULL); /* fails, and its message gives the reason */
    }
    mend_result result = mend_get_allocator(device, &allocator);
    if (result == MEND_OK) {
        *handler = (mend_device_handler){.ctx = (void *)(intptr_t)device,
                                         .alloc = handler_alloc,
                                         .free = handler_free,
                                         .name = "mend"};
    }
    return result;
}
