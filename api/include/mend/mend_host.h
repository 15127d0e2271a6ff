/*
 * Blocks on the host: a refuge when the device is full. The memory of a block can be the host's,
 * which the device uses over the link (PCIe or NVLink), at the same address as any other. It is
 * slower, and out of memory is slower still. Off by default: a pool takes memory of the host only
 * with mend_pool_config.host_bytes, and only for the blocks that the program chooses.
 *
 * See docs/sleep.md.
 */
#ifndef MEND_MEND_HOST_H
#define MEND_MEND_HOST_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- blocks on the host ---------------------------------------------------------------------- */

/*
 * Whether blocks that the calling thread allocates from now on, in any pool, may be on the host: 1,
 * or 0, as at first. A request gets memory of the host only after everything else: after pressure
 * callbacks, peer pools, waits and compactions have found no memory of the device for it. Such a
 * block has memory of its own, in pages of the device and of the host (2 MiB on known ones), and is
 * used and freed as any other; mend_get_block_info says where it is. Requests in a group or in a
 * capture, and pages of ranges, never get memory of the host. Returns what held before. Any thread;
 * no driver call.
 */
MEND_API int mend_set_host_allowed(int allowed);

/* What a move did. */
typedef struct mend_move_report {
    size_t struct_size;
    uint64_t moved_bytes;   /* memory of the chunks that moved */
    uint64_t copied_bytes;  /* contents copied over the link */
    uint64_t stayed_bytes;  /* bytes of blocks that were to move and did not; the sum of the next
                             * three */
    uint64_t shared_bytes;  /* in chunks with blocks that were not to move, or in ranges */
    uint64_t pinned_bytes;  /* in chunks with a pin or an export, or mapped at a second address */
    uint64_t lacking_bytes; /* in chunks for which there was no room */
} mend_move_report;
#define MEND_MOVE_REPORT_INIT                                                                      \
    {                                                                                              \
        sizeof(mend_move_report), 0, 0, 0, 0, 0, 0                                                 \
    }

/* Where mend_move moves to. */
typedef enum mend_move_target { MEND_MOVE_TO_DEVICE = 0, MEND_MOVE_TO_HOST = 1 } mend_move_target;

/*
 * Moves the memory of live blocks to the host, or back to the device: blocks with one of these
 * sleep tags (mend_set_sleep_tag), or all blocks if `tag_count` is 0. Addresses and contents stay,
 * graphs captured before can be launched after it, and the other side gets its memory back.
 * `report` may be NULL. Memory moves in complete chunks, which may hold several blocks: a chunk
 * moves to the host if all blocks in it are to move, and to the device if one of them is. Chunks
 * move one by one, as far as there is room; what does not move stays as it is. To make room on the
 * device the pool gives back its own free memory. A move to the host is bounded by
 * mend_pool_config.host_bytes.
 *
 * Waits first for all work of the context that is queued before the call. The caller guarantees, as
 * for mend_defrag, that none is launched during the call that touches memory of the pool. Other
 * threads may allocate and free. What sleeps does not move.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED (the pool has no host_bytes);
 * MEND_ERROR_OUT_OF_MEMORY (there was no room for any chunk); MEND_ERROR_CAPTURING (a stream is
 * being captured); MEND_ERROR_OUT_OF_HOST_MEMORY (malloc failed); MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. After an error a chunk has moved completely or not at all, and the report
 * is untouched. One exception, as for mend_defrag: if the driver refuses to map a chunk at its
 * address again, its blocks are unusable until a later call maps it.
 */
MEND_API mend_result mend_move(mend_pool *pool, mend_move_target target, const uint64_t *tags,
                               size_t tag_count, mend_move_report *report);

#ifdef __cplusplus
}
#endif

#endif
