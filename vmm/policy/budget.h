/*
 * The budget of a pool: the limit, what of it is left, the sizes of chunks, and how high the
 * pressure is, which decides what counts: time while it is low, bytes near the limit.
 *
 * In use are the bytes of partly used chunks: live ones, and those trapped beside them. What was in
 * use a while ago will be again, so the most of the last one or two windows counts; a window lasts
 * until so many bytes were allocated.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_POLICY_BUDGET_H
#define MEND_POLICY_BUDGET_H

#include "layout/state.h"

typedef enum mend_pressure {
    MEND_PRESSURE_LOW,      /* most of the limit is not even reserved: large chunks, few calls */
    MEND_PRESSURE_HIGH,     /* chunks of the size that is needed */
    MEND_PRESSURE_CRITICAL, /* nearly all was in use, or little was left beside much that was
                   trapped: empty chunks are not broken without need */
} mend_pressure;

mend_pressure mend_budget_pressure(const mend_heap *heap);

/* At least half of the limit is not reserved. */
bool mend_budget_is_roomy(const mend_heap *heap);

/* Notes what is in use, for the pressure. The caller makes room: then memory is needed. */
void mend_budget_note_use(mend_heap *heap);

/* What of the limit is not reserved, less what is kept for compactions. */
uint64_t mend_budget_room_bytes(const mend_heap *heap);

/* What must be given back before so many bytes, more than there is room for, can be created. More
 * than is to be created where
 * more is reserved than the limit allows by now. */
uint64_t mend_budget_lacking_bytes(const mend_heap *heap, uint64_t create_bytes);

/* The limit, or less where the device has less. */
static inline uint64_t mend_budget_limit(const mend_heap *heap)
{
    uint64_t limit = heap->config.limit_bytes;
    return heap->budget.attainable.is_known ? mend_min_u64(limit, heap->budget.attainable.bytes)
                                            : limit;
}

/* The device lacks so much for a plan: of several plans in a search the one that needs least
 * counts.
 */
void mend_budget_note_lack(mend_heap *heap, uint64_t create_bytes);

/* There is no room to create so many bytes, though the limit would allow them: the device is known
 * to have less. */
bool mend_budget_lacks_device_memory(const mend_heap *heap, uint64_t create_bytes);

/* Room under the limit that requests leave alone where compactions are made for them, so that there
 * is memory to copy to; the last search before out of memory may have it. */
uint64_t mend_budget_most_kept_bytes(const mend_heap *heap);
static inline uint64_t mend_budget_kept_bytes(const mend_heap *heap)
{
    bool keeps_none = !heap->config.compact_when_full || heap->budget.spends_last_room;
    return keeps_none ? 0 : mend_budget_most_kept_bytes(heap);
}

/* What a block may leave of an empty chunk it breaks while pressure is critical. */
uint64_t mend_budget_waste_allowed(const mend_heap *heap, const mend_request *request);

/* The usual size of a chunk of a zone under the limit now. */
uint64_t mend_budget_usual_chunk(const mend_heap *heap, int zone);

/* The size of the chunks that hold what a large request lacks. */
uint64_t mend_budget_lone_chunk(const mend_heap *heap);

/* What is created for the request ends with a page of this size. */
uint64_t mend_budget_page(const mend_heap *heap, const mend_request *request);

#endif
