/*
 * Sleep, as a transaction: it freezes its chunks, so that no thread takes or reuses memory in them,
 * copies their contents away, and only then unmaps them. A failure undoes it. Sleeping chunks:
 * memory/chunk.h.
 *
 * Unless a comment says otherwise the caller holds both locks, and no driver scope is open. Slow
 * driver calls release `state`.
 */
#ifndef MEND_SLEEP_SLEEP_H
#define MEND_SLEEP_SLEEP_H

#include "layout/feature.h"
#include "map/map.h"
#include "mend/mend_sleep.h"

/* ---- sleep.c --------------------------------------------------------------------------------- */

/* Hooks of the feature (layout/feature.h). */
void mend_sleep_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking);
void mend_sleep_statistics(const mend_heap *heap, mend_stats *stats);

/* ---- select.c -------------------------------------------------------------------------------- */

/* No driver call, unless it says so. */

typedef struct mend_selection {
    mend_cluster *sleepers; /* by address */
    size_t count;
    size_t spans;          /* in these chunks */
    uint64_t asleep_bytes; /* of blocks that are to sleep, and do */
    uint64_t pinned_at;    /* the first chunk with a pin that holds a block that is to. 0: none */
} mend_selection;

bool mend_is_tag_of(uint64_t tag, const uint64_t *tags, size_t tag_count);

/* Whether it is free memory for captured graphs. */
bool mend_is_for_graphs(const mend_heap *heap, const mend_span *span);

/* The names of a call: bytes of blocks, and tags that no block has, with the first of them. */
typedef struct mend_match {
    uint64_t bytes;
    uint64_t unmatched_tags;
    uint64_t unmatched_tag;
} mend_match;

/* Bytes that are to sleep by the options, asleep or awake. Without options those with one of these
 * tags, or all without tags. */
mend_result mend_match_names(const mend_heap *heap, const mend_sleep_options *options,
                             const uint64_t *tags, size_t tag_count, mend_match *match);

/* Into an empty selection. The report gets what is to sleep and stays. */
mend_result mend_select_to_sleep(mend_heap *heap, const mend_sleep_options *options,
                                 mend_selection *selection, mend_sleep_report *report);

/* Frees the selection, and the planned backups of chunks that do not sleep. Calls the driver. */
void mend_selection_clear(mend_heap *heap, mend_selection *selection);

/* ---- keep.c ---------------------------------------------------------------------------------- */

/* Backups of sleeping chunks. A driver scope is open. Slow driver calls, and the file, release
 * `state`. */

typedef struct mend_kept_file {
    int descriptor;
    uint64_t size_bytes;
    uint64_t uses; /* chunks that have bytes in it, and the call that writes it */
} mend_kept_file;

/* Neighboring bytes of a chunk that are kept in one place. */
typedef struct mend_kept_piece {
    uint64_t offset_bytes; /* from the start of the chunk */
    uint64_t size_bytes;
    uint64_t at; /* offset in the memory of the host, or in the file */
    int backup;  /* MEND_BACKUP_HOST or MEND_BACKUP_FILE */
} mend_kept_piece;

struct mend_contents {
    mend_deferred deferred;    /* once it is dropped, and the driver does not free `host` */
    mend_tree_node by_address; /* in mend_keeping.copies, once its chunk has woken */
    mend_tree_node by_room;    /* in mend_keeping.copies_by_room, as long */
    uint64_t address;          /* of the chunk */
    uint64_t sleep;            /* the number of the sleep, by heap->counters */
    void *host;                /* NULL: none */
    uint64_t registered_bytes; /* of `host`: pages that are registered. 0: of host_alloc */
    uint64_t room_bytes;       /* of `host`: host_bytes or more */
    mend_kept_file *file;
    uint64_t host_bytes;
    uint64_t file_bytes;
    uint64_t dropped_bytes;
    bool has_rule; /* memory of graphs in it sleeps by its tag, and wakes by it */
    size_t piece_count;
    mend_kept_piece pieces[];
};

/* A rule of the options, whose elements may be of a newer caller. */
mend_sleep_rule mend_rule_at(const mend_sleep_options *options, size_t at);

/* The backup that the rule for a tag says. MEND_BACKUP_DEFAULT: there is none. And the fate of a
 * block with the tag, by all options. */
int mend_rule_of(const mend_sleep_options *options, uint64_t tag);
int mend_keep_of(const mend_sleep_options *options, uint64_t tag);

/* The pieces of a chunk with so many spans. Nothing is copied yet. NULL: malloc failed. */
mend_contents *mend_keep_plan(const mend_sleep_options *options, const mend_chunk *chunk,
                              const mend_span *first, size_t spans);

/* Frees the backup of a chunk without live blocks. The record stays, and nothing is copied when the
 * chunk wakes. */
void mend_keep_empty(mend_heap *heap, mend_contents *kept);

/* Whether every byte of the block in a sleeping chunk is kept. */
bool mend_keep_has_part(const mend_chunk *chunk, const mend_span *span);

/* Counts it as kept, or not any more. */
void mend_keep_count(mend_heap *heap, const mend_contents *kept, bool begins);

/* Copies the pieces of chunks out, those for a file to one in this directory, or back in. The plan
 * of each is parts[].kept. Copies may still run after a failure, which
 * mend_retire_copies_have_ended tells. MEND_ERROR_NOT_SUPPORTED, MEND_ERROR_SYSTEM. */
mend_result mend_keep_copy(mend_heap *heap, const mend_cluster parts[], size_t count, bool out,
                           const char *directory);

/* ---- pinned.c -------------------------------------------------------------------------------- */

/* The caller holds no lock of a heap: these may take long. */

enum { MEND_PINNED_PAGE_BYTES = 2 << 20 };

/* Written pages for the driver to register, whose size is a multiple of the page, and which munmap
 * frees. NULL: the system gives none, or would have too little left. */
void *mend_pinned_pages(uint64_t size_bytes);

/* The host memory that may still be written: the least of the machine's available memory and the
 * rest of the process's memory control groups, of both versions. Their page cache counts as used.
 * Linux kills a process that writes more, so ask before. UINT64_MAX if nothing is known. Reads
 * files below `root`, "" for the system's own: some 50 us. */
uint64_t mend_host_room_bytes(const char *root);

/* ---- host_memory.c --------------------------------------------------------------------------- */

/* Ends one use of a file, of *file, which is NULL then. The last one closes it. NULL does nothing.
 */
void mend_sleep_file_leave(mend_kept_file **file);

/* Frees the backup, and its record. NULL does nothing. Host memory that the driver refuses to free
 * becomes deferred work, to be retried. */
void mend_keep_drop(mend_heap *heap, mend_contents *kept);

/* At the end of the heap: frees all backups. Refused memory stays with the driver, and without a
 * context all of it. */
void mend_keep_clear(mend_heap *heap, mend_ending *ending);

/* Pinned memory of the host, and its end. If the driver refuses that, and malloc too, it stays with
 * the driver. To save: MEND_ERROR_NOT_SUPPORTED. */
mend_result mend_keep_take_host(mend_heap *heap, uint64_t size_bytes, bool saves,
                                mend_contents *kept);
void mend_keep_drop_host(mend_heap *heap, void *host, uint64_t registered_bytes);

/* Memory for a backup: of a copy that fits, or new. */
mend_result mend_keep_take_room(mend_heap *heap, mend_contents *kept);

/* The copy of the same chunk becomes its memory, if there is one that fits: to be called for all
 * chunks of a sleep first. */
void mend_copies_take_own(mend_heap *heap, mend_contents *kept);

void mend_copies_init(mend_heap *heap);

/* Nothing is a copy of these bytes any more. The memory stays for the next sleep. */
void mend_copies_forget(mend_heap *heap, uint64_t address, uint64_t size_bytes);

/* The backup of a chunk that woke becomes its copy, and replaces copies with older contents of
 * these addresses. Above the limit, or without host memory, it is freed. */
void mend_copies_leave(mend_heap *heap, mend_contents *kept, uint64_t size_bytes);

/* Frees copies until there is no more than this. */
void mend_copies_shrink(mend_heap *heap, uint64_t most_bytes);

/* Frees all copies, or those of which no block lives any more. Opens a driver scope if there are
 * any. */
void mend_copies_trim(mend_heap *heap, bool all);

/* The copy with the next address at or before this one. NULL: none. */
mend_contents *mend_copy_at(const mend_heap *heap, uint64_t address);

#endif
