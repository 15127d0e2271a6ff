/*
 * How much of the limit the device can give. A limit may be the complete device, which no pool can
 * get: contexts, other pools and other programs hold a part, and that part changes. A pool that
 * learnt it from the first refusal would have filled the device with large chunks, partly used, and
 * could not split them any more.
 */
#include "move/move.h"
#include "policy/constants.h"
#include "share/share.h"

void mend_attainable_forget(mend_heap *heap)
{
    heap->budget.attainable = (mend_attainable){0};
}

void mend_attainable_learn(mend_heap *heap)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_status status = heap->driver->memory_info(heap->driver, &free_bytes, &total_bytes);
    bool is_told = status == MEND_DRIVER_OK;
    uint64_t known_bytes = free_bytes + heap->chunks.reserved_bytes;
    uint64_t own_bytes = known_bytes + heap->ranges.zeros_bytes;
    heap->shortage.device_is_asked = true;
    heap->shortage.device_free_bytes = is_told ? free_bytes : 0;
    heap->shortage.device_debt_bytes =
        is_told && heap->config.ration != NULL ? mend_ration_debt(heap->config.ration) : 0;
    heap->shortage.others_bytes = is_told && total_bytes > own_bytes ? total_bytes - own_bytes : 0;
    heap->budget.attainable = (mend_attainable){
        .is_known = is_told,
        .bytes = known_bytes,
        .free_bytes = free_bytes,
        .asked_at_bytes = MEND_HEAP_SUM(heap, allocated_bytes),
    };
}

void mend_attainable_note_refusal(mend_heap *heap)
{
    if (!heap->shortage.device_is_asked || !heap->budget.attainable.is_known) {
        mend_attainable_learn(heap);
    }
}

uint64_t mend_attainable_lack(const mend_heap *heap, uint64_t refused_bytes)
{
    const uint64_t free_bytes = heap->shortage.device_free_bytes;
    return refused_bytes - (refused_bytes > free_bytes ? free_bytes : 0) +
           (refused_bytes > 0 ? heap->shortage.device_debt_bytes : 0);
}

void mend_attainable_begin_search(mend_heap *heap)
{
    const mend_attainable *known = &heap->budget.attainable;
    const uint64_t reserved = heap->chunks.reserved_bytes;
    const uint64_t room = known->bytes > reserved ? known->bytes - reserved : 0;
    const uint64_t allocated = MEND_HEAP_SUM(heap, allocated_bytes) - known->asked_at_bytes;
    const bool is_old = mend_budget_is_below_limit(heap) &&
                        allocated / LIMITS_OF_WINDOW >= heap->config.limit_bytes;
    if (!known->is_known || is_old || room < known->free_bytes / 2) {
        mend_attainable_learn(heap);
    }
}

bool mend_attainable_has_grown(mend_heap *heap)
{
    uint64_t before = mend_budget_hard_limit(heap);
    if (!mend_budget_is_below_limit(heap) || heap->shortage.device_is_asked) {
        return false;
    }
    mend_attainable_learn(heap);
    return mend_budget_hard_limit(heap) > before;
}
