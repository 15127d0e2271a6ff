/* The pool, which the files of this room share. */
#ifndef MEND_POOL_POOL_H
#define MEND_POOL_POOL_H

#include <stdbool.h>

#include "base/error.h"
#include "base/process.h"
#include "driver/plain.h"
#include "heap/heap.h"
#include "mend/mend.h"
#include "observe/audit.h"
#include "observe/explain.h"
#include "pool/collecting.h"
#include "pool/pressure.h"
#include "share/ration.h"

struct mend_pool {
    mend_heap heap; /* has the locks of the pool */
    const mend_driver *driver;
    int device;
    uint64_t generation;        /* of the process that created it */
    mend_process_member member; /* in the process's list of pools */
    mend_callbacks callbacks;
    mend_plain plain;          /* below the heap, if the device has no virtual memory: */
    bool is_plain;             /* constant */
    mend_ration ration;        /* between the heap and the driver, if mend_ration_is_on */
    uint64_t idle_ns;          /* 0: none */
    mend_collecting collector; /* the thread, if there is one */
    int audit_level;
    bool meets_peers; /* devices with a pool in this process may access its memory */
};

/* Copies the caller's config to one of full size, as many fields as the caller's version has.
 * MEND_ERROR_INVALID_ARGUMENT. */
mend_result mend_pool_copy_config(const mend_pool_config *given, mend_pool_config *config);

/* Whether the pointer lies in memory of the pool, live or free; true for every pointer if another
 * process created the pool. Takes the `state` lock. */
bool mend_pool_holds(mend_pool *pool, const void *pointer);

/*
 * Frees the live block that begins at the pointer, in the order of its own stream, if it has no
 * tag. Fills *info (of full size) with the block, also if it has one; info->base is NULL if no
 * block of this pool begins there. Looks the block up once, and once more if the driver must be
 * asked whether the stream is captured. Results as mend_free.
 */
mend_result mend_pool_free_untagged(mend_pool *pool, void *pointer, mend_block_info *info);

/* The explanation of observe/explain.h, under both locks, from the view of the stream `asking`; a
 * stream that the pool does not know owns nothing. MEND_ERROR_FORKED. */
mend_result mend_pool_explain(mend_pool *pool, mend_stream asking, mend_explanation *explanation);

#endif
