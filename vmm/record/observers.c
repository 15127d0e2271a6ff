/* Observers begin and end with their pool. */
#include <stdlib.h>

#include "base/signals.h"
#include "pool/pool.h"
#include "record/nvtx.h"
#include "record/record.h"

#define RECORD_BYTES (256 * MEND_MIB)
#define SCOPES       (1u << MEND_TOLD_MARKED | 1u << MEND_TOLD_UNMARKED | 1u << MEND_TOLD_PEAKS)

void mend_observers_count(const mend_heap *heap, mend_stats *stats)
{
    const mend_observers *observers = mend_observers_of(heap);
    if (observers != NULL) {
        const mend_history *history = &observers->history;
        stats->history_events = history->next - 1;
        stats->history_lost = history->next - 1 - history->held;
        stats->record_lost =
            history->recording != NULL ? atomic_load(&history->recording->lost) : 0;
    }
}

static mend_result begin(mend_pool *pool, const mend_pool_config *config)
{
    mend_heap *heap = &pool->heap;
    mend_observers *observers = calloc(1, sizeof(*observers));
    if (observers == NULL) {
        return mend_no_host_memory("a pool");
    }
    observers->pool = pool;
    observers->scopes = (mend_scopes){.listener.hear = mend_scopes_hear, .heap = heap};
    mend_history_init(&observers->history, &heap->events);
    mend_heap_lock(heap);
    mend_events_listen(&heap->events, &observers->scopes.listener, SCOPES);
    mend_heap_unlock(heap);
    MEND_TRY(config->record != NULL ? mend_recorder_start(observers, config->record, RECORD_BYTES)
                                    : MEND_OK);
    return pool->observed.top || pool->observed.snapshots[0] != '\0'
               ? mend_publisher_open(observers)
               : MEND_OK;
}

/* The heap is gone. */
static void end(mend_observers *observers)
{
    mend_publisher_close(observers);
    mend_recorder_stop(observers);
    free(mend_history_exchange(&observers->history, NULL, 0));
    free(observers->scopes.of);
    free(observers);
}

mend_result mend_observers_hear(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    if (moment == MEND_POOL_IS_MADE) {
        if (mend_nvtx_load()) {
            mend_hold_library();
        }
        return MEND_OK;
    }
    if (moment == MEND_POOL_BEGINS) {
        return begin(pool, config);
    }
    mend_observers *observers = mend_observers_of(&pool->heap);
    if (observers != NULL && moment == MEND_POOL_IS_LEFT) {
        mend_publisher_stop(observers);
    } else if (observers != NULL && moment == MEND_POOL_STAYS) {
        return mend_publisher_start(observers);
    } else if (observers != NULL) {
        end(observers);
    }
    return MEND_OK;
}
