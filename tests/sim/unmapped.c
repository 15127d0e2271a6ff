/*
 * Blocks that a compaction could not map again. A program does not use them, may free them, and
 * goes on with all else while the driver still refuses. A pool says which they are. They come about
 * only in calls that compaction and that something planted met, and none is left once nothing
 * fails.
 */
#include "pool/pool.h"
#include "tests/sim/trial.h"

#define LLU(value) ((unsigned long long)(value))

/* Whether the pool says that a block is unmapped: it is asked only where it may be. */
static bool is_unmapped(trial *t, const trial_block *block)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    const void *pointer = (const void *)(uintptr_t)block->address;
    mend_result result = mend_get_block_info(t->pools[block->pool].pool, pointer, &info);
    trial_claim(t, TRIAL_MODEL, result == MEND_OK, "mend_get_block_info: %s",
                mend_result_name(result));
    return result == MEND_OK && info.is_unmapped != 0;
}

static void note_block(trial *t, trial_block *block)
{
    bool was_unmapped = block->unmapped;
    block->unmapped = is_unmapped(t, block);
    if (block->unmapped && !was_unmapped) {
        t->outcome->tally.unmapped++;
        trial_claim(t, TRIAL_MODEL, t->may_unmap && (block->graph_pool == NOBODY || t->had_sleep),
                    "the block at 0x%llx lost its mapping without a reason", LLU(block->address));
    }
}

void trial_note_unmapped(trial *t)
{
    for (int i = 0; i < t->pool_count; i++) {
        uint64_t unmapped = 0;
        bool may_be = t->pools[i].pool->heap.chunks.missing_count > 0;
        for (int k = 0; k < TRIAL_BLOCKS; k++) {
            trial_block *block = &t->blocks[k];
            if (block->live && block->pool == i && (may_be || block->unmapped)) {
                note_block(t, block);
                unmapped += block->unmapped;
            }
        }
        uint64_t counted = trial_stats(t, i).unmapped_blocks;
        trial_claim(t, TRIAL_MODEL, unmapped == counted,
                    "pool %d: %llu blocks are unmapped, it counts %llu", i, LLU(unmapped),
                    LLU(counted));
    }
}

void trial_map_again(trial *t)
{
    for (int i = 0; i < t->pool_count; i++) {
        const mend_chunks *chunks = &t->pools[i].pool->heap.chunks;
        if (chunks->missing_count == 0 || t->stopped || t->may_be_lost) {
            continue;
        }
        trial_call call = {.kind = CALL_TRIM, .pool = i, .size_bytes = UINT64_MAX};
        bool is_explained = t->malloc_fails || t->ambush.set;
        trial_call_pool(t, 0, &call);
        trial_claim(t, TRIAL_RESULT, chunks->missing_count == 0 || is_explained,
                    "pool %d does not map again what a compaction could not", i);
    }
    trial_note_unmapped(t);
}
