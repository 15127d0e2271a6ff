/* Objects of one size, kept for reuse. An operation reserves all objects that it may need before it
 * changes anything (mend_slab_reserve). From then on taking one cannot fail. An operation that lets
 * other threads take objects in between has its own objects promised. */
#ifndef MEND_BASE_SLAB_H
#define MEND_BASE_SLAB_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct mend_slab {
    size_t object_bytes;
    void *free_list;       /* freed: linked through the first word of each */
    char *fresh;           /* never taken yet: side by side, in the newest host allocation */
    size_t fresh_count;    /* number of these */
    void *blocks;          /* host allocations, linked through their first word */
    size_t free_count;     /* objects that can be taken, fresh ones included */
    size_t promised_count; /* of the free objects: promised to operations in progress */
    size_t used_count;
} mend_slab;

/* object_bytes is rounded up to hold a pointer. Objects of a cache line or more begin at one. */
void mend_slab_init(mend_slab *slab, size_t object_bytes);

/* Afterwards at least `count` objects can be taken. False if malloc fails: nothing changed. */
bool mend_slab_make(mend_slab *slab, size_t missing_count);
static inline bool mend_slab_reserve(mend_slab *slab, size_t count)
{
    assert(slab->object_bytes >= sizeof(void *));
    size_t wanted = count + slab->promised_count;
    return slab->free_count >= wanted || mend_slab_make(slab, wanted - slab->free_count);
}

/* The same, but whatever others take and reserve, until mend_slab_end_promise with the same
 * count. */
static inline bool mend_slab_promise(mend_slab *slab, size_t count)
{
    bool is_reserved = mend_slab_reserve(slab, count);
    slab->promised_count += is_reserved ? count : 0;
    return is_reserved;
}

static inline void mend_slab_end_promise(mend_slab *slab, size_t count)
{
    assert(slab->promised_count >= count);
    slab->promised_count -= count;
}

/* Returns an object that the caller reserved before: uninitialized, or zeroed. */
static inline void *mend_slab_take_as_it_is(mend_slab *slab)
{
    assert(slab->free_count > 0);
    void *object = slab->free_list;
    if (object != NULL) {
        memcpy(&slab->free_list, object, sizeof(void *));
        __builtin_prefetch(slab->free_list, 1); /* for the next call */
    } else {
        assert(slab->fresh_count > 0);
        object = slab->fresh;
        slab->fresh += slab->object_bytes;
        slab->fresh_count--;
    }
    slab->free_count--;
    slab->used_count++;
    return object;
}
void *mend_slab_take(mend_slab *slab);
void mend_slab_give(mend_slab *slab, void *object);

/* Frees all host memory, objects in use included. */
void mend_slab_clear(mend_slab *slab);

/* Asks the system for large pages in [start, start + bytes), as far as whole ones lie in it. Random
 * accesses to a large table then miss the processor's page tables less often. A wish: nothing else
 * changes. Best before the memory is used. */
void mend_pages_prefer_large(void *start, size_t bytes);

#endif
