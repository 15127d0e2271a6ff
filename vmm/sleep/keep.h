/*
 * What is kept of sleeping chunks: which bytes, where, and their way there and back.
 *
 * Only the bytes of blocks are kept, in pieces: a copy costs about as much as copying
 * MEND_KEEP_GAP_BYTES, so blocks with smaller gaps between them are one piece. Each chunk has its
 * own pinned memory of the host, which goes with it. Bytes for files pass through two buffers:
 * while one is written or read, the other one is copied. All chunks of a call share a file without
 * a name, which ends with the last of them.
 *
 * The caller holds both locks, and a driver scope is open; slow driver calls, and the file, release
 * `state`.
 */
#ifndef MEND_SLEEP_KEEP_H
#define MEND_SLEEP_KEEP_H

#include "layout/state.h"
#include "mend/mend_sleep.h"
#include "sleep/file.h"

#define MEND_KEEP_GAP_BYTES   (UINT64_C(64) << 10)
#define MEND_KEEP_STAGE_BYTES (UINT64_C(8) << 20)

/* Neighbouring bytes of a chunk that are kept in one place. */
typedef struct mend_kept_piece {
    uint64_t offset_bytes; /* from the start of the chunk */
    uint64_t size_bytes;
    uint64_t at; /* offset in the memory of the host, or in the file */
    int keep;    /* MEND_KEEP_HOST or MEND_KEEP_FILE */
} mend_kept_piece;

typedef struct mend_kept {
    struct mend_kept *next; /* in mend_keeping.refused */
    void *host;             /* NULL: none */
    mend_kept_file *file;
    uint64_t host_bytes;
    uint64_t file_bytes;
    uint64_t dropped_bytes;
    bool has_rule; /* memory of graphs in it sleeps by its tag, and wakes by it */
    size_t piece_count;
    mend_kept_piece pieces[];
} mend_kept;

/* What a chunk's block asks for, by the rules. */
int mend_keep_of(const mend_sleep_options *options, const mend_span *span);

/* The pieces of a chunk; nothing is copied yet. `first` overlaps the chunk. NULL: malloc failed. */
mend_kept *mend_keep_plan(const mend_sleep_options *options, const mend_chunk *chunk,
                          const mend_span *first);

/* Frees what is kept, and its record; NULL does nothing. Calls the driver; if it refuses to free
 * memory of the host, a later call of mend_keep_free_refused tries again. */
void mend_keep_drop(mend_heap *heap, mend_kept *kept);
void mend_keep_free_refused(mend_heap *heap);

/* Frees what is kept of a chunk without live blocks; the record stays, and nothing is copied back
 * when the chunk wakes. */
void mend_keep_empty(mend_heap *heap, mend_kept *kept);

/* The records at the end of the heap: what the driver still refuses stays with it. */
void mend_keep_abandon_refused(mend_heap *heap);

/* Whether all of the block sleeps, and every byte of it is kept; and of its part in a sleeping
 * chunk. If not, its contents are dropped, and the block says so until a sleep keeps all of it. */
bool mend_keep_has_all(const mend_span *span);
bool mend_keep_has_part(const mend_chunk *chunk, const mend_span *span);

/* Counts it as kept, or not any more. */
void mend_keep_count(mend_heap *heap, const mend_kept *kept);
void mend_keep_uncount(mend_heap *heap, const mend_kept *kept);

/* The copies of one call: its stream, its file and its buffers. */
typedef struct mend_keeper {
    mend_heap *heap;
    mend_stream stream;
    bool has_stream;
    mend_kept_file *file;
    void *stages[2];
    int next_stage;
    uint64_t staged_at;    /* what the other buffer holds: its offset in the file */
    uint64_t staged_bytes; /* ... and its size; 0: nothing */
} mend_keeper;

/* Makes what the call needs. After either result the caller calls mend_keeper_end, which waits for
 * copies that still run. MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_SYSTEM, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. `directory`: of a new file; NULL: none. */
mend_result mend_keeper_begin(mend_keeper *keeper, mend_heap *heap, bool has_files,
                              const char *directory);
void mend_keeper_end(mend_keeper *keeper);

/* Copies the pieces of a chunk out, and back in. They may still run when the call returns: what is
 * copied is complete after mend_keeper_finish. Errors as above. */
mend_result mend_keeper_save(mend_keeper *keeper, const mend_chunk *chunk, mend_kept *kept);
mend_result mend_keeper_load(mend_keeper *keeper, const mend_chunk *chunk, const mend_kept *kept);
mend_result mend_keeper_finish(mend_keeper *keeper);

#endif
