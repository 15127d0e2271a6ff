/*
 * What the model of GMLake consists of: primitive blocks, which own physical pages of 2 MiB, and
 * stitched blocks, which show the pages of several primitive blocks at addresses of their own.
 */
#ifndef MEND_LAB_PEERS_GMLAKE_BLOCKS_H
#define MEND_LAB_PEERS_GMLAKE_BLOCKS_H

#include "base/list.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "base/tree.h"
#include "lab/peers/peer.h"

#define GMLAKE_PAGE_BYTES (2 * MEND_MIB)

/* An array that grows; what it holds is not its own. */
typedef struct gmlake_array {
    void **items;
    size_t count;
    size_t capacity;
} gmlake_array;

/* One range of addresses with pages of its own. */
typedef struct gmlake_segment {
    mend_list in_segments;
    uint64_t address;
    uint64_t pages;
    uint64_t used_pages;
    mend_chunk_handle handles[];
} gmlake_segment;

/* A part of a segment: cut smaller, never joined again. */
typedef struct gmlake_primitive {
    mend_tree_node in_free; /* by stream, pages, address; when not in use */
    uint64_t address;
    uint64_t pages;
    const mend_chunk_handle *handles;
    gmlake_segment *segment;
    mend_stream stream;
    gmlake_array users; /* stitched blocks that show its pages */
} gmlake_primitive;

typedef struct gmlake_stitched {
    mend_tree_node in_idle; /* by stream, pages, address; when no part is in use */
    mend_list in_order;     /* of their last use */
    uint64_t address;
    uint64_t pages;
    mend_stream stream;
    gmlake_array parts; /* primitive blocks */
    size_t busy_parts;  /* in use, by itself or otherwise */
    mend_event event;   /* behind its last use */
} gmlake_stitched;

typedef struct gmlake {
    mend_peer peer;
    mend_peer_config config;
    mend_mutex mutex;
    mend_peer *small; /* requests up to 1 MiB: PyTorch's, as in GMLake */
    mend_tree free_primitives;
    mend_tree idle_stitched;
    mend_list stitched_order; /* of last use, oldest first */
    mend_list segments;
    mend_pointer_map live_primitives;
    mend_pointer_map live_stitched;
    gmlake_array primitives; /* all */
    uint64_t stitched_pages; /* shown by all stitched blocks */
    uint64_t page_bytes;     /* reserved in pages */
    mend_peer_usage usage;
} gmlake;

/* Room for one more. False when malloc fails. */
bool gmlake_array_reserve(gmlake_array *array);
/* Room was reserved. */
void gmlake_array_append(gmlake_array *array, void *item);

mend_result gmlake_fail(mend_status status, const char *call);

void gmlake_init_trees(gmlake *model);
gmlake_primitive *gmlake_best_primitive(const gmlake *model, mend_stream stream, uint64_t pages);
gmlake_primitive *gmlake_largest_primitive(const gmlake *model, mend_stream stream);
/* The next smaller one of the same stream; NULL: none. */
gmlake_primitive *gmlake_smaller_primitive(const gmlake_primitive *primitive);
gmlake_stitched *gmlake_best_stitched(const gmlake *model, mend_stream stream, uint64_t pages);

/* Every stitched block that shows its pages counts it as busy, or no longer. */
void gmlake_set_in_use(gmlake *model, gmlake_primitive *primitive, bool in_use);

/* A new segment, as one free primitive block. */
mend_result gmlake_add_segment(gmlake *model, mend_stream stream, uint64_t pages,
                               gmlake_primitive **primitive);

/* Cuts a free primitive block to `pages`; the rest is free, and of the same stitched blocks. */
mend_result gmlake_cut(gmlake *model, gmlake_primitive *primitive, uint64_t pages);

/* Shows free primitive blocks at new addresses, a map and an access call for each page. */
mend_result gmlake_stitch(gmlake *model, mend_stream stream, const gmlake_array *parts,
                          uint64_t pages, gmlake_stitched **stitched);

/* Unmaps a stitched block whose last use has ended, and forgets it. */
mend_result gmlake_unstitch(gmlake *model, gmlake_stitched *stitched);

/* Gives the pages of segments that nothing uses back, behind a wait for the device. Stitched blocks
 * that are not live go first, for they hold pages too. */
mend_result gmlake_release_free(gmlake *model);

/* Gives all pages back, and frees all that was made for them. */
mend_result gmlake_drop_segments(gmlake *model);

#endif
