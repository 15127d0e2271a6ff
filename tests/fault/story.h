/*
 * Stories for fault sweeps: a program's calls of Mend, one after the other, on a small world, with
 * GPU work that writes each block and reads it back.
 */
#ifndef MEND_TESTS_FAULT_STORY_H
#define MEND_TESTS_FAULT_STORY_H

#include "base/align.h"
#include "mend/mend_range.h"
#include "mend/mend_share.h"
#include "tests/support/world.h"

/* The last stream is the per-thread stream. */
enum { STORY_SLOTS = 512, STORY_STREAMS = 4, STORY_PER_THREAD = STORY_STREAMS - 1 };

/* PRESSURE adds a callback that calls the pool, and frees nothing. FOREIGN: another process takes
 * memory of the device. USE: the GPU reads a block on a stream until the next WAIT. ALLOC_ALIGNED
 * asks for this. RANGE creates a range (slot 1: with small pages, 2: with large ones). COMMIT makes
 * a block of its pages from the slot's number on, DECOMMIT and SHARE_PAGES are for these.
 * ALLOC_FOR_ANY asks without a stream, and uses the block on one. TAG is for later steps. SLEEP
 * keeps tag 1 on the host, and with slot 2 tag 2 in a file, and lets the rest awake. LOOK asks for
 * the usage, whose pending blocks may have ended.
 */
#define STORY_ALIGNMENT_BYTES (256 * MEND_KIB)
#define STORY_PAGE_BYTES      (64 * MEND_KIB)

typedef enum story_action {
    ALLOC,
    ALLOC_ALIGNED,
    ALLOC_FOR_ANY,
    FREE,
    FREE_ANYWHERE,
    SHARE,
    TRIM,
    TRIM_WAIT,
    ROOM,
    LOOK,
    COMPACT,
    PIN,
    UNPIN,
    EXPORT,
    IMPORT,
    EXPORT_BY_FABRIC,
    IMPORT_BY_FABRIC,
    CLOSE,
    CLOSE_ANYWHERE,
    HISTORY,
    LIMIT,
    FORGET,
    GRAPH_POOL_BEGIN,
    GRAPH_POOL_END,
    GRAPH_POOL_RELEASE,
    ALLOC_IN_GRAPH_POOL,
    FREE_IN_GRAPH_POOL,
    CHECKPOINT,
    RESTORE,
    RANGE,
    COMMIT,
    DECOMMIT,
    SHARE_PAGES,
    RANGE_END,
    TAG,
    SLEEP,
    WAKE,
    PREPARE_CHECKPOINT,
    PRESSURE,
    FOREIGN,
    USE,
    WAIT
} action;

typedef struct operation {
    action action;
    int slot;       /* ALLOC, FREE..., SHARE */
    int stream;     /* by number. SLEEP: keep_free */
    uint64_t bytes; /* ALLOC, PIN, UNPIN: size. TRIM...: kept bytes. LIMIT: the limit. FOREIGN: of
                     * others. HISTORY: events. TAG: the tag */
} operation;

typedef struct slot {
    void *pointer;
    uint64_t bytes;
    uint64_t tag;
    int stream;            /* it was allocated for, by number */
    uint64_t readable_ns;  /* when the write of its bytes is done, on the virtual clock */
    uint64_t pinned_bytes; /* 0: it is not pinned */
    mend_export_token token;
    void *imported; /* the block, mapped once more. NULL: it is not */
} slot;

typedef struct story_run {
    mend_world world;
    mend_stream streams[STORY_STREAMS];
    mend_stream reader;          /* the pool never hears of it */
    mend_graph_pool *graph_pool; /* from GRAPH_POOL_BEGIN to GRAPH_POOL_RELEASE */
    mend_range *range;           /* from RANGE to RANGE_END */
    mend_graph_pool_block checkpoint[STORY_SLOTS];
    size_t checkpoint_count;
    unsigned char description[1024]; /* by EXPORT_BY_FABRIC */
    size_t description_bytes;
    uint64_t busy_until_ns[STORY_STREAMS];
    slot slots[STORY_SLOTS];
    uint64_t next_tag;
    bool has_slept;          /* so some blocks may sleep now */
    uint64_t released_bytes; /* by the last successful TRIM, or the last result of ROOM */
} story_run;

/* Creates the streams of a run whose world is open, and destroys them, the pool and the device. */
void story_begin(story_run *run);
void story_end(story_run *run);

/* The one call of Mend an operation consists of, and then, if it succeeded, the work on the GPU. */
mend_result story_call(story_run *run, const operation *op);
void story_use(story_run *run, const operation *op);

/* Reads every live block now, but those whose first write is still to come, since their stream is
 * busy. The device counts violations. WAIT before where a stream waits for another. */
void story_read_all(story_run *run);

#endif
