/* Items: pieces of queued work, ordered by completion time. */
#include <assert.h>
#include <stdlib.h>

#include "base/align.h"
#include "sim/state.h"

#define ITEM_OF(node) MEND_CONTAINER_OF(node, mend_sim_item, by_completion)

MEND_TREE_ORDER_BY_TWO(compare_completions, mend_sim_item, by_completion, complete_ns, sequence);

void mend_sim_items_init(mend_sim *sim)
{
    mend_tree_init(&sim->items, compare_completions);
}

void mend_sim_item_drop(mend_sim *sim, mend_sim_item *item)
{
    assert(sim->ledger.pending_work > 0);
    assert(sim->ledger.pending_work == sim->items.count);
    mend_tree_remove(&sim->items, &item->by_completion);
    free(item->staged);
    mend_slab_give(&sim->item_slab, item);
    sim->ledger.pending_work--;
}

void mend_sim_items_clear(mend_sim *sim)
{
    for (mend_tree_node *node = mend_tree_first(&sim->items); node != NULL;
         node = mend_tree_first(&sim->items)) {
        mend_sim_item_drop(sim, ITEM_OF(node));
    }
}

void mend_sim_item_add(mend_sim *sim, const mend_sim_stream *stream, const mend_sim_item *item,
                       uint64_t start_ns, uint64_t complete_ns)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(start_ns <= complete_ns);
    assert(complete_ns >= sim->now_ns);
    mend_sim_item *queued = mend_slab_take(&sim->item_slab);
    *queued = *item;
    queued->stream_id = stream->id;
    queued->sequence = ++sim->sequence;
    queued->start_ns = start_ns;
    queued->complete_ns = complete_ns;
    mend_tree_insert(&sim->items, &queued->by_completion);
    sim->ledger.pending_work++;
}

static bool overlaps(uint64_t address, uint64_t size, uint64_t other, uint64_t other_size)
{
    return size > 0 && other_size > 0 && address < other + other_size && other < address + size;
}

/* Whether the first granule that ends after `address` begins before the end of the range. */
static bool granules_touch(const mend_sim_item *item, uint64_t address, uint64_t size)
{
    uint64_t first_end = item->address + item->granule_bytes;
    uint64_t skipped = 0;
    if (item->stride_bytes > 0 && first_end <= address) {
        skipped = (address - first_end) / item->stride_bytes + 1;
    }
    return skipped < item->granule_count && overlaps(item->address + skipped * item->stride_bytes,
                                                     item->granule_bytes, address, size);
}

bool mend_sim_item_touches(const mend_sim_item *item, uint64_t address, uint64_t size)
{
    bool in_source =
        item->source != 0 && overlaps(item->source, item->granule_bytes, address, size);
    bool in_count = item->kind == MEND_SIM_ITEM_VERIFY_WORDS &&
                    overlaps(item->mismatches, sizeof(uint64_t), address, size);
    return in_source || in_count || granules_touch(item, address, size);
}

void mend_sim_items_mark_hole(mend_sim *sim, uint64_t address, uint64_t size, uint64_t devices)
{
    MEND_TREE_EACH(mend_sim_item, item, by_completion, &sim->items) {
        if (item->start_ns <= sim->now_ns && (devices >> item->device & 1) != 0 &&
            mend_sim_item_touches(item, address, size)) {
            item->hole = address;
        }
    }
}
