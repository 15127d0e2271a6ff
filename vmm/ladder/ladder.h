/*
 * The ladder: what a request tries, from the cheapest way to the dearest, until it is placed. All
 * rungs are in ladder.c, in order.
 *
 * The heap knows no pool: who can give memory back beside it are *helpers*, which the caller
 * passes.
 */
#ifndef MEND_LADDER_LADDER_H
#define MEND_LADDER_LADDER_H

#include "layout/state.h"

/* Tries to place the request again. Called with `state` held. */
typedef mend_outcome (*mend_try_again)(void *climb);

/* What the pool lends the ladder. Each member is called with `state` held and the grow lock free,
 * and lets go of `state` in between. */
typedef struct mend_helpers {
    void *pool;

    /* The program has callbacks that may be called in this thread. */
    bool (*has_callbacks)(void *pool);

    /* Asks the next peer pool after *cursor (0 at first) for about so many bytes, and for the
     * addresses it does not use; *gave says whether it had any. False when none is left. */
    bool (*ask_peer_pool)(void *pool, uint64_t bytes, uint64_t *cursor, bool *gave);

    /* Calls the callbacks, one after the other, and tries again after each that freed memory. */
    mend_outcome (*call_back)(void *pool, const mend_request *request, mend_try_again try_again,
                              void *climb);

    /* Tries until no other thread is in a round of callbacks that was under way before the try: it
     * may free just what is missing. */
    mend_outcome (*try_behind_callbacks)(void *pool, mend_try_again try_again, void *climb);
} mend_helpers;

/* Places the request. `state` is held, and let go of where nothing that is mapped and free fits;
 * the pointer map has room for the block. The stream and the group of the request are learned.
 * MEND_ERROR_OUT_OF_MEMORY (with a report), MEND_ERROR_OUT_OF_ADDRESSES,
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_UNKNOWN_STREAM, MEND_ERROR_CAPTURING,
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST. */
mend_result mend_ladder_climb(mend_heap *heap, mend_request *request, const mend_helpers *helpers,
                              mend_span **span);

/* Retired mappings are unmapped, fences recorded and polled, as by every climb that makes room.
 * Both locks are held, a driver scope is open. */
mend_result mend_ladder_refresh(mend_heap *heap, const mend_request *request);

/* The request's stream may be made to wait for others, on the device. Reaches the driver. */
mend_result mend_ladder_may_wait_behind(mend_heap *heap, const mend_request *request,
                                        bool *may_wait);

#endif
