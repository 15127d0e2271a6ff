/*
 * Objects of one size, kept for reuse. Its point is mend_slab_reserve: an operation asks for all it
 * may need before it changes anything, and from then on taking an object cannot fail. An operation
 * that lets others take objects in between has its own promised to it.
 */
#ifndef MEND_BASE_SLAB_H
#define MEND_BASE_SLAB_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct mend_slab {
    size_t object_bytes;
    void *free_list; /* linked through the first word of each object */
    void *blocks;    /* host allocations, linked through their first word */
    size_t free_count;
    size_t promised_count; /* of these, to operations under way */
    size_t used_count;
} mend_slab;

/* object_bytes is rounded up to hold a pointer. Objects of a cache line or more begin at one. */
void mend_slab_init(mend_slab *slab, size_t object_bytes);

/* At least `count` objects can be taken from now on. False when malloc fails: nothing changed. */
bool mend_slab_make(mend_slab *slab, size_t missing_count);
static inline bool mend_slab_reserve(mend_slab *slab, size_t count)
{
    size_t wanted = count + slab->promised_count;
    return slab->free_count >= wanted || mend_slab_make(slab, wanted - slab->free_count);
}

/* The same, whatever others take and reserve, until mend_slab_end_promise with the same count. */
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

/* A zeroed object. The caller reserved it. */
void *mend_slab_take(mend_slab *slab);
void mend_slab_give(mend_slab *slab, void *object);

/* Frees all host memory, objects in use included. */
void mend_slab_clear(mend_slab *slab);

#endif
