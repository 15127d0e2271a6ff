/* Only whole large pages are named: a part of one cannot be large. */
#include "base/pages.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

static const uintptr_t large_page_bytes = (uintptr_t)2 << 20;

void mend_pages_prefer_large(void *start, size_t bytes)
{
    assert(start != NULL);
    const uintptr_t first = (uintptr_t)start + -(uintptr_t)start % large_page_bytes;
    const uintptr_t end = ((uintptr_t)start + bytes) / large_page_bytes * large_page_bytes;
    if (first < end) {
        /* The system may be built without. */
        (void)madvise((char *)start + (first - (uintptr_t)start), end - first, MADV_HUGEPAGE);
    }
}
