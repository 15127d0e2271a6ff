/*
 * Sleep, as a transaction: it freezes its chunks, so that no thread takes or reuses memory in them,
 * copies their contents away, and only then unmaps them; what cannot be done is undone. What a
 * sleeping chunk is: physical/chunk.h.
 *
 * The caller holds both locks, and no driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_SLEEP_SLEEP_H
#define MEND_SLEEP_SLEEP_H

#include "ladder/ladder.h"
#include "layout/state.h"
#include "mend/mend_host.h"
#include "mend/mend_sleep.h"
#include "move/move.h"

/* ---- file.c ---------------------------------------------------------------------------------- */

typedef struct mend_kept_file {
    int descriptor;
    uint64_t size_bytes;
    uint64_t uses; /* chunks that have bytes in it, and the call that writes it */
} mend_kept_file;

/* Makes an empty file in a directory, with one use. MEND_ERROR_SYSTEM,
 * MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_sleep_file_open(const char *directory, mend_kept_file **file);

/* Ends one use; the last one closes the file. NULL does nothing. */
void mend_sleep_file_leave(mend_kept_file *file);

/* Takes space of the disk for more bytes at the end. MEND_ERROR_SYSTEM. */
mend_result mend_sleep_file_extend(mend_kept_file *file, uint64_t size_bytes);

/* MEND_ERROR_SYSTEM. */
mend_result mend_sleep_file_write(mend_heap *heap, const mend_kept_file *file, const void *bytes,
                                  uint64_t size_bytes, uint64_t at);
mend_result mend_sleep_file_read(mend_heap *heap, const mend_kept_file *file, void *bytes,
                                 uint64_t size_bytes, uint64_t at);

/* ---- keep.c ---------------------------------------------------------------------------------- */

/*
 * Only the bytes of blocks are kept, in pieces: a copy costs about as much as copying
 * MEND_KEEP_GAP_BYTES, so blocks with smaller gaps between them are one piece. Each chunk has its
 * own pinned memory of the host, which a wake leaves for the next sleep. Bytes for files pass
 * through two buffers: while one is written or read, the other one is copied. All chunks of a call
 * share a file without a name, which ends with the last of them.
 *
 * The caller holds both locks, and a driver scope is open; slow driver calls, and the file, release
 * `state`.
 */

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
    struct mend_kept *next;    /* in mend_keeping.refused */
    mend_tree_node by_address; /* in mend_keeping.copies, once its chunk has woken */
    mend_tree_node by_room;    /* in mend_keeping.copies_by_room, as long */
    uint64_t address;          /* of the chunk */
    void *host;                /* NULL: none */
    uint64_t room_bytes;       /* of `host`: host_bytes or more */
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

/* Frees what is kept of a chunk without live blocks; the record stays, and nothing is copied back
 * when the chunk wakes. */
void mend_keep_empty(mend_heap *heap, mend_kept *kept);

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

/* ---- host_memory.c --------------------------------------------------------------------------- */

/*
 * Pinning memory of the host costs ten times a copy to it, so what a wake has copied back stays
 * pinned, a copy of what slept, for the next sleep. All pinned memory together, room_bytes, is
 * never more than what was needed at once, most_bytes: that is what slept, and a quarter at most.
 *
 * The caller holds both locks, and a driver scope is open; slow driver calls release `state`.
 */

/* Frees what is kept, and its record; NULL does nothing. If the driver refuses to free memory of
 * the host, a later call of mend_keep_free_refused tries again. */
void mend_keep_drop(mend_heap *heap, mend_kept *kept);
void mend_keep_free_refused(mend_heap *heap);

/* The records at the end of the heap: what the driver still refuses stays with it. */
void mend_keep_abandon_refused(mend_heap *heap);

/* Pinned memory of the host, and its end. If the driver refuses that, and malloc too, it stays with
 * the driver. MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_NOT_SUPPORTED, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. */
mend_result mend_keep_take_host(mend_heap *heap, uint64_t size_bytes, void **pointer);
void mend_keep_drop_host(mend_heap *heap, void *host);

/* Memory for what is to be kept on the host: that of a copy which fits, or new memory. Errors as
 * above. */
mend_result mend_keep_take_room(mend_heap *heap, mend_kept *kept);

/* The copy of the same chunk becomes its memory, if there is one that fits: to be called for all
 * chunks of a sleep first. */
void mend_copies_take_own(mend_heap *heap, mend_kept *kept);

void mend_copies_init(mend_heap *heap);

/* What is kept of a chunk that woke becomes its copy, in place of those that hold older contents of
 * these addresses; beyond the limit, and without memory of the host, it is freed. */
void mend_copies_leave(mend_heap *heap, mend_kept *kept, uint64_t size_bytes);

/* Frees all copies. Sets the most that they may take, and frees what is above it. */
void mend_copies_clear(mend_heap *heap);
void mend_copies_limit(mend_heap *heap, uint64_t most_bytes);

/* Frees copies of which no block lives any more. Opens a driver scope if there are any copies. */
void mend_copies_trim(mend_heap *heap);

/* The copy with the next address at or before this one; NULL: none. */
const mend_kept *mend_copy_at(const mend_heap *heap, uint64_t address);

/* ---- sleep.c --------------------------------------------------------------------------------- */

/* As mend_sleep; `options` and `report` are of full size. */
mend_result mend_sleep_put(mend_heap *heap, const mend_sleep_options *options,
                           mend_sleep_report *report);

/* ---- collect.c ------------------------------------------------------------------------------- */

/* Ends them. The caller holds both locks; a driver scope is open. What host memory is short for
 * stays. */
void mend_sleep_collect(mend_heap *heap);

/* The same without a scope, and gives back memory that the driver refused before. */
void mend_sleep_collect_all(mend_heap *heap);

/* The same for a thread that holds `state` alone; does nothing if another thread makes room. */
void mend_sleep_collect_now(mend_heap *heap);

/* Frees what is kept of all sleeping chunks, at the end of the heap. */
void mend_sleep_clear(mend_heap *heap);

/* ---- quiesce.c ------------------------------------------------------------------------------- */

/* The caller holds both locks, and no driver scope is open; slow driver calls release `state`. */

/* As mend_quiesce; `report` is of full size. */
mend_result mend_heap_quiesce(mend_heap *heap, mend_quiesce_report *report);

/* ---- quiet.c --------------------------------------------------------------------------------- */

/* Waits for the context, and ends what only looks as if it were in use: aliases, retired mappings,
 * chunks without blocks, refusals of the driver. The caller holds both locks; a driver scope is
 * open. MEND_ERROR_CAPTURING, MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER,
 * MEND_ERROR_DEVICE_LOST. */
mend_result mend_quiet_begin(mend_heap *heap);

/* ---- read.c ---------------------------------------------------------------------------------- */

/*
 * The caller holds both locks. What is kept changes under both: while bytes are copied, `state` is
 * released. No driver call.
 */

/* As mend_read_kept, and mend_find_kept. */
mend_result mend_sleep_find(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                            const void **host);
mend_result mend_sleep_read(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host);

/* ---- relocate.c ------------------------------------------------------------------------------ */

/* The caller holds both locks, and no driver scope is open; slow driver calls release `state`. */

/* As mend_move_to_host and mend_move_to_device; `report` is of full size. */
mend_result mend_relocate(mend_heap *heap, mend_exchange_kind kind, const uint64_t *tags,
                          size_t tag_count, mend_move_report *report);

/* Gives a chunk other memory of the device, in an open driver scope at a quiet point; makes room by
 * giving empty chunks back. Results as mend_exchange_memory. */
mend_result mend_relocate_in_device(mend_heap *heap, const mend_exchange_order *order,
                                    uint64_t *copied_bytes);

/* ---- select.c -------------------------------------------------------------------------------- */

/* The caller holds both locks. No driver call. */

typedef struct mend_sleeper {
    mend_chunk *chunk;
    mend_kept *kept; /* owned by the selection until the chunk sleeps */
} mend_sleeper;

typedef struct mend_selection {
    mend_sleeper *sleepers; /* by address */
    size_t count;
    size_t spans;          /* in these chunks */
    uint64_t bytes;        /* of these chunks */
    uint64_t chosen_bytes; /* of blocks in them */
    bool has_files;        /* something is kept in a file */
    uint64_t asleep_bytes; /* of blocks that are to sleep, and do */
    uint64_t shared_bytes; /* of blocks that are to sleep and stay: beside blocks that stay awake */
    uint64_t pinned_bytes; /* in chunks with a pin or an export */
    uint64_t mapped_bytes; /* in chunks that are mapped at a second address */
    uint64_t pinned_at;    /* the first chunk with a pin that holds such a block; 0: none */
} mend_selection;

/* Whether the block has one of these sleep tags. */
bool mend_is_tagged(const mend_span *span, const uint64_t *tags, size_t tag_count);

/* Whether it is free memory that is kept for captured graphs, and whether that is to sleep. */
bool mend_is_for_graphs(const mend_heap *heap, const mend_span *span);
bool mend_graphs_sleep(const mend_sleep_options *options, const mend_span *span);

/* Shows all blocks, and memory of graphs, to `look`, by address, until that is true. */
bool mend_look_at_blocks(const mend_heap *heap, bool (*look)(void *context, const mend_span *),
                         void *context);

/* What a call names: bytes of blocks, and tags that no block has, with the first of them. */
typedef struct mend_match {
    uint64_t bytes;
    uint64_t unmatched_tags;
    uint64_t unmatched_tag;
} mend_match;

/* What is to sleep, asleep or awake; and what has one of these tags, or all if there are none. */
mend_match mend_match_rules(const mend_heap *heap, const mend_sleep_options *options);
mend_match mend_match_tags(const mend_heap *heap, const uint64_t *tags, size_t tag_count);

/* Finds them. MEND_ERROR_OUT_OF_HOST_MEMORY: nothing is selected. */
mend_result mend_select_to_sleep(mend_heap *heap, const mend_sleep_options *options,
                                 mend_selection *selection);

/* Whether the chunk could sleep, if there were not blocks in it that stay awake. */
bool mend_is_shared(const mend_heap *heap, const mend_sleep_options *options,
                    const mend_chunk *chunk);

/* Frees the selection, and what chunks that do not sleep would keep. Calls the driver. */
void mend_selection_clear(mend_heap *heap, mend_selection *selection);

/* ---- settle.c -------------------------------------------------------------------------------- */

/* Unmaps it and gives it back; what the driver refuses stays, accounted for, and a later call tries
 * again. The caller holds both locks; a driver scope is open. */
void mend_sleep_settle(mend_heap *heap);

/* ---- split.c --------------------------------------------------------------------------------- */

/* The caller holds both locks, at a quiet point; a driver scope is open. */

typedef struct mend_splits {
    size_t count;          /* chunks that were split */
    uint64_t copied_bytes; /* for that */
    bool lacks_room;       /* for another one */
} mend_splits;

/* Splits those that can be; gives the pool's empty chunks back if they are in the way of a copy.
 * MEND_ERROR_DEVICE_LOST; MEND_ERROR_DRIVER: a chunk lacks its mapping. */
mend_result mend_sleep_split(mend_heap *heap, const mend_sleep_options *options,
                             mend_splits *splits);

/* ---- tags.c ---------------------------------------------------------------------------------- */

/* The sleep tags that blocks and memory of graphs have, by number; `infos` is freed by the caller.
 * The caller holds both locks. No driver call. MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_sleep_list_tags(const mend_heap *heap, mend_sleep_tag_info **infos, size_t *count);

/* ---- wake.c ---------------------------------------------------------------------------------- */

/* The caller holds both locks, and no driver scope is open; slow driver calls release `state`. */

/* As mend_wake, without the help of others. After MEND_ERROR_OUT_OF_MEMORY, *need says what the
 * device or the limit lacked, and of what; not whether others may wait. */
mend_result mend_sleep_wake(mend_heap *heap, const uint64_t *tags, size_t tag_count,
                            mend_wake_report *report, mend_need *need);

#endif
