/*
 * Sleep and wake: release the physical memory of live blocks, and restore it later at the same
 * addresses. The conventions of mend.h hold.
 */
#ifndef MEND_MEND_SLEEP_H
#define MEND_MEND_SLEEP_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sleep and wake -------------------------------------------------------------------------- */

/* The fate of the contents of a sleeping block. A block that lost contents has contents_dropped set
 * (mend_block_info) until it is freed, or a later sleep keeps all of it. */
typedef enum mend_backup {
    MEND_BACKUP_DEFAULT = 0, /* see mend_sleep_options.others */
    MEND_BACKUP_HOST = 1,    /* kept in pinned host memory */
    MEND_BACKUP_FILE = 2,    /* kept in a file */
    MEND_DISCARD = 3,        /* dropped: undefined after waking */
    MEND_STAY_RESIDENT = 4   /* the block does not sleep */
} mend_backup;

/* A rule for all blocks with a sleep tag. */
typedef struct mend_sleep_rule {
    uint64_t tag;
    int backup; /* another mend_backup than MEND_BACKUP_DEFAULT */
} mend_sleep_rule;

/* Which blocks sleep, and which contents are kept. */
typedef struct mend_sleep_options {
    size_t struct_size;
    const mend_sleep_rule *rules; /* the first one for a tag counts */
    size_t rule_bytes;            /* sizeof(mend_sleep_rule) */
    size_t rule_count;
    int others;            /* a mend_backup for blocks that no rule names. 0: MEND_BACKUP_HOST
                            * without rules, MEND_STAY_RESIDENT with them */
    int skip_pinned;       /* 1: pinned and exported memory stays awake. 0: it is an error */
    int keep_free;         /* 0: the call also releases free memory, as mend_trim. 1: it does not.
                            * 2: memory of sleeping blocks too stays with the pool, as free
                            * memory */
    const char *directory; /* folder of the file of MEND_BACKUP_FILE. The file has no name, so a
                            * crash leaves none */
    int graphs;            /* for free memory of captured graphs whose last block had no sleep tag
                            * of a rule: MEND_DISCARD (it sleeps) or MEND_STAY_RESIDENT. 0: it
                            * sleeps if all blocks do */
} mend_sleep_options;
#define MEND_SLEEP_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_sleep_options), NULL, sizeof(mend_sleep_rule), 0, 0, 0, 0, NULL, 0             \
    }

/* The report of a sleep. */
typedef struct mend_sleep_report {
    size_t struct_size;
    uint64_t released_bytes; /* memory released to the device, without chunks that were ever
                              * exported, which importers may hold */
    uint64_t asleep_bytes;   /* memory of the chunks that this call put to sleep */
    uint64_t host_bytes;     /* contents kept in pinned host memory */
    uint64_t file_bytes;     /* contents kept in a file */
    uint64_t dropped_bytes;  /* contents dropped */
    uint64_t stayed_bytes;   /* bytes of named blocks that stay awake: the next two, and blocks
                              * beside others that stay awake */
    uint64_t pinned_bytes;   /* in chunks with a pin or an export */
    uint64_t mapped_bytes;   /* in chunks with a second mapping, for captured graphs */
    uint64_t matched_bytes;
    uint64_t unmatched_tags; /* rules with a tag that nothing has */
    uint64_t unmatched_tag;  /* tag of the first of these rules */
} mend_sleep_report;
#define MEND_SLEEP_REPORT_INIT                                                                     \
    {                                                                                              \
        sizeof(mend_sleep_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                 \
    }

/*
 * Put live blocks to sleep: release their physical memory, and keep their addresses and, by the
 * options, their contents. NULL for `options` means all blocks, kept in pinned host memory.
 *
 *     mend_sleep(pool, NULL, NULL);
 *     run_another_program();
 *     mend_wake(pool, NULL, 0, NULL);
 *
 * Committed pages of ranges and blocks of graph pools sleep too. Free memory of graphs sleeps by a
 * rule for the tag of its last block, or else by mend_sleep_options.graphs, without its contents.
 * Launch captured graphs only while their memory is awake. Imported blocks stay as they are.
 *
 * Memory is released in whole chunks. A chunk with a block that stays awake stays too. Blocks with
 * the sleep tag of their thread lie in chunks without others (mend_set_alloc_options), so all of
 * them sleep. A block over several chunks may sleep in part.
 *
 * You may free a sleeping block on any stream, decommit a sleeping page, describe both, and destroy
 * the pool. The last free in a sleeping chunk frees its backup too.
 *
 * Calls the driver, and waits for all work of the context that is queued before the call. During
 * the call, launch no work that touches memory of the pool, and begin no capture. Until mend_wake,
 * launch no work that touches sleeping memory. Other threads may allocate and free.
 *
 * MEND_OK (also if no block is to sleep); MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED (no
 * virtual or pinned memory); MEND_ERROR_ASLEEP (all of it sleeps already); MEND_ERROR_CAPTURING;
 * MEND_ERROR_PINNED (without `skip_pinned`); MEND_ERROR_OUT_OF_HOST_MEMORY (for the contents);
 * MEND_ERROR_SYSTEM (the file cannot be made or written); MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST. After an error no block has changed, with the exception of mend_compact.
 */
MEND_API mend_result mend_sleep(mend_pool *pool, const mend_sleep_options *options,
                                mend_sleep_report *report);

/* The report of a wake. */
typedef struct mend_wake_report {
    size_t struct_size;
    uint64_t woken_bytes;    /* physical memory that they have again */
    uint64_t host_bytes;     /* contents copied back from pinned host memory */
    uint64_t file_bytes;     /* contents read back from files */
    uint64_t matched_bytes;  /* of named blocks and graph memory, asleep or awake */
    uint64_t unmatched_tags; /* tags that nothing has */
    uint64_t unmatched_tag;  /* the first of them */
    uint64_t reused_bytes;   /* of woken_bytes: not from the device */
} mend_wake_report;
#define MEND_WAKE_REPORT_INIT                                                                      \
    {                                                                                              \
        sizeof(mend_wake_report), 0, 0, 0, 0, 0, 0, 0                                              \
    }

/*
 * Wake all chunks that hold blocks, or memory of graphs, with one of these sleep tags. 0 for
 * `tag_count` means all chunks. Memory of graphs without blocks wakes with each call, unless it
 * slept by a rule. `report` may be NULL. Pinned host memory stays for the next sleep
 * (mend_set_backup_cache_limit).
 *
 * All chunks wake, or none. The pool uses its own free memory first. If the limit or the device has
 * too little, it also asks peer pools and the pressure callbacks. It keeps min_free_bytes of the
 * device free, and moves no live block. Other threads may allocate and free. Calls the driver.
 *
 * Waits for the copies, so contents are restored when it returns. Waits for all work of the context
 * before it returns MEND_ERROR_OUT_OF_MEMORY, unless a capture forbids it, and after a failed call
 * whose copies may still run.
 *
 * MEND_OK (also if nothing sleeps or has the tag); MEND_ERROR_CAPTURING (copies of a failed call);
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_MEMORY (the message has the missing bytes);
 * MEND_ERROR_OUT_OF_HOST_MEMORY (also pinned memory, to read files); MEND_ERROR_SYSTEM (the file
 * cannot be read); MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. After an error you can use the pool
 * and wake it again.
 */
MEND_API mend_result mend_wake(mend_pool *pool, const uint64_t *tags, size_t tag_count,
                               mend_wake_report *report);

/*
 * Set how much pinned host memory wakes may leave for the next sleep, in bytes, and free memory
 * above it. 0 means none, and UINT64_MAX (the default) means all. Pinning takes ten times as long
 * as copying, so the cache makes later sleeps faster. With the sleeping contents it never exceeds
 * 1.25 times the most bytes that slept on the host at once. mend_trim frees the part of freed
 * blocks, and a sleep that finds no other host memory all of it. Freeing calls the driver.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_set_backup_cache_limit(mend_pool *pool, uint64_t most_bytes);

/*
 * Read the backup of sleeping memory, which stays asleep, or of memory that is awake, as it was at
 * its last sleep, if the wake left the copy (mend_set_backup_cache_limit). `address` may be inside
 * a block, or in pages of a range.
 *
 * Pass one of the two outputs, and NULL for the other. `copy`, host memory of at least
 * `size_bytes`, gets the contents. *host gets their place in pinned memory, which you may read
 * until the block is freed or wakes. If it is awake, you may read until mend_sleep,
 * mend_set_backup_cache_limit or mend_prepare_checkpoint is called.
 *
 * A wake waits meanwhile. Other threads may allocate and free.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (a part has no backup); MEND_ERROR_NOT_SUPPORTED (*host: the
 * backup is in a file, or in several places); MEND_ERROR_SYSTEM (the file cannot be read: `copy` is
 * undefined); MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_read_backup(mend_pool *pool, const void *address, uint64_t size_bytes,
                                      void *copy, const void **host);

/* ---- checkpoints of the process -------------------------------------------------------------- */

/* The report of mend_prepare_checkpoint. */
typedef struct mend_prepare_checkpoint_report {
    size_t struct_size;
    uint64_t released_bytes;  /* free memory released to the device */
    uint64_t exchanged_bytes; /* memory of live blocks that is private now */
    uint64_t reserved_bytes;  /* memory that the pool still holds */
} mend_prepare_checkpoint_report;
#define MEND_PREPARE_CHECKPOINT_REPORT_INIT                                                        \
    {                                                                                              \
        sizeof(mend_prepare_checkpoint_report), 0, 0, 0                                            \
    }

/*
 * Prepare the pool for a checkpoint of the process by another program (cuda-checkpoint, CRIU). Call
 * it for each pool, right before the checkpoint: later memory is shareable again. Releases all free
 * memory, and pinned host memory that wakes left. Replaces shareable memory of live blocks
 * (mend_pool_config.shareable) by private memory at the same addresses, which cannot be exported.
 * Contents and captured graphs stay. `report` may be NULL.
 *
 * Calls the driver, and waits for all work of the context. During the call, launch no work that
 * touches memory of the pool. Other threads may allocate and free.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_PINNED (blocks are exported or imported, or
 * shareable memory is pinned, mapped at a second address, or holds pages of a range);
 * MEND_ERROR_CAPTURING; MEND_ERROR_OUT_OF_MEMORY (for the copy of one chunk: put blocks to sleep
 * first); MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. After an error
 * some memory may be private, and blocks may be unusable as after a failed mend_compact.
 */
MEND_API mend_result mend_prepare_checkpoint(mend_pool *pool,
                                             mend_prepare_checkpoint_report *report);

#ifdef __cplusplus
}
#endif

#endif
