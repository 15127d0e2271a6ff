/*
 * A reader of a pool's history, which knows live and mapped memory from the events alone, and
 * compares that with the pool.
 */
#ifndef MEND_TESTS_SUPPORT_FOLLOWER_H
#define MEND_TESTS_SUPPORT_FOLLOWER_H

#include <stdbool.h>

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A block, or a stretch of others, without the last two. */
typedef struct follower_range {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t requested_bytes;
    uint64_t tag;
} follower_range;

/* By address. */
typedef struct follower_row {
    follower_range *list;
    size_t count;
} follower_row;

typedef struct mend_follower {
    mend_pool *pool; /* NULL: not begun */
    uint64_t cursor;
    uint64_t time_ns;                /* of the last event */
    uint64_t reserved_bytes;         /* by chunks that were created and released */
    uint64_t waits[2];               /* before: of the host, of streams */
    follower_row live;               /* blocks */
    follower_row mapped;             /* none touch */
    follower_row chunks;             /* chunks known by the events: `tag` is a number */
    follower_row pages;              /* committed ones of ranges. The same */
    follower_row gone;               /* numbers of chunks that were released, as addresses */
    uint64_t newest;                 /* the largest number of a chunk that ever was */
    uint64_t seen[MEND_EVENT_KINDS]; /* events of each kind */
    uint64_t lost;                   /* events that were gone before they were read */
} mend_follower;

/* The history is on, and nothing happens meanwhile: reads the present state, and follows from here.
 * False if malloc fails. */
bool mend_follower_begin(mend_follower *f, mend_pool *pool);

/* Reads the events since then: each must be possible after the earlier ones, and at the end live
 * and mapped memory must equal mend_get_regions. Where events are lost it begins again. Otherwise
 * false, and the finding. */
enum { MEND_FOLLOWER_FINDING_BYTES = 160 };
bool mend_follower_follow(mend_follower *f, char finding[MEND_FOLLOWER_FINDING_BYTES]);

/* Frees its state. */
void mend_follower_end(mend_follower *f);

#ifdef __cplusplus
}
#endif

#endif
