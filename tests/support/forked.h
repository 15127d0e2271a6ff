/*
 * Refusals for a pool of the parent in a child of fork: of all calls, and their outputs are
 * untouched.
 */
#ifndef MEND_TESTS_SUPPORT_FORKED_H
#define MEND_TESTS_SUPPORT_FORKED_H

#include <stdbool.h>

#include "mend/mend.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_graph_pools.h"
#include "mend/mend_inspect.h"
#include "mend/mend_range.h"
#include "mend/mend_share.h"
#include "mend/mend_sleep.h"

/* Arguments and outputs of the calls. */
typedef struct forked {
    mend_pool *pool;
    mend_stream stream;
    void *block; /* of the pool, or of no pool */
    mend_pressure_callback callback;
    mend_alloc_options options;
    mend_stats stats;
    mend_available room;
    mend_block_info info;
    mend_export_token token;
    mend_graph_pool *graph_pool;
    mend_range *range;
    void *pointer;
    uint64_t number;
    size_t count;
} forked;

#define FORKED_INIT                                                                                \
    .options = MEND_ALLOC_OPTIONS_INIT, .stats = MEND_STATS_INIT, .room = MEND_AVAILABLE_INIT,     \
    .info = MEND_BLOCK_INFO_INIT

/* X(call), in terms of a forked *f. The last one gives up the pool. */
#define FORKED_CALLS(X)                                                                            \
    X(mend_alloc(f->pool, 512, f->stream, &f->pointer))                                            \
    X(mend_alloc_with(f->pool, 512, f->stream, &f->options, &f->pointer))                          \
    X(mend_free(f->pool, f->block, f->stream))                                                     \
    X(mend_free(f->pool, f->block, MEND_NO_STREAM))                                                \
    X(mend_free(f->pool, f, f->stream))                                                            \
    X(mend_record_stream(f->pool, f->block, f->stream))                                            \
    X(mend_unregister_stream(f->pool, f->stream))                                                  \
    X(mend_get_block_info(f->pool, f->block, &f->info))                                            \
    X(mend_trim(f->pool, 0, MEND_TRIM_IDLE, &f->number))                                           \
    X(mend_trim(f->pool, 0, MEND_TRIM_WAIT, &f->number))                                           \
    X(mend_trim(f->pool, 0, MEND_TRIM_BY_POLICY, &f->number))                                      \
    X(mend_set_limit(f->pool, 1 << 20))                                                            \
    X(mend_get_available(f->pool, f->stream, &f->room))                                            \
    X(mend_add_pressure_callback(f->pool, f->callback, f))                                         \
    X(mend_remove_pressure_callback(f->pool, f->callback, f))                                      \
    X(mend_compact(f->pool, NULL, NULL))                                                           \
    X(mend_pin(f->pool, f->block, 512))                                                            \
    X(mend_unpin(f->pool, f->block, 512))                                                          \
    X(mend_get_stats(f->pool, &f->stats))                                                          \
    X(mend_reset_peak_stats(f->pool))                                                              \
    X(mend_validate(f->pool))                                                                      \
    X(mend_graph_pool_create(f->pool, &f->graph_pool))                                             \
    X(mend_export(f->pool, f->block, NULL, &f->token, MEND_EXPORT_TOKEN_BYTES, NULL, &f->number))  \
    X(mend_import_close(f->pool, f->block, f->stream))                                             \
    X(mend_range_create(f->pool, 1, NULL, &f->range))                                              \
    X(mend_sleep(f->pool, NULL, NULL))                                                             \
    X(mend_wake(f->pool, NULL, 0, NULL))                                                           \
    X(mend_prepare_checkpoint(f->pool, NULL))                                                      \
    X(mend_get_regions(f->pool, NULL, sizeof(mend_region), 0, &f->count))                          \
    X(mend_get_owners(f->pool, 0, NULL, sizeof(mend_owner), 0, &f->count))                         \
    X(mend_history_start(f->pool, 0))                                                              \
    X(mend_history_read(f->pool, &f->number, NULL, sizeof(mend_history_event), 0, &f->count))      \
    X(mend_pool_destroy(f->pool))

static inline bool forked_is_untouched(const forked *f)
{
    return f->pointer == NULL && f->number == 0 && f->count == 0 && f->graph_pool == NULL &&
           f->range == NULL && f->info.base == NULL && f->stats.limit_bytes == 0 &&
           f->room.device_free_bytes == 0;
}

#endif
