/*
 * Devices with few addresses. A request may find no addresses only if, without all mappings that
 * can be undone, no stretch of the pool's reservations holds it. Live blocks, and memory that
 * graphs may still use, stay.
 */
#include "map/map.h"
#include "pool/pool.h"
#include "share/share.h"
#include "tests/sim/trial.h"

#define LLU(value) ((unsigned long long)(value))

/* A pool may map more than a request needs: the chunks in whose free ends it begins and ends
 * (vmm/plan/policy.h). */
static uint64_t most_unneeded(const mend_heap *heap)
{
    uint64_t largest = heap->device.granularity_bytes;
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.all); at != NULL;
         at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, memory.by_number);
        largest = mend_max_u64(largest, chunk->size_bytes);
    }
    return 2 * largest;
}

/* The first import in a range, which stays where it is. `end` if there is none, and then *behind
 * stays. */
static uint64_t next_import(const mend_heap *heap, uint64_t from, uint64_t end, uint64_t *behind)
{
    for (mend_tree_node *at = mend_tree_first(&heap->imports.by_address); at != NULL;
         at = mend_tree_next(at)) {
        const mend_mapped_import *import = MEND_CONTAINER_OF(at, mend_mapped_import, by_address);
        uint64_t import_end = import->at + import->bytes;
        if (import->at < end && import_end > from) {
            *behind = import_end;
            return mend_max_u64(import->at, from);
        }
    }
    return end;
}

/* The first address that is pinned, from one on. `end` where nothing is. *behind is where that
 * ends. */
static uint64_t next_pinned(const mend_heap *heap, uint64_t from, uint64_t end, uint64_t *behind)
{
    mend_chunk key = {.address = from};
    mend_tree_node *at = mend_tree_at_or_after(&heap->chunks.mapped, &key.by_address);
    for (; at != NULL; at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, by_address);
        if (chunk->address >= end) {
            break;
        }
        if (!mend_chunk_is_empty(chunk)) {
            *behind = chunk->address + chunk->size_bytes;
            return next_import(heap, from, chunk->address, behind);
        }
    }
    *behind = end;
    return next_import(heap, from, end, behind);
}

/* A stretch of the reservation that nothing pins holds so many bytes, aligned. */
static bool has_stretch(const mend_heap *heap, const mend_reservation *reservation,
                        uint64_t size_bytes, uint64_t alignment_bytes)
{
    uint64_t end = reservation->address + reservation->size_bytes - heap->space.page_bytes;
    for (uint64_t from = reservation->address; from < end;) {
        uint64_t behind;
        uint64_t pinned = next_pinned(heap, from, end, &behind);
        uint64_t start = mend_align_up(from, alignment_bytes);
        if (start < pinned && pinned - start >= size_bytes) {
            return true;
        }
        from = behind;
    }
    return false;
}

void trial_check_addresses(trial *t, const trial_call *call)
{
    const mend_heap *heap = &t->pools[call->pool].pool->heap;
    uint64_t size_bytes = call->size_bytes + most_unneeded(heap);
    const mend_list *head = &heap->space.reservations;
    bool has_any = false;
    for (const mend_list *at = head->next; at != head; at = at->next) {
        has_any = has_any || has_stretch(heap, MEND_CONTAINER_OF(at, mend_reservation, link),
                                         size_bytes, call->alignment_bytes);
    }
    trial_claim(t, TRIAL_REFUSED, t->config.address_devices != 0,
                "no addresses for %llu bytes where there are 128 TiB", LLU(call->size_bytes));
    trial_claim(t, TRIAL_REFUSED, !has_any || trial_holds_memory_for_graphs(t),
                "no addresses for %llu bytes, though a stretch is free that holds them",
                LLU(call->size_bytes));
}
