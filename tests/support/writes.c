#include "tests/support/writes.h"

#include <stdatomic.h>
#include <unistd.h>

static _Atomic(void (*)(const void *bytes, size_t count)) before;

void mend_test_before_writes(void (*hook)(const void *bytes, size_t count))
{
    atomic_store(&before, hook);
}

/* The linker's names. */
ssize_t __real_pwrite(int file, const void *bytes, size_t count, off_t at);
ssize_t __wrap_pwrite(int file, const void *bytes, size_t count, off_t at);

ssize_t __wrap_pwrite(int file, const void *bytes, size_t count, off_t at)
{
    void (*const hook)(const void *, size_t) = atomic_load(&before);
    if (hook != NULL) {
        hook(bytes, count);
    }
    return __real_pwrite(file, bytes, count, at);
}
