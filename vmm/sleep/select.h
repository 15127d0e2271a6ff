/*
 * Which chunks sleep: those in which every block is to sleep, and so is free memory that is kept
 * for captured graphs, by the tag of the block that was there last. A committed page of a range
 * counts as a block.
 *
 * The caller holds both locks. No driver call.
 */
#ifndef MEND_SLEEP_SELECT_H
#define MEND_SLEEP_SELECT_H

#include "sleep/keep.h"

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

#endif
