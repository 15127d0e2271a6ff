/*
 * The budget of a pool: the limit, what is left of it, the sizes of chunks, and the pressure. The
 * pressure decides what counts more: driver time while it is low, bytes near the limit.
 *
 * *Used* bytes are those of partly used chunks: live bytes, and free ones trapped beside them.
 * Programs repeat what they did, so the largest value of the last two windows counts; a window ends
 * after a number of allocated bytes.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_POLICY_BUDGET_H
#define MEND_POLICY_BUDGET_H

#include "layout/state.h"

typedef enum mend_pressure {
    MEND_PRESSURE_LOW,      /* most of the limit is not reserved: large chunks, few calls */
    MEND_PRESSURE_HIGH,     /* chunks of exactly the needed size */
    MEND_PRESSURE_CRITICAL, /* nearly all of the limit was used, or little was left and much
                             * trapped: empty chunks are broken only if nothing else helps */
} mend_pressure;

/* Whether the pool has a soft limit that its hard limit is not below. */
bool mend_budget_has_soft_limit(const mend_heap *heap);

mend_pressure mend_budget_pressure(const mend_heap *heap);

/* Whether at least a quarter of the limit (ROOM_OF_LIMIT) is not reserved. */
bool mend_budget_is_roomy(const mend_heap *heap);

/* Whether a search spares empty chunks: under critical pressure; and under high pressure, once half
 * of the limit is reserved (UNSPARING_OF_LIMIT). Before that the comparison of runs is not worth
 * its time. */
bool mend_budget_spares_empty(const mend_heap *heap);

/* Updates the peaks of used bytes, for the pressure. The caller makes room: only then it
 * matters. */
void mend_budget_note_use(mend_heap *heap);

/* The part of the limit that is not reserved, without what is kept for compactions. */
uint64_t mend_budget_room_bytes(const mend_heap *heap);

/* How much must be given back before `create_bytes` can be created. The caller knows that there is
 * not enough room. More than create_bytes if more is reserved than the limit allows now. */
uint64_t mend_budget_lacking_bytes(const mend_heap *heap, uint64_t create_bytes);

/* The part of the limit that chunks may take: without chunks of zeros. */
static inline uint64_t mend_budget_limit_of_chunks(const mend_heap *heap)
{
    const uint64_t limit = heap->config.limit_bytes;
    return limit - mend_min_u64(heap->ranges.zeros_bytes, limit);
}

/* The same, or what the device can give if that is less. */
static inline uint64_t mend_budget_hard_limit(const mend_heap *heap)
{
    uint64_t limit = mend_budget_limit_of_chunks(heap);
    return heap->budget.attainable.is_known ? mend_min_u64(limit, heap->budget.attainable.bytes)
                                            : limit;
}

/* The same, or the soft limit if that is less, while a search keeps to it. */
static inline uint64_t mend_budget_limit(const mend_heap *heap)
{
    uint64_t limit = mend_budget_hard_limit(heap);
    return heap->budget.keeps_soft_limit ? mend_min_u64(limit, heap->config.soft_limit_bytes)
                                         : limit;
}

/* Notes that the device lacks memory to create this much. The smallest of a search counts, because
 * the plan that needs least is the closest to success. */
void mend_budget_note_lack(mend_heap *heap, uint64_t create_bytes);

/* Whether the limit allows to create this much, but the device is known to have less. */
bool mend_budget_lacks_device_memory(const mend_heap *heap, uint64_t create_bytes);

/* Room under the limit that requests leave free if the program allows compactions for them, so that
 * there is memory to copy to. The last search before out of memory may use it. */
uint64_t mend_budget_most_kept_bytes(const mend_heap *heap);
static inline uint64_t mend_budget_kept_bytes(const mend_heap *heap)
{
    bool keeps_none = !heap->config.compact_when_full || heap->budget.spends_last_room;
    return keeps_none ? 0 : mend_budget_most_kept_bytes(heap);
}

/* How many bytes of an empty chunk a block may leave free if it breaks the chunk. Unlimited unless
 * pressure is critical. */
uint64_t mend_budget_waste_allowed(const mend_heap *heap, const mend_request *request);

/* The usual size of a chunk of a zone, by the current limit. */
uint64_t mend_budget_usual_chunk(const mend_heap *heap, int zone);

/* The size of chunks that one large request has for itself. */
uint64_t mend_budget_lone_chunk(const mend_heap *heap);

/* Created memory for the request is rounded up to a multiple of this. */
uint64_t mend_budget_page(const mend_heap *heap, const mend_request *request);

#endif
