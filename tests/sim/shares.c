/*
 * Exports and imports. A pool imports what a pool of the same process exports: the block is mapped
 * once more, and stays so whatever becomes of it. Exported blocks keep their mappings: see the
 * witness.
 */
#include <string.h>

#include "move/import.h"
#include "pool/pool.h"
#include "tests/sim/trial.h"

static bool export_block(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    if (!block->live) {
        return false;
    }
    uint64_t inside_bytes = mend_min_u64(op->size % 8 * UINT64_C(512), block->size_bytes - 1);
    trial_call call = {.kind = CALL_EXPORT,
                       .pool = block->pool,
                       .pointer = (void *)(uintptr_t)(block->address + inside_bytes)};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        bool is_same = memcmp(&call.token, &block->token, sizeof(call.token)) == 0;
        trial_claim(t, TRIAL_MODEL, call.size_bytes == inside_bytes,
                    "a pointer %llu bytes inside a block is exported as %llu inside",
                    (unsigned long long)inside_bytes, (unsigned long long)call.size_bytes);
        trial_claim(t, TRIAL_MODEL, !block->is_exported || is_same,
                    "a block has another token than before");
        block->is_exported = true;
        block->token = call.token;
    }
    return true;
}

static trial_imported *place_of(trial *t, int pool, const void *pointer)
{
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        if (t->imports[i].pointer == pointer && (pointer == NULL || t->imports[i].pool == pool)) {
            return &t->imports[i];
        }
    }
    return NULL;
}

/* The first exported block from a place on; NULL: there is none. */
static const trial_block *exported_from(const trial *t, uint8_t slot)
{
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        const trial_block *block = &t->blocks[(slot + i) % TRIAL_BLOCKS];
        if (block->live && block->is_exported) {
            return block;
        }
    }
    return NULL;
}

static bool import_block(trial *t, const operation *op)
{
    const trial_block *block = exported_from(t, op->slot);
    if (block == NULL || place_of(t, 0, NULL) == NULL) {
        return false;
    }
    trial_call call = {
        .kind = CALL_IMPORT, .pool = op->size % t->pool_count, .token = block->token};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) != MEND_OK) {
        return true;
    }
    trial_imported *import = place_of(t, call.pool, call.pointer);
    import = import != NULL ? import : place_of(t, 0, NULL);
    trial_claim(t, TRIAL_MODEL, call.size_bytes == block->size_bytes,
                "an import has %llu bytes, the block %llu", (unsigned long long)call.size_bytes,
                (unsigned long long)block->size_bytes);
    *import = (trial_imported){call.pointer, call.size_bytes, import->uses + 1, call.pool};
    return true;
}

/* Without a stream: no work uses the import, and a capture forbids the wait. */
static void close_import(trial *t, trial_imported *import, int thread)
{
    trial_call call = {.kind = CALL_CLOSE,
                       .pool = import->pool,
                       .pointer = import->pointer,
                       .stream = MEND_NO_STREAM};
    if (trial_call_pool(t, thread, &call) == MEND_OK && --import->uses == 0) {
        *import = (trial_imported){0};
    }
}

static bool close_one(trial *t, const operation *op)
{
    trial_imported *import = &t->imports[op->slot % TRIAL_IMPORTS];
    if (import->pointer == NULL || t->captures > 0) {
        return false;
    }
    close_import(t, import, op->thread % t->turns.count);
    return true;
}

bool trial_share_memory(trial *t, const operation *op)
{
    switch (op->kind) {
    case OP_EXPORT:
        return export_block(t, op);
    case OP_IMPORT:
        return import_block(t, op);
    default:
        return close_one(t, op);
    }
}

bool trial_call_share(trial_call *call, mend_pool *pool)
{
    switch (call->kind) {
    case CALL_EXPORT:
        call->result = mend_export(pool, call->pointer, &call->token, &call->size_bytes);
        return true;
    case CALL_IMPORT:
        call->result = mend_import(pool, &call->token, &call->pointer, &call->size_bytes);
        return true;
    case CALL_CLOSE:
        call->result = mend_import_close(pool, call->pointer, call->stream);
        return true;
    default:
        return false;
    }
}

/* Where the context is lost, or a pool takes a capture to be in progress, the calls fail. */
void trial_end_shares(trial *t)
{
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        for (uint64_t uses = t->imports[i].uses; uses > 0; uses--) {
            close_import(t, &t->imports[i], 0);
        }
    }
}

void trial_forget_shares(trial *t)
{
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        t->imports[i] = (trial_imported){0};
    }
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        t->blocks[i].is_exported = false;
    }
}

uint64_t trial_lingering_bytes(const trial *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->pool_count; i++) {
        const mend_heap *heap = &t->pools[i].pool->heap;
        bytes += heap->imports.bytes;
        for (mend_tree_node *at = mend_tree_first(&heap->retire.mappings); at != NULL;
             at = mend_tree_next(at)) {
            const mend_retired *retired = MEND_CONTAINER_OF(at, mend_retired, by_address);
            bytes += retired->handle == 0 ? retired->size_bytes : 0;
        }
        const mend_list *end = &heap->imports.unreleased;
        for (const mend_list *at = end->next; at != end; at = at->next) {
            bytes += MEND_CONTAINER_OF(at, const mend_imported, link)->all_bytes;
        }
    }
    return bytes;
}
