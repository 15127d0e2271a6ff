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

#include "alloc/fallback.h"
#include "layout/state.h"
#include "map/map.h"
#include "mend/mend_sleep.h"
#include "sleep/keep.h"

/* ---- sleep.c --------------------------------------------------------------------------------- */

/* As mend_sleep. `options` and `report` are of full size. */
mend_result mend_sleep_put(mend_heap *heap, const mend_sleep_options *options,
                           mend_sleep_report *report);

/* ---- read.c ---------------------------------------------------------------------------------- */

/* While bytes are copied, `state` is released. No driver call. */

/* As mend_read_backup, for each of its outputs. */
mend_result mend_sleep_find(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                            const void **host);
mend_result mend_sleep_read(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host);

/* ---- prepare_checkpoint.c -------------------------------------------------------------------- */

/* As mend_prepare_checkpoint. `report` is of full size. */
mend_result mend_heap_prepare_checkpoint(mend_heap *heap, mend_prepare_checkpoint_report *report);

/* If the limit is too low for so much more: releases idle empty chunks as mend_trim_to_create.
 * Otherwise *lack stays. */
mend_result mend_sleep_make_room(mend_heap *heap, uint64_t bytes, mend_lack *lack);

/* ---- select.c -------------------------------------------------------------------------------- */

/* No driver call, unless it says so. */

typedef struct mend_selection {
    mend_cluster *sleepers; /* by address */
    size_t count;
    size_t spans;          /* in these chunks */
    uint64_t asleep_bytes; /* of blocks that are to sleep, and do */
    uint64_t beside_bytes; /* of blocks that are to sleep and stay: beside blocks that stay awake */
    uint64_t pinned_bytes; /* in chunks with a pin or an export */
    uint64_t mapped_bytes; /* in chunks that are mapped at a second address */
    uint64_t pinned_at;    /* the first chunk with a pin that holds such a block. 0: none */
} mend_selection;

/* Whether the block has one of these sleep tags. */
bool mend_is_tagged(const mend_span *span, const uint64_t *tags, size_t tag_count);

/* Whether it is free memory for captured graphs. */
bool mend_is_for_graphs(const mend_heap *heap, const mend_span *span);

/* The names of a call: bytes of blocks, and tags that no block has, with the first of them. */
typedef struct mend_match {
    uint64_t bytes;
    uint64_t unmatched_tags;
    uint64_t unmatched_tag;
} mend_match;

/* Bytes that are to sleep, asleep or awake, and bytes with one of these tags, or all without
 * tags. */
mend_match mend_match_rules(const mend_heap *heap, const mend_sleep_options *options);
mend_match mend_match_tags(const mend_heap *heap, const uint64_t *tags, size_t tag_count);

mend_result mend_select_to_sleep(mend_heap *heap, const mend_sleep_options *options,
                                 mend_selection *selection);

/* Frees the selection, and the planned backups of chunks that do not sleep. Calls the driver. */
void mend_selection_clear(mend_heap *heap, mend_selection *selection);

/* The sleep tags that blocks and memory of graphs have, by number. `infos` is freed by the caller.
 */
mend_result mend_sleep_list_tags(const mend_heap *heap, mend_sleep_tag_info **infos, size_t *count);

/* ---- wake.c ---------------------------------------------------------------------------------- */

typedef struct mend_wake_order {
    const uint64_t *tags;
    size_t tag_count; /* 0: all that sleeps */
    bool waits;       /* for all work of the context, so that free memory is idle */
} mend_wake_order;

/* As mend_wake, without the help of others. Notes in the seek the bytes of the wake, and the bytes
 * missing on the device below the limit. */
mend_result mend_sleep_wake(mend_heap *heap, const mend_wake_order *order, mend_wake_report *report,
                            mend_seek *seek);

/* ---- asleep.c -------------------------------------------------------------------------------- */

/* Changed under both locks of the heap. */

/* A frozen chunk sleeps from now on. Its memory, which is not mapped any more, becomes an empty
 * chunk, with a node of the slab that the caller reserved. No driver call. */
mend_chunk *mend_chunk_fall_asleep(mend_chunks *chunks, mend_chunk *chunk, mend_contents *kept);

/* A sleeping chunk, whose memory is mapped and has its contents, is an ordinary frozen chunk. */
void mend_chunk_wake_up(mend_chunks *chunks, mend_chunk *chunk);

/* Hooks of the feature (layout/feature.h). */
void mend_sleep_retry(mend_heap *heap, mend_deferred *deferred, uint32_t asking);
void mend_sleep_statistics(const mend_heap *heap, mend_stats *stats);

#endif
