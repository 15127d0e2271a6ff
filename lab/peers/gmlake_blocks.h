/*
 * The parts of the model of GMLake: primitive blocks, which own physical pages of 2 MiB, and
 * stitched blocks, which map the pages of several primitive blocks at addresses of their own.
 */
#ifndef MEND_LAB_PEERS_GMLAKE_BLOCKS_H
#define MEND_LAB_PEERS_GMLAKE_BLOCKS_H

#include "base/list.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "base/tree.h"
#include "lab/peers/peer.h"

#define GMLAKE_PAGE_BYTES (2 * MEND_MIB)

/* An array that grows; it does not own its items. */
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

/* A part of a segment; it can be split, but is never joined again. */
typedef struct gmlake_primitive {
    mend_tree_node in_free; /* by stream, pages, address; while it is not in use */
    uint64_t address;
    uint64_t pages;
    const mend_chunk_handle *handles;
    gmlake_segment *segment;
    mend_stream stream;
    gmlake_array users; /* stitched blocks that map its pages */
} gmlake_primitive;

typedef struct gmlake_stitched {
    mend_tree_node in_idle; /* by stream, pages, address; while no part is in use */
    mend_list in_order;     /* in the order of last use */
    uint64_t address;
    uint64_t pages;
    mend_stream stream;
    gmlake_array parts; /* primitive blocks */
    size_t busy_parts;  /* parts in use, by this block or another */
    mend_event event;   /* recorded after its last use */
} gmlake_stitched;

typedef struct gmlake {
    mend_peer peer;
    mend_peer_config config;
    mend_mutex mutex;
    mend_peer *small; /* for requests up to 1 MiB: PyTorch's allocator */
    mend_tree free_primitives;
    mend_tree idle_stitched;
    mend_list stitched_order; /* in the order of last use, oldest first */
    mend_list segments;
    mend_pointer_map live_primitives;
    mend_pointer_map live_stitched;
    gmlake_array primitives; /* all of them */
    uint64_t stitched_pages; /* mapped by all stitched blocks */
    uint64_t page_bytes;     /* bytes of all pages */
    mend_peer_usage usage;
} gmlake;

/* Makes room for one more item. False if malloc fails. */
bool gmlake_array_reserve(gmlake_array *array);
/* The caller made room. */
void gmlake_array_append(gmlake_array *array, void *item);

mend_result gmlake_fail(mend_status status, const char *call);

void gmlake_init_trees(gmlake *model);
gmlake_primitive *gmlake_best_primitive(const gmlake *model, mend_stream stream, uint64_t pages);
gmlake_primitive *gmlake_largest_primitive(const gmlake *model, mend_stream stream);
/* The next smaller one of the same stream, or NULL. */
gmlake_primitive *gmlake_smaller_primitive(const gmlake_primitive *primitive);
gmlake_stitched *gmlake_best_stitched(const gmlake *model, mend_stream stream, uint64_t pages);

/* Updates busy_parts of every stitched block that maps its pages. */
void gmlake_set_in_use(gmlake *model, gmlake_primitive *primitive, bool in_use);

/* A new segment, as one free primitive block. */
mend_result gmlake_add_segment(gmlake *model, mend_stream stream, uint64_t pages,
                               gmlake_primitive **primitive);

/* Splits a free primitive block at `pages`; the rest is free, and part of the same stitched
 * blocks. */
mend_result gmlake_cut(gmlake *model, gmlake_primitive *primitive, uint64_t pages);

/* Maps free primitive blocks at new addresses, with one map and one access call for each page. */
mend_result gmlake_stitch(gmlake *model, mend_stream stream, const gmlake_array *parts,
                          uint64_t pages, gmlake_stitched **stitched);

/* Unmaps a stitched block whose last use has ended, and removes it. */
mend_result gmlake_unstitch(gmlake *model, gmlake_stitched *stitched);

/* Waits for the device and releases the pages of unused segments. Stitched blocks that are not live
 * go first, because they also keep pages. */
mend_result gmlake_release_free(gmlake *model);

/* Releases all pages and frees all records. */
mend_result gmlake_drop_segments(gmlake *model);

#endif
