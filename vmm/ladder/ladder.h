/*
 * The ladder: what a request tries, from the cheapest to the most expensive, until it is placed.
 * All rungs are in ladder.c, in order.
 *
 * The heap does not know pools: the caller passes *helpers*, which can give memory back besides the
 * heap itself.
 */
#ifndef MEND_LADDER_LADDER_H
#define MEND_LADDER_LADDER_H

#include "ladder/trim.h"

/* Tries to place the request again. The caller holds `state`. */
typedef mend_outcome (*mend_try_again)(void *climb);

/* What the pool lends the ladder. Each function is called with `state` held and the grow lock free,
 * and releases `state` in between. */
typedef struct mend_helpers {
    void *pool;

    /* Whether there are callbacks that may be called in this thread. */
    bool (*has_callbacks)(void *pool);

    /* Asks the next peer pool after *cursor (0 at first) for what is needed, and for addresses that
     * it does not use; *gave: whether it gave any. False if there is no further peer pool. */
    bool (*ask_peer_pool)(void *pool, mend_need need, uint64_t *cursor, bool *gave);

    /* Calls the callbacks in order, and tries again after each that freed memory. */
    mend_outcome (*call_back)(void *pool, const mend_request *request, mend_try_again try_again,
                              void *climb);

    /* Tries until every round of callbacks of other threads that was in progress before the try has
     * ended: such a round may free what is missing. */
    mend_outcome (*try_behind_callbacks)(void *pool, mend_try_again try_again, void *climb);
} mend_helpers;

/* Places the request, or commits the pages of a range (layout/range.h); then *span is NULL. The
 * caller holds `state`, which is released if no free mapped memory fits; the pointer map has room
 * for the block. Fills in the stream and the group of the request. On failure no page is committed
 * that was not. MEND_ERROR_OUT_OF_MEMORY (with a report), MEND_ERROR_OUT_OF_ADDRESSES,
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_CAPTURING,
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_ladder_climb(mend_heap *heap, mend_request *request, const mend_helpers *helpers,
                              mend_span **span);

#endif
