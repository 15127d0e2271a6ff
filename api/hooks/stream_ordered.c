/* Stream-ordered allocation with plain types, for foreign-function interfaces. */
#include "hooks/failures.h"
#include "mend/mend_hooks.h"

int mend_hook_alloc(int device, size_t size, mend_stream stream, void **pointer)
{
    return (int)mend_device_alloc(device, size, stream, pointer);
}

int mend_hook_free(int device, void *pointer, size_t size, mend_stream stream)
{
    return (int)mend_device_free(device, pointer, size, stream);
}

int mend_hook_record_stream(int device, void *pointer, mend_stream stream)
{
    return (int)mend_device_record_stream(device, pointer, stream);
}

int mend_hook_trim(int device, size_t keep)
{
    return (int)mend_device_trim(device, keep, NULL);
}

uint64_t mend_hook_failures(void)
{
    return mend_hooks_failures();
}
