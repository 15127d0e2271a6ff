#include "base/slab.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS_PER_BLOCK = 64, CACHE_LINE_BYTES = 64 };

/* The head of a host allocation, with the largest alignment that any object asks for. */
typedef union block_head {
    void *next;
    max_align_t align;
} block_head;
static_assert(CACHE_LINE_BYTES % alignof(max_align_t) == 0, "a cache line is aligned for any type");

void mend_slab_init(mend_slab *slab, size_t object_bytes)
{
    assert(object_bytes > 0);
    size_t unit = object_bytes < CACHE_LINE_BYTES ? alignof(max_align_t) : CACHE_LINE_BYTES;
    *slab = (mend_slab){.object_bytes = (object_bytes + unit - 1) / unit * unit};
}

static void push_free(mend_slab *slab, void *object)
{
    assert(object != NULL);
    assert(object != slab->free_list);
    memcpy(object, &slab->free_list, sizeof(void *));
    slab->free_list = object;
    slab->free_count++;
}

bool mend_slab_make(mend_slab *slab, size_t missing_count)
{
    assert(missing_count > 0);
    size_t made = missing_count > OBJECTS_PER_BLOCK ? missing_count : OBJECTS_PER_BLOCK;
    block_head *block = malloc(sizeof(block_head) + CACHE_LINE_BYTES + made * slab->object_bytes);
    if (block == NULL) {
        return false;
    }
    block->next = slab->blocks;
    slab->blocks = block;
    char *objects = (char *)(block + 1);
    objects += -(uintptr_t)objects % CACHE_LINE_BYTES;
    for (size_t i = made; i > 0; i--) {
        push_free(slab, objects + (i - 1) * slab->object_bytes);
    }
    return true;
}

void *mend_slab_take(mend_slab *slab)
{
    assert(slab->free_count > 0);
    assert(slab->free_list != NULL);
    void *object = slab->free_list;
    memcpy(&slab->free_list, object, sizeof(void *));
    slab->free_count--;
    slab->used_count++;
    memset(object, 0, slab->object_bytes);
    return object;
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
    assert(slab->blocks == NULL);
    mend_slab_init(slab, slab->object_bytes);
}
