/*
 * Exports and imports. A pool imports a block of a pool of the same process: the block is mapped
 * once more, and stays so whatever happens to it. Exported blocks keep their mappings: see the
 * witness.
 */
#include <string.h>

#include "base/words.h"
#include "map/map.h"
#include "pool/pool.h"
#include "share/share.h"
#include "tests/sim/ranges.h"
#include "tests/support/options.h"

/* By file. `count` bytes of pages, or 0: the block of a pointer. */
mend_result trial_call_export(trial_call *call, mend_pool *pool)
{
    return call->count == 0
               ? mend_export(pool, call->pointer, NULL, &call->token, MEND_EXPORT_TOKEN_BYTES, NULL,
                             &call->size_bytes)
               : mend_export(pool, call->pointer,
                             KIT_OPTIONS(mend_export_options, .size_bytes = call->count),
                             &call->token, MEND_EXPORT_TOKEN_BYTES, NULL, &call->size_bytes);
}

/* The next block or page of the export from a slot on. NULL: no further one. */
static trial_block *next_of(trial *t, uint64_t export_id, int slot)
{
    for (; slot < TRIAL_BLOCKS; slot++) {
        trial_block *block = &t->blocks[slot];
        if (block->live && block->is_exported && block->export_id == export_id) {
            return block;
        }
    }
    return NULL;
}

#define ALL_OF(export, id)                                                                         \
    trial_block *export = next_of(t, id, 0);                                                       \
    export != NULL;                                                                                \
    export = next_of(t, id, (int)(export - t->blocks) + 1)

void trial_end_export(trial *t, const trial_block *block)
{
    if (block->is_exported) {
        for (ALL_OF(part, block->export_id)) {
            part->is_exported = part->has_token = false;
            part->described_hash = 0;
        }
    }
}

/* Of a block, or of so many bytes of pages from it on. */
static void note_export(trial *t, trial_block *first, uint64_t size_bytes)
{
    if (first->is_exported) {
        return;
    }
    const uint64_t id = ++t->last_export;
    for (uint64_t at = first->address; at < first->address + size_bytes;) {
        trial_block *part = at == first->address ? first : trial_page_at(t, at);
        part->is_exported = true;
        part->export_id = id;
        part->exported_at = first->address;
        part->exported_bytes = size_bytes;
        at += part->size_bytes;
    }
}

/* A pointer into the block, or page. */
static uint64_t inside_of(const trial_block *block, const operation *op)
{
    return mend_min_u64(op->size % 8 * UINT64_C(512), block->size_bytes - 1);
}

/* How many bytes of committed pages follow, up to a few pages. 0 of a block: it has no others. */
static uint64_t pages_from(trial *t, const trial_block *block, const operation *op)
{
    uint64_t bytes = block->range != 0 && op->alignment % 2 == 1 ? block->size_bytes : 0;
    for (int i = 0; i < op->alignment / 2 % 4 && bytes > 0; i++) {
        const trial_block *next = trial_page_at(t, block->address + bytes);
        if (next == NULL || next->range != block->range) {
            break;
        }
        bytes += next->size_bytes;
    }
    return bytes;
}

/* Whether the pages are in no export, or all in one. */
static bool is_one_export(trial *t, const trial_block *first, uint64_t size_bytes)
{
    for (uint64_t at = 0; at < size_bytes; at += first->size_bytes) {
        const trial_block *page = trial_page_at(t, first->address + at);
        if (page->is_exported != first->is_exported ||
            (page->is_exported && page->export_id != first->export_id)) {
            return false;
        }
    }
    return true;
}

bool trial_export_block(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    if (!block->live) {
        return false;
    }
    const uint64_t inside_bytes = inside_of(block, op);
    const uint64_t page_bytes = pages_from(t, block, op);
    trial_call call = {.kind = CALL_EXPORT,
                       .pool = block->pool,
                       .pointer = (void *)(uintptr_t)(block->address + inside_bytes),
                       .count = page_bytes > 0 ? page_bytes - inside_bytes : 0};
    if (page_bytes > 0 && !is_one_export(t, block, page_bytes)) {
        call.expected = MEND_ERROR_INVALID_ARGUMENT;
    }
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        note_export(t, block, mend_max_u64(page_bytes, block->size_bytes));
        trial_claim(t, TRIAL_MODEL,
                    call.size_bytes == block->address - block->exported_at + inside_bytes,
                    "a pointer %llu bytes inside a block is exported as %llu inside",
                    (unsigned long long)inside_bytes, (unsigned long long)call.size_bytes);
        trial_claim(t, TRIAL_MODEL,
                    !block->has_token ||
                        memcmp(&call.token, &block->token, sizeof(call.token)) == 0,
                    "a block has another token than before");
        for (ALL_OF(part, block->export_id)) {
            part->has_token = true;
            part->token = call.token;
        }
    }
    return true;
}

/* Asked for the size alone, or of more chunks than there is room for, nothing is exported. */
bool trial_describe_block(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    trial_described d = {.slot = op->slot % TRIAL_BLOCKS};
    const bool asks = op->amount % 2 == 1;
    if (!block->live) {
        return false;
    }
    const uint64_t inside_bytes = inside_of(block, op);
    const uint64_t before_bytes = block->is_exported ? block->address - block->exported_at : 0;
    trial_call call = {.kind = CALL_EXPORT_BY_FABRIC,
                       .pool = block->pool,
                       .pointer = (void *)(uintptr_t)(block->address + inside_bytes),
                       .count = asks ? 0 : sizeof(d.bytes),
                       .described = &d};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) != MEND_OK) {
        return true;
    }
    trial_claim(t, TRIAL_MODEL, call.size_bytes == before_bytes + inside_bytes,
                "a pointer %llu bytes inside a block is described as %llu inside",
                (unsigned long long)inside_bytes, (unsigned long long)call.size_bytes);
    trial_claim(t, TRIAL_MODEL, d.size_bytes > 64 && (d.size_bytes - 64) % 72 == 0,
                "a description has %llu bytes", (unsigned long long)d.size_bytes);
    if (d.size_bytes <= call.count) {
        d.hash = mend_hash(MEND_HASH_OF_NOTHING, d.bytes, d.size_bytes) | 1; /* never 0 */
        trial_claim(t, TRIAL_MODEL, block->described_hash == 0 || block->described_hash == d.hash,
                    "a block has another description than before");
        trial_claim(t, TRIAL_MODEL, block->described_hash == d.hash || d.hash != t->described.hash,
                    "two blocks have one description");
        note_export(t, block, block->size_bytes);
        for (ALL_OF(part, block->export_id)) {
            part->described_hash = d.hash;
        }
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

static void note_import(trial *t, const trial_block *block, const trial_call *call)
{
    trial_imported *import = place_of(t, call->pool, call->pointer);
    import = import != NULL ? import : place_of(t, 0, NULL);
    trial_claim(t, TRIAL_MODEL, call->size_bytes == block->exported_bytes,
                "an import has %llu bytes, the export %llu", (unsigned long long)call->size_bytes,
                (unsigned long long)block->exported_bytes);
    *import = (trial_imported){.pointer = call->pointer,
                               .size_bytes = call->size_bytes,
                               .uses = import->uses + 1,
                               .pool = call->pool,
                               .last_stream = import->uses > 0 ? import->last_stream : NOBODY,
                               .export_id = block->export_id,
                               .by_fabric = call->kind == CALL_IMPORT_BY_FABRIC};
}

bool trial_import_block(trial *t, const operation *op)
{
    const trial_block *block = NULL; /* the first one exported by file from a place on */
    for (int i = 0; i < TRIAL_BLOCKS && block == NULL; i++) {
        const trial_block *at = &t->blocks[(op->slot + i) % TRIAL_BLOCKS];
        block = at->live && at->has_token ? at : NULL;
    }
    if (block == NULL || place_of(t, 0, NULL) == NULL) {
        return false;
    }
    trial_call call = {
        .kind = CALL_IMPORT, .pool = op->size % t->pool_count, .token = block->token};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        note_import(t, block, &call);
    }
    return true;
}

/* A description outlives its block, but may then name any memory. */
bool trial_import_described(trial *t, const operation *op)
{
    const trial_block *block = &t->blocks[t->described.slot];
    const bool is_there =
        t->described.hash != 0 && block->live && block->described_hash == t->described.hash;
    if (!is_there || place_of(t, 0, NULL) == NULL) {
        return false;
    }
    trial_described d = t->described;
    d.bytes[op->amount % d.size_bytes] ^= 1; /* it is cut, or changed */
    void *none = NULL;
    trial_expect(
        t, "an import by a wrong description", MEND_ERROR_INVALID_ARGUMENT,
        mend_import(t->pools[0].pool, d.bytes, d.size_bytes - op->amount % 2, &none, NULL));
    d = t->described;
    trial_call call = {
        .kind = CALL_IMPORT_BY_FABRIC, .pool = op->size % t->pool_count, .described = &d};
    if (trial_call_pool(t, op->thread % t->turns.count, &call) == MEND_OK) {
        note_import(t, block, &call);
    }
    return true;
}

/* ---- use, and the end ------------------------------------------------------------------------ */

/* All use of an import is in one chain, as for a graph pool. */
static bool follow(trial *t, trial_imported *import, int stream)
{
    if (import->last_stream != NOBODY && !trial_order(t, import->last_stream, stream)) {
        return false;
    }
    import->last_stream = stream;
    return true;
}

bool trial_imports_leave_stream(trial *t, int stream, int heir)
{
    bool all = true;
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        trial_imported *import = &t->imports[i];
        bool is_used = import->pointer != NULL && import->last_stream == stream;
        all = all && (!is_used || follow(t, import, heir));
    }
    return all;
}

static trial_imported *import_from(trial *t, uint8_t slot)
{
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        trial_imported *import = &t->imports[(slot + i) % TRIAL_IMPORTS];
        if (import->pointer != NULL) {
            return import;
        }
    }
    return NULL;
}

/* The block, if its content is known on the stream now and stays until work there has read it. */
static trial_block *known_block(trial *t, const trial_imported *import, int stream)
{
    TRIAL_EACH_BLOCK(trial_block, block, t) {
        if (block->live && block->is_exported && block->export_id == import->export_id) {
            bool is_known = block->exported_bytes == block->size_bytes && block->written &&
                            block->graph_pool == NOBODY && block->home == stream &&
                            !block->asleep && !block->unmapped;
            return is_known ? block : NULL;
        }
    }
    return NULL;
}

/* Its memory is the block's. */
bool trial_use_import(trial *t, const operation *op)
{
    trial_imported *import = import_from(t, op->slot);
    const int stream = op->stream % t->stream_count;
    if (import == NULL || !trial_is_open(t, stream) || !follow(t, import, stream)) {
        return false;
    }
    trial_block *block = known_block(t, import, stream);
    trial_call call = {
        .kind = CALL_LAUNCH,
        .stream = trial_handle(t, stream, op->amount & 16),
        .work = {.kind = block != NULL ? MEND_SIM_WORK_VERIFY : MEND_SIM_WORK_TOUCH,
                 .address = (uint64_t)(uintptr_t)import->pointer,
                 .size_bytes = import->size_bytes,
                 .tag = block != NULL ? block->tag : 0,
                 .finish_ns = mend_sim_now_ns(t->sim) + trial_duration(t, op->amount)}};
    if (block != NULL) {
        block->used = true;
    }
    return trial_call_device(t, trial_thread_of(t, stream, op->thread), &call);
}

/* On the stream behind which all its use is, or without one, where no capture forbids the wait. */
static bool close_import(trial *t, trial_imported *import, bool on_none, uint8_t thread)
{
    const int stream = import->last_stream;
    const bool is_named = !on_none && stream != NOBODY;
    trial_call call = {.kind = CALL_CLOSE,
                       .pool = import->pool,
                       .pointer = import->pointer,
                       .stream = is_named ? trial_handle(t, stream, false) : MEND_NO_STREAM};
    const int caller = is_named ? trial_thread_of(t, stream, thread) : thread % t->turns.count;
    if (trial_call_pool(t, caller, &call) == MEND_OK && --import->uses == 0) {
        *import = (trial_imported){0};
    }
    return true;
}

bool trial_close_import(trial *t, const operation *op)
{
    trial_imported *import = import_from(t, op->slot);
    return import != NULL && close_import(t, import, op->amount % 2 == 1, op->thread);
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

/* Where the context is lost, or a pool takes a capture to be in progress, the calls fail. */
void trial_end_shares(trial *t)
{
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        for (uint64_t uses = t->imports[i].uses; uses > 0; uses--) {
            close_import(t, &t->imports[i], i % 2 == 0, 0);
        }
    }
}

void trial_forget_shares(trial *t)
{
    memset(t->imports, 0, sizeof(t->imports));
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        t->blocks[i].is_exported = t->blocks[i].has_token = t->blocks[i].in_one_chunk = false;
        t->blocks[i].described_hash = 0;
    }
}

uint64_t trial_lingering_bytes(const trial *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->pool_count; i++) {
        const mend_heap *heap = &t->pools[i].pool->heap;
        bytes += heap->imports.bytes;
        for (const mend_retired *retired = mend_retire_first(heap); retired != NULL;
             retired = mend_retire_next(retired)) {
            bytes += retired->number == 0 ? retired->size_bytes : 0;
        }
        for (const mend_deferred *at =
                 mend_deferred_from(&heap->chunks.deferred, MEND_DEFERRED_HANDLES, 0);
             at != NULL; at = mend_deferred_next(at)) {
            bytes += MEND_CONTAINER_OF(at, const mend_imported, deferred)->mapped.bytes;
        }
    }
    return bytes;
}
