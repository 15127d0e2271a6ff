/*
 * Sleep and wake: the physical memory of live blocks goes back to the device, and comes back later
 * at the same addresses. The conventions of mend.h hold here too.
 */
#ifndef MEND_MEND_SLEEP_H
#define MEND_MEND_SLEEP_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sleep and wake -------------------------------------------------------------------------- */

/* The fate of the contents of a block that sleeps. A block whose contents were dropped, or a
 * part of them, says so from then on, asleep and awake (mend_block_info.contents_dropped), until it
 * is freed, or one later sleep keeps all of it: Mend does not see writes. */
typedef enum mend_backup {
    MEND_BACKUP_DEFAULT = 0, /* see mend_sleep_options.others */
    MEND_BACKUP_HOST = 1,    /* kept in pinned memory of the host */
    MEND_BACKUP_FILE = 2,    /* kept in a file */
    MEND_DISCARD = 3,        /* dropped: undefined after waking */
    MEND_STAY_RESIDENT = 4   /* the block does not sleep */
} mend_backup;

/* A rule for all blocks with a sleep tag. Fields may be added at the end. */
typedef struct mend_sleep_rule {
    uint64_t tag;
    int backup; /* a mend_backup, not MEND_BACKUP_DEFAULT */
} mend_sleep_rule;

/* Which blocks sleep, and which contents are kept. */
typedef struct mend_sleep_options {
    size_t struct_size;
    const mend_sleep_rule *rules; /* borrowed; of two for one tag the first counts */
    size_t rule_bytes;            /* sizeof(mend_sleep_rule); 0: as in version 0.1 */
    size_t rule_count;
    int others;            /* a mend_backup for the blocks that no rule names; 0: MEND_BACKUP_HOST
                            * if there are no rules, else MEND_STAY_RESIDENT */
    int skip_pinned;       /* 1: pinned and exported memory stays awake, and the report counts it;
                            * 0: it is an error */
    int keep_free;         /* 0: free memory of the pool is given back, as by mend_trim. 1: it is
                            * not. 2: nor that of what sleeps, which becomes free memory of the
                            * pool: for work of this process, which takes it without a creation, as
                            * a wake does */
    const char *directory; /* where MEND_BACKUP_FILE makes its file; needed if a rule or `others`
                            * says so, even if no block is kept there. The file has no name there,
                            * so a crash leaves nothing */
    int graphs;            /* for free memory that captured graphs use, and whose last block had no
                            * sleep tag that a rule names. MEND_DISCARD: it sleeps;
                            * MEND_STAY_RESIDENT: it stays; 0: it sleeps if all blocks do */
} mend_sleep_options;
#define MEND_SLEEP_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(mend_sleep_options), NULL, sizeof(mend_sleep_rule), 0, 0, 0, 0, NULL, 0             \
    }

/* The report of a sleep. */
typedef struct mend_sleep_report {
    size_t struct_size;
    uint64_t released_bytes; /* physical memory given back to the device: that of sleeping chunks
                              * and of empty ones, without chunks that were ever exported, which
                              * others may still hold */
    uint64_t asleep_bytes;   /* memory of the chunks that this call put to sleep */
    uint64_t host_bytes;     /* contents kept in pinned memory of the host */
    uint64_t file_bytes;     /* contents kept in a file */
    uint64_t dropped_bytes;  /* contents dropped */
    uint64_t stayed_bytes;   /* bytes of blocks that were to sleep and stay awake: the sum of the
                              * next two, and what lies in chunks with blocks that stay awake */
    uint64_t pinned_bytes;   /* in chunks with a pin or an export (skip_pinned) */
    uint64_t mapped_bytes;  /* in chunks that are mapped at a second address, for captured graphs */
    uint64_t matched_bytes; /* of blocks and memory of graphs that were to sleep: they sleep now,
                             * stayed awake, or slept before. 0: the options name nothing */
    uint64_t unmatched_tags; /* rules with a tag that none of these has */
    uint64_t unmatched_tag;  /* the tag of the first of them; see unmatched_tags */
} mend_sleep_report;
#define MEND_SLEEP_REPORT_INIT                                                                     \
    {                                                                                              \
        sizeof(mend_sleep_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                 \
    }

/*
 * Puts live blocks to sleep: what their options say is kept, their physical memory goes back to the
 * device, and their addresses stay theirs. `options` NULL: all blocks, kept in pinned memory of the
 * host. Committed pages of ranges (mend_range.h) sleep as blocks, and all that is said of blocks
 * here holds for them. Blocks of graph pools sleep too. Free memory that is kept for graphs has the
 * sleep tag of the block that was there last, and sleeps, without its contents, by a rule for that
 * tag; without one see mend_sleep_options.graphs. Graphs captured before can be launched after
 * mend_wake, and not while their memory sleeps. Blocks of other processes (mend_import) stay as
 * they are.
 *
 * Memory goes back in complete chunks: one in which a block stays awake stays too, and the report
 * says how many bytes did. Blocks with the sleep tag of their thread lie in chunks without others
 * (mend_set_alloc_options), so all of them sleep. A block over several chunks sleeps as far as they
 * do.
 *
 * A sleeping block may be freed, on any stream, a page decommitted, and both described; it may not
 * be used, and calls that need its memory fail with MEND_ERROR_ASLEEP. Other blocks are allocated
 * and freed as ever. When the last block of a sleeping chunk is freed, the kept contents of the
 * chunk goes too. The pool may be destroyed while memory sleeps.
 *
 * Waits first for all work of the context that is queued before the call. The caller guarantees, as
 * for mend_compact, that none is launched during the call that touches memory of the pool, and
 * until mend_wake none that touches sleeping memory. Other threads may allocate and free. The
 * copies run on a stream of their own. A part is written to a file while the next part is copied.
 *
 * MEND_OK, also if no block is to sleep, as after a typo in a tag: the report says so;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_NOT_SUPPORTED (no virtual memory, or no pinned memory);
 * MEND_ERROR_ASLEEP (all that is to sleep is asleep already); MEND_ERROR_CAPTURING (a stream is
 * being captured); MEND_ERROR_PINNED (a block that is to sleep is in a chunk with a pin or an
 * export); MEND_ERROR_OUT_OF_HOST_MEMORY (no memory for the contents); MEND_ERROR_SYSTEM (the file
 * could not be made or written; also beyond the process's limit of file sizes, which raises no
 * signal); MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. After an error no block has changed; what
 * sleeps without any block may be gone. One exception, as for mend_compact: if the driver unmaps a
 * chunk, refuses the next one, and then refuses to map the first again, its blocks are unusable
 * until a later call maps them.
 */
MEND_API mend_result mend_sleep(mend_pool *pool, const mend_sleep_options *options,
                                mend_sleep_report *report);

/* The report of a wake. */
typedef struct mend_wake_report {
    size_t struct_size;
    uint64_t woken_bytes;    /* physical memory that the chunks have again */
    uint64_t host_bytes;     /* contents copied back from pinned memory of the host */
    uint64_t file_bytes;     /* contents read back from files */
    uint64_t matched_bytes;  /* of blocks, and memory of graphs, with one of the tags, or of all
                              * blocks, asleep or awake */
    uint64_t unmatched_tags; /* tags that none of these has */
    uint64_t unmatched_tag;  /* the first of them; see unmatched_tags */
    uint64_t reused_bytes;   /* of woken_bytes: memory that the pool held, free or of a try that
                              * failed. The rest is taken from the device */
} mend_wake_report;
#define MEND_WAKE_REPORT_INIT                                                                      \
    {                                                                                              \
        sizeof(mend_wake_report), 0, 0, 0, 0, 0, 0, 0                                              \
    }

/*
 * Wakes every chunk that holds a block, or memory of graphs, with one of these sleep tags, with all
 * its blocks; `tag_count` 0: all chunks. Memory without blocks that is kept for graphs, and did not
 * sleep by a rule for its tag, wakes with each call. `report` may be NULL. Kept contents are there
 * again when the call returns, byte for byte; the files that kept it are freed, and the pinned
 * memory of the host stays for the next sleep (mend_set_backup_cache_limit).
 *
 * All wake, or none. Idle free chunks of the pool of the sizes that wake are mapped
 * there. Only missing memory is taken from the device, which keeps the rest for others
 * (mend_pool_config.min_free_bytes). If the limit or the device has no room, the pool makes some
 * as a request does of the size of all that lacks memory, without moving live blocks: it gives
 * back its own free memory, then asks peer pools of the device and the pressure callbacks. Waits
 * for the copies only; and for all work of the context, before it answers MEND_ERROR_OUT_OF_MEMORY
 * beside free memory that work may use, unless a capture forbids the wait; and after a call that
 * failed, and whose copies may still run, which in a capture is MEND_ERROR_CAPTURING. Other threads
 * may allocate and free.
 *
 * MEND_OK, also if nothing sleeps, or has such a tag: the report says so; MEND_ERROR_CAPTURING;
 * MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_OUT_OF_MEMORY (mend_get_last_error says how many bytes
 * are lacking); MEND_ERROR_OUT_OF_HOST_MEMORY (also pinned memory, through which files are read);
 * MEND_ERROR_SYSTEM (the file could not be read); MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. After
 * an error everything sleeps as before: the pool can be used, and woken again.
 */
MEND_API mend_result mend_wake(mend_pool *pool, const uint64_t *tags, size_t tag_count,
                               mend_wake_report *report);

/* The memory of one sleep tag. Fields may be added at the end. */
typedef struct mend_sleep_tag_info {
    uint64_t tag;               /* 0: memory without a tag */
    uint64_t live_blocks;       /* blocks, and committed pages of ranges */
    uint64_t live_bytes;        /* their bytes */
    uint64_t asleep_live_bytes; /* of these, of blocks that sleep, or a part of them */
    uint64_t graph_bytes;       /* free memory that is kept for captured graphs, and whose last
                                 * block had the tag */
} mend_sleep_tag_info;

/*
 * Lists how much has which sleep tag, by rising tags: all live_bytes of mend_stats. Array and
 * `capacity` as of mend_get_regions, with sizeof(mend_sleep_tag_info). The time is proportional to
 * the number of blocks and chunks, and allocations wait meanwhile; no driver call. Results as
 * mend_get_regions; MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_get_sleep_tags(mend_pool *pool, mend_sleep_tag_info *infos,
                                         size_t info_bytes, size_t capacity, size_t *count);

/*
 * Sets how much pinned memory of the host wakes may leave for the next sleep, and frees memory
 * above it: 0 none, UINT64_MAX all, as at first. To pin memory takes the driver ten times as long
 * as to copy to it, so a sleep after the first one is that much faster. With what sleeps it is
 * never more than 1.25 times what slept on the host at once; mend_trim frees that of blocks which
 * are gone, and a sleep that finds no other memory of the host all of it
 * (mend_stats.backup_cache_bytes). Freeing calls the driver.
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (pool is NULL); MEND_ERROR_FORKED; MEND_ERROR_DRIVER;
 * MEND_ERROR_DEVICE_LOST.
 */
MEND_API mend_result mend_set_backup_cache_limit(mend_pool *pool, uint64_t most_bytes);

/*
 * Reads the kept contents of sleeping memory; it sleeps on. Awake memory that slept on the host can
 * be read too, as it slept last, while its block lives and the wake left its copy
 * (mend_set_backup_cache_limit). `address` may be within a block, or of pages of a range.
 *
 * Pass one of the two outputs, and NULL for the other. `copy`, memory of the host of `size_bytes`
 * or more, gets the contents. *host gets where they lie in pinned memory. You may read them there
 * until the block is freed or wakes; if it is awake, until it is freed, or mend_sleep,
 * mend_set_backup_cache_limit or mend_prepare_checkpoint is called, which use that memory again.
 *
 * A wake waits meanwhile, other threads may allocate and free. No driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (a part of it does not sleep and has no copy, or was not kept:
 * mend_get_last_error says where); MEND_ERROR_NOT_SUPPORTED (*host: they lie in a file, or in
 * several places, as a block over several chunks); MEND_ERROR_SYSTEM (the file could not be read;
 * `copy` is undefined); MEND_ERROR_DEVICE_LOST (they cannot be read any more).
 */
MEND_API mend_result mend_read_backup(mend_pool *pool, const void *address, uint64_t size_bytes,
                                      void *copy, const void **host);

/* ---- checkpoints of the process -------------------------------------------------------------- */

/* The report of mend_prepare_checkpoint. */
typedef struct mend_prepare_checkpoint_report {
    size_t struct_size;
    uint64_t released_bytes;  /* free memory given back to the device */
    uint64_t exchanged_bytes; /* memory of live blocks that is private now */
    uint64_t reserved_bytes;  /* memory of the device that the pool still holds: a checkpoint keeps
                               * it */
} mend_prepare_checkpoint_report;
#define MEND_PREPARE_CHECKPOINT_REPORT_INIT                                                        \
    {                                                                                              \
        sizeof(mend_prepare_checkpoint_report), 0, 0, 0                                            \
    }

/*
 * Prepares the pool for a checkpoint of the process by another program (cuda-checkpoint, CRIU). It
 * waits for all work of the context, ends mappings that only looked in use, gives all free memory
 * back, and the host's that wakes left pinned, and gives blocks in memory that was created to be
 * shared (mend_pool_config.shareable) private memory at the same addresses, one chunk after the
 * other. After it, the pool holds no memory that other processes can know, and its blocks cannot be
 * exported. Call it for each pool, right before the checkpoint: memory that the pool creates later
 * is shareable again. Addresses, contents and captured graphs stay; a sleeping block needs nothing,
 * so a program that sleeps first has little to keep. `report` may be NULL.
 *
 * The caller guarantees, as for mend_compact, that no work is launched during the call that touches
 * memory of the pool. Other threads may allocate and free.
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT; MEND_ERROR_PINNED (blocks are exported or imported, or
 * memory that was created to be shared is pinned, mapped at a second address, or holds pages of a
 * range: mend_get_last_error says which); MEND_ERROR_CAPTURING (a stream is being captured);
 * MEND_ERROR_OUT_OF_MEMORY (no room for the copy of one chunk: put blocks to sleep first);
 * MEND_ERROR_OUT_OF_HOST_MEMORY; MEND_ERROR_DRIVER; MEND_ERROR_DEVICE_LOST. After an error the pool
 * works as before, and some of its memory may be private; blocks may be unusable as after a failed
 * mend_compact.
 */
MEND_API mend_result mend_prepare_checkpoint(mend_pool *pool,
                                             mend_prepare_checkpoint_report *report);

#ifdef __cplusplus
}
#endif

#endif
