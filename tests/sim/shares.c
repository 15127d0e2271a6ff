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
    if (!block->live || block->range != 0) {
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
        trial_claim(t, TRIAL_MODEL, !block->has_token || is_same,
                    "a block has another token than before");
        block->is_exported = true;
        block->has_token = true;
        block->token = call.token;
    }
    return true;
}

/* FNV-1a; never 0. */
static uint64_t hash_of(const trial_described *d)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < d->size_bytes; i++) {
        hash = (hash ^ d->bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash | 1;
}

/* Asked for the size alone, or of more chunks than there is room for, nothing is exported. */
static bool describe_block(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    trial_described d = {.slot = op->slot % TRIAL_BLOCKS};
    const bool asks = op->amount % 2 == 1;
    if (!block->live || block->range != 0) {
        return false;
    }
    uint64_t inside_bytes = mend_min_u64(op->size % 8 * UINT64_C(512), block->size_bytes - 1);
    trial_call call = {.kind = CALL_EXPORT_BY_FABRIC,
                       .pool = block->pool,
                       .pointer = (void *)(uintptr_t)(block->address + inside_bytes),
                       .count = asks ? 0 : sizeof(d.bytes),
                       .described = &d};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) != MEND_OK) {
        return true;
    }
    trial_claim(t, TRIAL_MODEL, call.size_bytes == inside_bytes,
                "a pointer %llu bytes inside a block is described as %llu inside",
                (unsigned long long)inside_bytes, (unsigned long long)call.size_bytes);
    trial_claim(t, TRIAL_MODEL, d.size_bytes > 64 && (d.size_bytes - 64) % 72 == 0,
                "a description has %llu bytes", (unsigned long long)d.size_bytes);
    if (d.size_bytes <= call.count) {
        d.hash = hash_of(&d);
        trial_claim(t, TRIAL_MODEL, block->described_hash == 0 || block->described_hash == d.hash,
                    "a block has another description than before");
        trial_claim(t, TRIAL_MODEL, block->described_hash == d.hash || d.hash != t->described.hash,
                    "two blocks have one description");
        block->is_exported = true;
        block->described_hash = d.hash;
        t->described = d;
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

/* The first block exported by file from a place on; NULL: there is none. */
static const trial_block *exported_from(const trial *t, uint8_t slot)
{
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        const trial_block *block = &t->blocks[(slot + i) % TRIAL_BLOCKS];
        if (block->live && block->has_token) {
            return block;
        }
    }
    return NULL;
}

static void note_import(trial *t, const trial_block *block, const trial_call *call)
{
    trial_imported *import = place_of(t, call->pool, call->pointer);
    import = import != NULL ? import : place_of(t, 0, NULL);
    trial_claim(t, TRIAL_MODEL, call->size_bytes == block->size_bytes,
                "an import has %llu bytes, the block %llu", (unsigned long long)call->size_bytes,
                (unsigned long long)block->size_bytes);
    *import = (trial_imported){call->pointer, call->size_bytes, import->uses + 1, call->pool};
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
    note_import(t, block, &call);
    return true;
}

/* A description outlives its block, but what it then names may be anything. */
static bool import_described(trial *t, const operation *op)
{
    const trial_block *block = &t->blocks[t->described.slot];
    const bool is_there =
        t->described.hash != 0 && block->live && block->described_hash == t->described.hash;
    if (!is_there || place_of(t, 0, NULL) == NULL) {
        return false;
    }
    trial_described d = t->described;
    trial_call call = {
        .kind = CALL_IMPORT_BY_FABRIC, .pool = op->size % t->pool_count, .described = &d};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        note_import(t, block, &call);
    }
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

bool trial_shares(const operation *op)
{
    return op->kind == OP_EXPORT || op->kind == OP_IMPORT || op->kind == OP_CLOSE ||
           op->kind == OP_EXPORT_BY_FABRIC || op->kind == OP_IMPORT_BY_FABRIC;
}

bool trial_is_import(const trial_call *call)
{
    return call->kind == CALL_IMPORT || call->kind == CALL_IMPORT_BY_FABRIC;
}

/* The pool asks for no fabric handles, or no more because the driver has refused once. An import
 * meets NOT_PERMITTED, which is planted, too. */
bool trial_may_lack_fabric(const trial *t, const trial_call *call)
{
    bool has_none = t->config.fabric == 0 ||
                    t->pools[call->pool].pool->heap.chunks.fabric_refusal != MEND_DRIVER_OK;
    return (call->kind == CALL_EXPORT_BY_FABRIC && has_none) ||
           (call->kind == CALL_IMPORT_BY_FABRIC && t->faults_stand);
}

bool trial_share_memory(trial *t, const operation *op)
{
    switch (op->kind) {
    case OP_EXPORT:
        return export_block(t, op);
    case OP_IMPORT:
        return import_block(t, op);
    case OP_EXPORT_BY_FABRIC:
        return describe_block(t, op);
    case OP_IMPORT_BY_FABRIC:
        return import_described(t, op);
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
    case CALL_EXPORT_BY_FABRIC:
        call->result = mend_export_fabric(pool, call->pointer, call->described->bytes, call->count,
                                          &call->described->size_bytes, &call->size_bytes);
        return true;
    case CALL_IMPORT_BY_FABRIC:
        call->result = mend_import_fabric(pool, call->described->bytes, call->described->size_bytes,
                                          &call->pointer, &call->size_bytes);
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
        t->blocks[i].is_exported = t->blocks[i].has_token = false;
        t->blocks[i].described_hash = 0;
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
