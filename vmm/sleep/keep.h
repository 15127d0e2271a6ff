/* Backups of sleeping chunks. The caller holds both locks, and a driver scope is open. Slow driver
 * calls, and the file, release `state`. */
#ifndef MEND_SLEEP_KEEP_H
#define MEND_SLEEP_KEEP_H

#include "layout/feature.h"
#include "layout/layout.h"
#include "mend/mend_sleep.h"

/* ---- file.c ---------------------------------------------------------------------------------- */

typedef struct mend_kept_file {
    int descriptor;
    uint64_t size_bytes;
    uint64_t uses; /* chunks that have bytes in it, and the call that writes it */
} mend_kept_file;

/* Makes an empty file in a directory, with one use. MEND_ERROR_SYSTEM. */
mend_result mend_sleep_file_open(const char *directory, mend_kept_file **file);

/* Ends one use, of *file, which is NULL then. The last one closes the file. NULL does nothing. */
void mend_sleep_file_leave(mend_kept_file **file);

/* Takes space of the disk for more bytes at the end. MEND_ERROR_SYSTEM. */
mend_result mend_sleep_file_extend(mend_kept_file *file, uint64_t size_bytes);

/* Writes from `out`, or where that is NULL reads to `in`. MEND_ERROR_SYSTEM. */
mend_result mend_sleep_file_pass(mend_heap *heap, const mend_kept_file *file, const void *out,
                                 void *in, uint64_t size_bytes, uint64_t at);

/* ---- keep.c ---------------------------------------------------------------------------------- */

/* Only the bytes of blocks are kept, in pieces: a copy costs about as much as copying
 * MEND_KEEP_GAP_BYTES, so blocks with smaller gaps between them are one piece. Bytes for files pass
 * through two buffers. All chunks of a call share a file, which ends with the last of them. */

#define MEND_KEEP_GAP_BYTES   (UINT64_C(64) << 10)
#define MEND_KEEP_STAGE_BYTES (UINT64_C(8) << 20)

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
    uint64_t room_bytes;       /* of `host`: host_bytes or more */
    mend_kept_file *file;
    uint64_t host_bytes;
    uint64_t file_bytes;
    uint64_t dropped_bytes;
    bool has_rule; /* memory of graphs in it sleeps by its tag, and wakes by it */
    size_t piece_count;
    mend_kept_piece pieces[];
};

/* The fate of a chunk's block, by the rules. */
int mend_keep_of(const mend_sleep_options *options, const mend_span *span);

/* A rule of the options, whose elements may be of a newer caller. */
mend_sleep_rule mend_rule_at(const mend_sleep_options *options, size_t at);

/* The pieces of a chunk. Nothing is copied yet. `first` overlaps the chunk. NULL: malloc failed. */
mend_contents *mend_keep_plan(const mend_sleep_options *options, const mend_chunk *chunk,
                              const mend_span *first);

/* Frees the backup of a chunk without live blocks. The record stays, and nothing is copied when the
 * chunk wakes. */
void mend_keep_empty(mend_heap *heap, mend_contents *kept);

/* Whether all of the block fell asleep by this sleep, and every byte of it is kept, and of its part
 * in a sleeping chunk. If not, its contents are dropped, and the block says so until one sleep has
 * a backup of all of it. While a part of it sleeps, the program writes no other part. */
bool mend_keep_has_all(const mend_span *span, uint64_t sleep);
bool mend_keep_has_part(const mend_chunk *chunk, const mend_span *span);

/* The piece that holds these bytes of the chunk. NULL: they were not kept in one. */
const mend_kept_piece *mend_keep_piece_of(const mend_contents *kept, uint64_t offset_bytes,
                                          uint64_t size_bytes);

/* Counts it as kept, or not any more. */
void mend_keep_count(mend_heap *heap, const mend_contents *kept, bool begins);

/* Copies the pieces of chunks out, those for a file to one in this directory, or back in. The plan
 * of each is parts[].kept. Copies may still run after a failure, which mend_step_copies_have_ended
 * tells. MEND_ERROR_NOT_SUPPORTED, MEND_ERROR_SYSTEM. */
mend_result mend_keep_copy(mend_heap *heap, const mend_cluster parts[], size_t count, bool out,
                           const char *directory);

/* ---- host_memory.c --------------------------------------------------------------------------- */

/* Frees the backup, and its record. NULL does nothing. Host memory that the driver refuses to free
 * becomes deferred work, to be retried. */
void mend_keep_drop(mend_heap *heap, mend_contents *kept);

/* At the end of the heap: frees all backups. Refused memory stays with the driver, and without a
 * context all of it. */
void mend_keep_clear(mend_heap *heap, mend_ending *ending);

/* Pinned memory of the host, and its end. If the driver refuses that, and malloc too, it stays with
 * the driver. To save: MEND_ERROR_NOT_SUPPORTED. */
mend_result mend_keep_take_host(mend_heap *heap, uint64_t size_bytes, bool saves, void **pointer);
void mend_keep_drop_host(mend_heap *heap, void *host);

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
static inline void mend_copies_limit(mend_heap *heap, uint64_t most_bytes) /* from now on */
{
    heap->keeping.copies_limit = most_bytes;
    mend_copies_shrink(heap, most_bytes);
}

/* Frees copies of which no block lives any more. Opens a driver scope if there are any copies. */
void mend_copies_trim(mend_heap *heap);

/* The copy with the next address at or before this one. NULL: none. */
mend_contents *mend_copy_at(const mend_heap *heap, uint64_t address);

#endif
