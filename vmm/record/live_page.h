/*
 * The statistics page of a pool, which its thread writes, and a reader of another process copies.
 * It is a file without a name in the memory of the process, which a reader finds among its open
 * files. So only users who may inspect the process can read it, and it ends with the process.
 *
 * `sequence` is odd while the page is written: a copy counts if it was even and the same before and
 * behind.
 */
#ifndef MEND_RECORD_LIVE_PAGE_H
#define MEND_RECORD_LIVE_PAGE_H

#include <stdint.h>

#include "mend/mend.h"

#define MEND_LIVE_NAME  "mend.live"
#define MEND_LIVE_MAGIC UINT64_C(0x4556494c444e454d) /* "MENDLIVE" */

enum { MEND_LIVE_VERSION = 1, MEND_LIVE_OWNERS = 32 };

/* Free bytes of the pool. The sum of all is free_bytes of the same moment. */
typedef struct mend_live_free {
    uint64_t whole_bytes;     /* in empty chunks, mapped or not, and idle */
    uint64_t beside_bytes;    /* beside live blocks, and idle */
    uint64_t streams_bytes;   /* work of streams may use it */
    uint64_t no_stream_bytes; /* freed without a stream: only a wait for the context helps */
    uint64_t graphs_bytes;    /* graphs may use it */
} mend_live_free;

typedef struct mend_live_page {
    uint64_t magic;
    uint32_t version;
    uint32_t page_bytes;
    uint64_t process;
    int64_t device;
    uint64_t sequence;
    uint64_t time_ns;   /* CLOCK_MONOTONIC */
    uint64_t before_ns; /* of the page before. 0: this is the first */
    mend_stats stats;
    mend_stats before; /* values of the page before */
    mend_live_free free;
    uint64_t owner_count; /* how many there are. The largest follow */
    mend_owner owners[MEND_LIVE_OWNERS];
} mend_live_page;

#endif
