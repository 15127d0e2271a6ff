/* Objects lie in host allocations that grow with the slab, on cache lines of their own where they
 * are large. The free ones form a list through their first bytes. */
#include "base/slab.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/align.h"

/* A slab grows by a part of its size, so that many objects lie on few large pages. */
enum {
    FEWEST_IN_BLOCK = 64,
    PARTS_OF_GROWTH = 8,
    LARGEST_BLOCK_BYTES = 16 << 20,
    CACHE_LINE_BYTES = 64
};

/* The head of a host allocation, with the largest alignment that any object asks for. */
typedef union block_head {
    void *next;
    max_align_t align;
} block_head;
static_assert(CACHE_LINE_BYTES % alignof(max_align_t) == 0, "a cache line is aligned for any type");

/* Only whole large pages are named: a part of one cannot be large. */
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

void mend_slab_init(mend_slab *slab, size_t object_bytes)
{
    assert(object_bytes > 0);
    size_t unit = object_bytes < CACHE_LINE_BYTES ? alignof(max_align_t) : CACHE_LINE_BYTES;
    *slab = (mend_slab){.object_bytes = (object_bytes + unit - 1) / unit * unit};
}

static void push_free(mend_slab *slab, void *object)
{
    assert(object != slab->free_list);
    memcpy(object, &slab->free_list, sizeof(void *));
    slab->free_list = object;
    slab->free_count++;
}

bool mend_slab_make(mend_slab *slab, size_t missing_count)
{
    assert(missing_count > 0);
    assert(slab->fresh_count <= slab->free_count);
    const size_t part = (slab->used_count + slab->free_count) / PARTS_OF_GROWTH;
    const size_t most = LARGEST_BLOCK_BYTES / slab->object_bytes;
    const size_t wanted = mend_max_u64(mend_min_u64(part, most), FEWEST_IN_BLOCK);
    const size_t made = mend_max_u64(wanted, missing_count);
    const size_t bytes = sizeof(block_head) + CACHE_LINE_BYTES + made * slab->object_bytes;
    block_head *block = malloc(bytes);
    if (block == NULL) {
        return false;
    }
    mend_pages_prefer_large(block, bytes);
    block->next = slab->blocks;
    slab->blocks = block;
    for (; slab->fresh_count > 0; slab->fresh_count--) { /* fewer than are missing */
        slab->free_count--;
        push_free(slab, slab->fresh + (slab->fresh_count - 1) * slab->object_bytes);
    }
    slab->fresh = (char *)(block + 1);
    slab->fresh += -(uintptr_t)slab->fresh % CACHE_LINE_BYTES;
    slab->fresh_count = made;
    slab->free_count += made;
    return true;
}

void *mend_slab_take(mend_slab *slab)
{
    return memset(mend_slab_take_as_it_is(slab), 0, slab->object_bytes);
}

void mend_slab_give(mend_slab *slab, void *object)
{
    assert(slab->used_count > 0);
    slab->used_count--;
    push_free(slab, object);
}

void mend_slab_clear(mend_slab *slab)
{
    while (slab->blocks != NULL) {
        block_head *block = slab->blocks;
        slab->blocks = block->next;
        free(block);
    }
    mend_slab_init(slab, slab->object_bytes);
}
