/*
 * The end of aliases (physical/chunk.h) that nothing uses: their memory is free at the chunk's own
 * address again, and their mappings retire. A layout change: calls no driver.
 */
#include "move/move.h"

#include <assert.h>

#include "base/error.h"
#include "layout/layout.h"

static void dissolve(mend_heap *heap, mend_chunk *alias)
{
    const mend_chunk *chunk = alias->alias_of;
    const uint64_t mapping_address = alias->mapping_address;
    mend_waits waits = {0};
    mend_layout_take_back(heap, alias, &waits);
    mend_retire_mapping(heap, chunk, mapping_address, &waits);
}

mend_result mend_dissolve_aliases(mend_heap *heap, bool *any)
{
    assert(mend_mutex_is_held(&heap->grow));
    assert(mend_mutex_is_held(&heap->state));
    *any = false;
    mend_owed *next = heap->chunks.owing.count[MEND_OWED_ALIAS] > 0
                          ? mend_owed_from(&heap->chunks.owing, MEND_OWED_ALIAS, 0)
                          : NULL;
    while (next != NULL) {
        mend_chunk *alias = MEND_CONTAINER_OF(next, mend_chunk, owed);
        next = mend_owed_next(next);
        if (!mend_layout_is_alias_unused(heap, alias)) {
            continue;
        }
        if (!mend_layout_reserve(heap, 1) || !mend_retire_reserve(heap, 1)) {
            return mend_no_host_memory("the end of an alias");
        }
        dissolve(heap, alias);
        *any = true;
    }
    return MEND_OK;
}
