/*
 * Backups of memory that sleeps, or slept, in a trial. The model notes for each page of a block its
 * contents at the last sleep. A read begins and ends anywhere, also behind its block, and must give
 * these contents: never the bytes of an older sleep, nor of a dead block.
 */
#include <stdlib.h>
#include <string.h>

#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/sim/asleep.h"

#define LLU(value) ((unsigned long long)(value))

#define ANY_TAG    UINT64_MAX

static trial_slept *slept_at(trial *t, const trial_block *block, uint64_t address)
{
    const uint64_t page = address / t->page_bytes - block->address / t->page_bytes;
    return page < TRIAL_SLEPT_PAGES ? &t->slept[block - t->blocks][page] : NULL;
}

static bool sleeps_at(const trial *t, int pool, uint64_t address)
{
    const mend_chunk *chunk = mend_chunk_at(&t->pools[pool].pool->heap.chunks, address);
    return chunk != NULL && mend_chunk_sleeps(chunk);
}

/* The result of a call by the pages of a block. */
typedef struct pages {
    bool all_kept;   /* all of them sleep, each kept */
    bool any_fell;   /* asleep, by the call */
    bool drops;      /* it dropped one */
    bool is_dropped; /* one was dropped, and nobody could write it since */
} pages;

/* Contents after work of graphs are unknown. */
static pages note_pages(trial *t, trial_block *block, int keep, bool was_asleep)
{
    const bool is_known = block->written && block->graph_pool == NOBODY && block->written_in == 0;
    const uint64_t end = block->address + block->size_bytes;
    pages all = {.all_kept = true};
    for (uint64_t at = block->address; at < end;
         at = mend_align_down(at, t->page_bytes) + t->page_bytes) {
        trial_slept *slept = slept_at(t, block, at);
        const bool sleeps = sleeps_at(t, block->pool, at);
        const bool falls = slept != NULL && sleeps && !slept->sleeps;
        const bool drops = falls && keep == MEND_DISCARD;
        if (falls) {
            slept->tag = is_known ? block->tag : ANY_TAG;
            slept->is_kept = keep == MEND_BACKUP_HOST || keep == MEND_BACKUP_FILE;
        }
        if (slept != NULL) {
            slept->sleeps = sleeps;
            slept->is_dropped = (was_asleep && slept->is_dropped) || drops;
            all.is_dropped |= slept->is_dropped;
        }
        all.all_kept &= sleeps && slept != NULL && slept->is_kept;
        all.any_fell |= falls;
        all.drops |= drops;
        block->has_slept = block->has_slept || sleeps;
    }
    return all;
}

/* A block that says nothing has its contents, and is compared. */
void trial_note_kept(trial *t, trial_block *block, int keep, bool was_asleep, bool says)
{
    if (!block->has_slept) {
        memset(t->slept[block - t->blocks], 0, sizeof(t->slept[0]));
    }
    const pages now = note_pages(t, block, keep, was_asleep);
    trial_claim(t, TRIAL_MODEL, says || !now.is_dropped,
                "the block at 0x%llx does not say that it was dropped, and nobody could write it",
                LLU(block->address));
    trial_claim(t, TRIAL_MODEL,
                says == block->dropped || (says ? now.drops : now.any_fell && now.all_kept),
                "the block at 0x%llx %s without a reason", LLU(block->address),
                says ? "says that it was dropped" : "forgets that it was dropped");
    trial_claim(t, TRIAL_MODEL, !says || was_asleep || !now.any_fell || !now.all_kept,
                "a sleep kept all of the block at 0x%llx, and it says that it was dropped",
                LLU(block->address));
    block->written = block->written && !now.drops;
    block->dropped = says;
}

trial_block *trial_block_at(trial *t, int pool, uint64_t address)
{
    TRIAL_EACH_BLOCK(trial_block, block, t) {
        if (block->live && block->pool == pool && address >= block->address &&
            address - block->address < block->size_bytes) {
            return block;
        }
    }
    return NULL;
}

/* All that was read, granule by granule. Blocks that slept may have been freed asleep. */
static void check_bytes(trial *t, const trial_call *call)
{
    const uint64_t begin = (uint64_t)(uintptr_t)call->pointer;
    const uint64_t end = begin + call->size_bytes;
    for (uint64_t at = begin; at < end; at = mend_align_down(at, 512) + 512) {
        const trial_block *block = trial_block_at(t, call->pool, at);
        const trial_slept *slept =
            block != NULL && block->has_slept ? slept_at(t, block, at) : NULL;
        /* The model knows nothing about pages beyond the largest drawn device. */
        const uint64_t beyond = block != NULL && block->has_slept ? ANY_TAG : 0;
        const uint64_t tag = slept != NULL ? slept->tag : beyond;
        const unsigned char *bytes = (const unsigned char *)call->host + (at - begin);
        const uint64_t pattern[2] = {tag, block != NULL ? (at - block->address) / 512 : 0};
        trial_claim(t, TRIAL_MODEL, tag != 0 || (block == NULL && sleeps_at(t, call->pool, at)),
                    "what was kept at 0x%llx was read, and nothing was", LLU(at));
        trial_claim(t, TRIAL_CONTENT,
                    tag == 0 || tag == ANY_TAG || t->config.content == 0 || at % 512 != 0 ||
                        end - at < 16 || memcmp(bytes, pattern, sizeof(pattern)) == 0,
                    "what was kept at 0x%llx is not what slept there last", LLU(at));
    }
}

/* Whether all of it sleeps, and was kept. */
static bool must_be_there(trial *t, const trial_call *call)
{
    const uint64_t begin = (uint64_t)(uintptr_t)call->pointer;
    bool is_there = !call->faulty;
    for (uint64_t at = begin; at < begin + call->size_bytes && is_there;
         at = mend_align_down(at, 512) + 512) {
        const trial_block *block = trial_block_at(t, call->pool, at);
        const trial_slept *slept =
            block != NULL && block->has_slept ? slept_at(t, block, at) : NULL;
        is_there = slept != NULL && slept->sleeps && slept->is_kept;
    }
    return is_there;
}

bool trial_read_backup(trial *t, const operation *op)
{
    enum { BEYOND = 8192 };
    const trial_block *block = NULL;
    for (int i = 0; i < TRIAL_BLOCKS && block == NULL; i++) {
        const trial_block *at = &t->blocks[(op->slot + i) % TRIAL_BLOCKS];
        block = at->live && at->has_slept ? at : NULL;
    }
    if (block == NULL) {
        return false;
    }
    const uint64_t from = op->size * UINT64_C(97) * (1 + op->stream) % block->size_bytes;
    const uint64_t left = block->size_bytes - from;
    const bool goes_on = (op->amount & 1) != 0;
    trial_block *behind = trial_block_at(t, block->pool, block->address + block->size_bytes);
    if ((op->amount & 4) != 0 && behind != NULL && behind->range == 0) {
        trial_free_here(t, trial_thread_of(t, behind->home, op->thread), false, behind);
    }
    unsigned char *bytes = malloc(left + BEYOND);
    trial_call call = {.kind = (op->amount & 2) != 0 ? CALL_FIND_KEPT : CALL_READ_KEPT,
                       .pool = block->pool,
                       .pointer = (void *)(uintptr_t)(block->address + from),
                       .size_bytes = goes_on ? left + op->alignment * UINT64_C(123) % BEYOND
                                             : 1 + op->alignment * UINT64_C(1237) % left,
                       .host = bytes};
    if (bytes == NULL) {
        return false;
    }
    const mend_result result = trial_call_pool(t, op->thread % t->turns.count, &call);
    if (result == MEND_OK) {
        check_bytes(t, &call);
    } else if (call.kind == CALL_READ_KEPT) {
        trial_claim(t, TRIAL_MODEL, !must_be_there(t, &call), "what is kept cannot be read: %s",
                    call.message);
    }
    free(bytes);
    return true;
}
