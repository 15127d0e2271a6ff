/*
 * A model of the parts that both modes of PyTorch's CUDA allocator share. Free blocks are ordered
 * by (stream, size, address), since PyTorch 2.13 by (stream, size, age of the segment, address).
 * There is a pool for small and one for large requests, best fit, splitting, and joining with free
 * neighbors of the same segment. Blocks that another stream used wait for an event. The modes
 * differ in how they get and release segments.
 */
#ifndef MEND_LAB_PEERS_TORCH_H
#define MEND_LAB_PEERS_TORCH_H

#include "base/pointer_map.h"
#include "base/slab.h"
#include "base/thread.h"
#include "base/tree.h"
#include "lab/peers/peer.h"

typedef struct torch_pool {
    mend_tree free_blocks;     /* mapped and free: by stream, size, segment, address */
    mend_tree unmapped_blocks; /* by stream, address */
    bool is_small;
    uint64_t searches; /* how often a free block was looked for */
} torch_pool;

/* One plain allocation, or one range of addresses that is mapped page by page. */
typedef struct torch_segment {
    mend_list in_segments;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t page_bytes;        /* of a mapped range. Otherwise 0 */
    mend_chunk_handle *handles; /* one for each page. 0: not mapped */
    uint64_t mapped_pages;
} torch_segment;

typedef struct torch_block {
    mend_tree_node in_pool; /* while it is free: in one of the pool's trees */
    uint64_t address;
    uint64_t size_bytes;
    mend_stream stream;
    torch_pool *pool;
    torch_segment *segment;
    struct torch_block *previous; /* neighbors in the segment */
    struct torch_block *next;
    bool is_free;
    bool is_mapped;
    uint64_t free_since;     /* the searches of its pool when it became free */
    uint64_t segment_number; /* 0: the model does not prefer older segments */
} torch_block;

/* A freed block that another stream than its own used last. */
typedef struct torch_waiting {
    mend_list in_waiting;
    torch_block *block;
    mend_event event;
    mend_stream stream;
} torch_waiting;

typedef struct torch_model torch_model;

/* Gets memory from the driver for a free block of at least `size_bytes`, and takes the block out of
 * its pool. */
typedef mend_result (*torch_grow)(torch_model *model, torch_pool *pool, uint64_t size_bytes,
                                  mend_stream stream, torch_block **block);
/* Releases all cached memory of a pool to the driver. */
typedef mend_result (*torch_release)(torch_model *model, torch_pool *pool);
/* Releases segments that were not used for long, before the driver is asked for more. */
typedef mend_result (*torch_collect)(torch_model *model);
/* Releases just enough oversize segments of a stream for a request that the driver refused.
 * MEND_ERROR_OUT_OF_MEMORY: there are not enough of them. */
typedef mend_result (*torch_make_room)(torch_model *model, torch_pool *pool, uint64_t size_bytes,
                                       mend_stream stream);
/* Releases one segment, whatever uses it. */
typedef mend_result (*torch_drop)(torch_model *model, torch_segment *segment);

struct torch_model {
    mend_peer peer;
    mend_peer_config config;
    mend_mutex mutex;
    torch_pool pools[2]; /* large, small */
    mend_list segments;
    mend_list waiting; /* in the order of their frees */
    mend_pointer_map live;
    mend_slab blocks;
    mend_peer_usage usage;
    bool is_expandable;
    bool prefers_older; /* among free blocks of one size: the one in the older segment */
    uint64_t segments_made;
    uint64_t oversize_bytes; /* requests and blocks of this size are oversize. UINT64_MAX: none */
    torch_grow grow;
    torch_release release;
    torch_drop drop;
    torch_collect collect;     /* NULL: nothing is collected */
    torch_make_room make_room; /* NULL: no block is oversize */
};

enum {
    TORCH_BLOCK_BYTES = 512,
    TORCH_SMALL_REQUEST_BYTES = 1 << 20,
    TORCH_SMALL_SEGMENT_BYTES = 2 << 20,
    TORCH_LARGE_SEGMENT_BYTES = 20 << 20,
    TORCH_PACKED_REQUEST_BYTES = 10 << 20, /* below it, large requests share a large segment */
    TORCH_ROUND_BYTES = 2 << 20
};

mend_result torch_model_create(const mend_peer_config *config, torch_grow grow,
                               torch_release release, torch_drop drop, bool is_expandable,
                               mend_peer **peer);

/* A new free block that covers a new segment, in no tree. The caller reserved it in the slab. */
torch_block *torch_segment_block(torch_model *model, torch_pool *pool, torch_segment *segment,
                                 mend_stream stream, bool is_mapped);

/* Splits a block at `size_bytes`. The rest is in no tree. The caller reserved one block in the
 * slab. */
torch_block *torch_block_cut(torch_model *model, torch_block *block, uint64_t size_bytes);

/* Adds the block to the tree for its state, and removes it. */
void torch_block_insert(torch_block *block);
void torch_block_remove(torch_block *block);

/* Joins a free block in no tree with free neighbors in the same state. Returns the result, in no
 * tree. */
torch_block *torch_block_join(torch_model *model, torch_block *block);

/* Removes a block that is alone in its segment, and the segment. */
void torch_segment_forget(torch_model *model, torch_block *block);

/* Accounts for memory taken or released. torch_has_room checks the limit. */
bool torch_has_room(const torch_model *model, uint64_t size_bytes);
void torch_take_bytes(torch_model *model, uint64_t size_bytes);
void torch_give_bytes(torch_model *model, uint64_t size_bytes);

/* The result for a failed driver call: out of memory, or a failure. */
mend_result torch_fail(mend_status status, const char *call);

#endif
