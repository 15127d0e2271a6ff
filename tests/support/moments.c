#include "tests/support/moments.h"

#include <stdatomic.h>
#include <unistd.h>

#include "map/map.h"

static _Atomic(void (*)(const void *bytes, size_t count)) before;
static _Atomic(void (*)(void)) behind;

void mend_test_before_writes(void (*hook)(const void *bytes, size_t count))
{
    atomic_store(&before, hook);
}

void mend_test_behind_looks(void (*hook)(void))
{
    atomic_store(&behind, hook);
}

/* The linker's names. */
void __real_mend_heap_unlock_after_read(mend_heap *heap);
void __wrap_mend_heap_unlock_after_read(mend_heap *heap);
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

void __wrap_mend_heap_unlock_after_read(mend_heap *heap)
{
    void (*const hook)(void) = atomic_load(&behind);
    __real_mend_heap_unlock_after_read(heap);
    if (hook != NULL) {
        hook();
    }
}
