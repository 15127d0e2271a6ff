/*
 * Granules: a chunk may be mapped at two addresses, and each of its granules belongs to one block
 * at most, whatever its mappings, and a block may have to lie in one chunk. The contents of
 * addresses are known from driver calls alone.
 */
#include <stdlib.h>

#include "layout/state.h"
#include "tests/sim/trial.h"

#define LLU(value) ((unsigned long long)(value))

/* A part of a chunk that a block lies in. */
typedef struct stretch {
    mend_chunk_handle handle;
    uint64_t from;
    uint64_t to;
    uint64_t block;
} stretch;

static bool has_other(const trial_witness *w, const trial_mapping *map)
{
    bool has = false;
    for (size_t i = 0; i < w->map_count; i++) {
        has = has || (&w->maps[i] != map && w->maps[i].handle == map->handle);
    }
    return has;
}

void trial_note_map(trial *t, uint64_t address, uint64_t size_bytes, mend_chunk_handle handle)
{
    trial_witness *w = &t->witness;
    if (w->map_count == WITNESS_MAPS) {
        w->lost_maps = true;
        return;
    }
    trial_mapping *map = &w->maps[w->map_count++];
    *map = (trial_mapping){address, size_bytes, handle};
    w->doubles += has_other(w, map);
}

void trial_note_unmap(trial *t, uint64_t address, uint64_t size_bytes)
{
    trial_witness *w = &t->witness;
    for (size_t i = 0; i < w->map_count;) {
        if (w->maps[i].address - address < size_bytes) {
            w->doubles -= has_other(w, &w->maps[i]);
            w->maps[i] = w->maps[--w->map_count];
        } else {
            i++;
        }
    }
}

static const trial_mapping *map_at(const trial_witness *w, uint64_t address)
{
    for (size_t i = 0; i < w->map_count; i++) {
        if (address - w->maps[i].address < w->maps[i].size_bytes) {
            return &w->maps[i];
        }
    }
    return NULL;
}

static int compare_stretches(const void *first, const void *second)
{
    const stretch *a = first;
    const stretch *b = second;
    if (a->handle != b->handle) {
        return a->handle < b->handle ? -1 : 1;
    }
    return (a->from > b->from) - (a->from < b->from);
}

/* The stretches of a block, behind the first `count` of the list. */
static size_t add_block(trial *t, const trial_block *block, stretch *list, size_t count)
{
    const uint64_t end = block->address + block->size_bytes;
    for (uint64_t at = block->address; at < end && count < WITNESS_MAPS;) {
        const trial_mapping *map = map_at(&t->witness, at);
        if (!trial_claim(t, TRIAL_RULE, map != NULL, "the block at 0x%llx is not mapped at 0x%llx",
                         LLU(block->address), LLU(at))) {
            return count;
        }
        uint64_t to = mend_min_u64(end, map->address + map->size_bytes);
        list[count++] =
            (stretch){map->handle, at - map->address, to - map->address, block->address};
        at = to;
    }
    return count;
}

void trial_check_granules(trial *t)
{
    for (int i = 0; i < TRIAL_BLOCKS && !t->witness.lost_maps && !t->stopped; i++) {
        const trial_block *block = &t->blocks[i];
        if (block->live && block->in_one_chunk) { /* it is, by the driver's calls */
            const trial_mapping *map = map_at(&t->witness, block->address);
            trial_claim(t, TRIAL_RULE,
                        map != NULL &&
                            block->size_bytes <= map->address + map->size_bytes - block->address,
                        "the block at 0x%llx does not lie in one chunk", LLU(block->address));
        }
    }
    stretch list[WITNESS_MAPS];
    size_t count = 0;
    if (t->witness.doubles == 0 || t->witness.lost_maps || t->stopped) {
        return;
    }
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        const trial_block *block = &t->blocks[i];
        if (block->live && !block->unmapped && !block->asleep && block->zone != MEND_ZONE_PASSED) {
            count = add_block(t, block, list, count);
        }
    }
    qsort(list, count, sizeof(*list), compare_stretches);
    for (size_t i = 1; i < count; i++) {
        const stretch *before = &list[i - 1];
        const stretch *at = &list[i];
        trial_claim(t, TRIAL_RULE, before->handle != at->handle || before->to <= at->from,
                    "the blocks at 0x%llx and 0x%llx lie in the same memory", LLU(before->block),
                    LLU(at->block));
    }
}
