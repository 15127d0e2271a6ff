/* The clock: as it advances, due work completes in order. */
#include <assert.h>

#include "base/align.h"
#include "sim/captures.h"
#include "sim/state.h"

#define ITEM_OF(node) MEND_CONTAINER_OF(node, mend_sim_item, by_completion)

static void complete(mend_sim *sim, mend_sim_item *item)
{
    assert(item->complete_ns <= sim->now_ns);
    mend_status status = mend_sim_check_item(sim, item);
    if (status != MEND_DRIVER_OK) {
        sim->broken = status;
    } else if (item->kind == MEND_SIM_ITEM_ASYNC_FREE) {
        mend_sim_plain_drop(sim, mend_sim_mapping_at(sim, item->value));
    } else {
        mend_sim_fresh_fill_for(sim, item);
        mend_sim_content_run(sim, item);
    }
    mend_sim_item_drop(sim, item);
}

void mend_sim_run_until(mend_sim *sim, uint64_t until_ns)
{
    assert(mend_mutex_is_held(&sim->mutex));
    uint64_t until = mend_max_u64(until_ns, sim->now_ns);
    mend_tree_node *node = mend_tree_first(&sim->items);
    while (node != NULL && ITEM_OF(node)->complete_ns <= until && sim->broken == MEND_DRIVER_OK) {
        sim->now_ns = mend_max_u64(sim->now_ns, ITEM_OF(node)->complete_ns);
        complete(sim, ITEM_OF(node));
        node = mend_tree_first(&sim->items);
    }
    assert(sim->now_ns <= until);
    sim->now_ns = until;
    if (sim->broken != MEND_DRIVER_OK) {
        mend_sim_items_clear(sim);
    }
    if (!mend_list_is_empty(&sim->keepers)) {
        mend_sim_keepers_run(sim);
    }
}

uint64_t mend_sim_now_ns(mend_sim *sim)
{
    mend_mutex_lock(&sim->mutex);
    uint64_t now_ns = sim->now_ns;
    mend_mutex_unlock(&sim->mutex);
    return now_ns;
}

void mend_sim_advance(mend_sim *sim, uint64_t duration_ns)
{
    mend_mutex_lock(&sim->mutex);
    mend_sim_run_until(sim, sim->now_ns + duration_ns);
    mend_mutex_unlock(&sim->mutex);
}

void mend_sim_stop(mend_sim *sim)
{
    mend_mutex_lock(&sim->mutex);
    sim->stopped = true;
    mend_sim_items_clear(sim);
    mend_mutex_unlock(&sim->mutex);
}
