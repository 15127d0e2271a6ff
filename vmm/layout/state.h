/*
 * What a heap knows: segments of mapped addresses, tiled by spans that are live (a block) or free,
 * and the free runs that neighbouring free spans form across chunk boundaries. A few of the spans
 * freed last are cached (layout/cache.h): free, and in no run yet.
 *
 * Two zones keep requests apart: small ones, which live in small chunks, and large ones.
 * Invariants, all checked by the audit (mend_audit):
 *  - the spans of a segment tile it without a hole; a span never crosses an unmapped address;
 *  - neighbouring free spans belong to one run; a run is maximal, but for what is cached, and
 *    stands in all its indices;
 *  - a chunk's live_bytes are the bytes of live spans inside it;
 *  - a mapped chunk without live bytes lies in exactly one run, once what of it is cached has been
 *    put back; or it is held, and all of it is claimed: in no run, and nobody's. A claimed span
 * lies inside its held chunk;
 *  - the pointer map holds exactly the live and the cached spans;
 *  - a user of a live block is a node without an epoch, which names the slot of the stream; a slot
 *    counts the nodes that name it, and goes to no other stream before there are none. So nobody
 *    looks at blocks when a stream is forgotten or a group released: the slot knows the last epoch.
 *
 * Two locks. `state` guards everything here and in the rooms below. `grow` is the right to make
 * room and to give it back: to plan, create, map, unmap, release, and to record and wait for
 * fences. Its holder holds `state` as well, but lets go of it around calls of the driver that may
 * take long (driver/unlocking.h): meanwhile others take blocks from free runs, free blocks and come
 * to know streams. What the holder is at work on it has claimed before, so that nobody else finds
 * it.
 */
#ifndef MEND_LAYOUT_STATE_H
#define MEND_LAYOUT_STATE_H

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

#include "address/space.h"
#include "base/align.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "base/process.h"
#include "driver/unlocking.h"
#include "physical/chunk.h"
#include "physical/waits.h"

enum { MEND_ZONE_SMALL = 0, MEND_ZONE_LARGE = 1, MEND_ZONE_COUNT = 2 };

struct mend_run;

/* A stretch of mapped addresses in one state. But for the end, two cache lines: a call looks at
 * both of the span it is about, and at the first one of its neighbours. */
typedef struct mend_span {
    uint64_t address;
    uint64_t size_bytes;
    struct mend_span *previous; /* neighbours by address; NULL where a segment begins or ends */
    struct mend_span *next;
    struct mend_run *run; /* free: right for the first and the last span of a run only; NULL when
                             claimed or cached */
    mend_chunk *chunk;    /* in which it begins */
    uint64_t first_at;    /* zone->changes when it was seen to come before all runs that fit */
    int zone;
    bool live;
    bool cached;          /* free, in the zone's front cache */
    bool of_group;        /* live: the oldest of its users is the mark of its group */
    uint16_t cache_index; /* cached: in the list of its cache */

    mend_waits waits;         /* free: what must pass before it is idle. Live: what its memory still
                                 waited for when it was taken, and the users declared by
                                 record_stream; an epoch of 0 in a node means "when it is freed" */
    uint64_t requested_bytes; /* live */
    mend_stream stream;       /* live: the stream it was allocated for */
    mend_tree_node by_end;    /* in the zone's segment_ends, while next is NULL */
} mend_span;

/* A maximal contiguous stretch of free spans. What a search of the trees looks at is one cache
 * line. */
typedef struct mend_run {
    mend_tree_node by_size; /* by (size, address) */
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;

    mend_tree_node by_growth; /* by (size, address), of those behind which addresses are unmapped */
    mend_span *first;
    mend_span *last;
    bool extensible;
} mend_run;

/* Of a processor: what a search of the trees looks at, and what a call looks at, is kept in few. */
enum { MEND_CACHE_LINE_BYTES = 64 };
static_assert(sizeof(void *) != 8 ||
                  offsetof(mend_span, by_end) <= (size_t)2 * MEND_CACHE_LINE_BYTES,
              "what a call looks at of a span is in two cache lines");
static_assert(sizeof(void *) != 8 || offsetof(mend_run, by_growth) <= MEND_CACHE_LINE_BYTES,
              "a search by size or address looks at one cache line of a run");

/* A request looks at all that is cached in its zone, and flushes it when none of it will do. */
enum { MEND_CACHE_SPANS = 32 };

/* Some of the spans freed last: see layout/cache.h. */
typedef struct mend_cache {
    mend_span *spans[MEND_CACHE_SPANS]; /* in no order */
    uint32_t count;
    uint32_t promised; /* nodes of runs that are promised to it: at least one for each span */
} mend_cache;

typedef struct mend_zone {
    mend_tree runs_by_address;
    mend_tree runs_by_size;
    mend_tree runs_by_growth;
    mend_tree segment_ends; /* the last span of each segment, by address */
    uint64_t free_bytes;    /* in free spans */
    uint64_t changes;       /* of runs_by_size */
    mend_cache cache;
} mend_zone;

/* A mapping that is used no more and is unmapped when its fences have passed. */
typedef struct mend_retired {
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;
    mend_chunk_handle handle; /* the chunk behind it */
    mend_waits waits;
} mend_retired;

/* The blocks of one zone: those that live, the most there were at a time, and all there were. */
typedef struct mend_zone_counters {
    uint64_t allocations;
    uint64_t frees;
    uint64_t allocated_bytes;
    uint64_t allocated_requested_bytes;
    uint64_t live_bytes;
    uint64_t requested_bytes; /* of the live ones */
    uint64_t peak_live_blocks;
    uint64_t peak_live_bytes;
    uint64_t peak_requested_bytes;
    uint64_t peak_reserved_bytes; /* in segments of the zone */
} mend_zone_counters;

typedef struct mend_heap_counters {
    mend_zone_counters zone[MEND_ZONE_COUNT];
    uint64_t live_bytes; /* of both zones; other sums are made on demand */
    uint64_t peak_live_bytes;
    uint64_t peak_requested_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t peak_live_blocks;
    uint64_t peak_mappings;
    uint64_t peak_chunks;
    uint64_t cache_hits;
    uint64_t out_of_memory;
    uint64_t placed_in_run;
    uint64_t placed_by_extension;
    uint64_t placed_at_new_address;
    uint64_t chunks_moved;
    uint64_t compactions;
    uint64_t copied_bytes;
    uint64_t chunks_remade;
    uint64_t moves_avoided;
    uint64_t driver_failures;
} mend_heap_counters;

/* What stood in the way of the last request that found no room. */
typedef struct mend_shortage {
    uint64_t refused_bytes;     /* least creation, allowed by the limit, for which the driver had no
                                   memory; 0: none was tried */
    uint64_t device_free_bytes; /* what the driver said then; 0 where it does not say */
    uint64_t others_bytes;      /* of the device, neither free nor of this pool */
    bool device_is_asked;       /* in this search */
    mend_status no_addresses;   /* the driver's refusal of addresses for memory that was there; or
                                   OK */
} mend_shortage;

/* What the device can give. */
typedef struct mend_attainable {
    bool is_known;
    uint64_t bytes;          /* reserved and free when it was asked last */
    uint64_t asked_at_bytes; /* allocated in all then */
} mend_attainable;

/* What was in use in this window and in the one before. */
typedef struct mend_usage_peaks {
    uint64_t used_bytes[2];      /* of partly used chunks */
    uint64_t trapped_bytes[2];   /* of these, not live, when the limit was near */
    uint64_t window_start_bytes; /* allocated in all when this window began */
} mend_usage_peaks;

/* What speaks for creating memory instead of moving chunks. */
typedef struct mend_headroom {
    uint64_t most_live_bytes;
    uint64_t moved_chunks;       /* in this window */
    uint64_t window_start_bytes; /* allocated in all when it began */
    bool was_refused;            /* in this window */
} mend_headroom;

/* The devices that may use the memory: the pool's own first, then its peers. */
typedef struct mend_allowed {
    int devices[MEND_DEVICE_LIMIT];
    int count;
} mend_allowed;

typedef struct mend_heap_config {
    int device;
    bool allow_stream_waits;
    bool streams_may_vanish;
    bool knows_all_streams;
    bool front_cache;
    bool capture_checks;
    bool compact_when_full;
    bool rdma;      /* chunks are made for it where the device can */
    uint64_t peers; /* bit n: device n may use the memory from the beginning */
    uint64_t limit_bytes;
    uint64_t default_limit_bytes; /* where none is asked for */
    uint64_t chunk_bytes;         /* 0: follows the limit */
    uint64_t small_chunk_bytes;   /* 0: follows the limit */
    uint64_t small_request_bytes;
    uint64_t reserve_bytes;
    uint64_t low_pressure_percent; /* 0: the default of the policy */
} mend_heap_config;

/* ---- the parts of a heap, by owner ------------------------------------------------------------
 */

/* Host memory for the records of the layout. Guarded by `state`. */
typedef struct mend_nodes {
    mend_slab spans;
    mend_slab runs;
    mend_slab waits;
} mend_nodes;

/* Former mappings, of the room move. Guarded by both locks: `state` to read. */
typedef struct mend_retiring {
    mend_tree mappings; /* by address */
    uint64_t bytes;
    mend_slab nodes;
    mend_status refused; /* an unmapping, in the last flush; or OK */
    bool lacked_nodes;   /* the last flush left mappings for want of host memory */
} mend_retiring;

/* What the policy goes by. Guarded by both locks: `state` to read. */
typedef struct mend_budget {
    mend_attainable attainable;
    mend_usage_peaks peaks;
    mend_headroom headroom;
    bool spends_last_room; /* the room kept for compactions may be used */
} mend_budget;

/* Whether the front cache may be used. Guarded by `state`. */
typedef struct mend_caching {
    uint32_t closings;       /* the front cache is closed while this is not 0 */
    bool keeps_empty_chunks; /* pressure is not low, as long as the cache is open */
} mend_caching;

/* What frees leave for later ones. Guarded by `state`. */
typedef struct mend_frees {
    uint32_t early_fences_left; /* fences that frees may still record */
    uint64_t of_users;          /* blocks freed that other streams used, too */
} mend_frees;

/* The groups of the program and those of captures, of the room users. Guarded by `state`. */
typedef struct mend_groups {
    mend_list list;
    uint32_t count;
    atomic_uint begun_count; /* of these, those that are begun; read without the lock, too */
    uint32_t capture_count;  /* of these, those of captures */
    uint32_t last_number;    /* of the group made last */
} mend_groups;

typedef struct mend_heap {
    mend_mutex grow;  /* see above */
    mend_mutex state; /* see above */

    /* Constant once the heap is made; but config.limit_bytes, guarded by both locks. */
    mend_heap_config config;
    mend_device_info device;
    const mend_driver *driver; /* the table of `unlocking` */
    mend_unlocking unlocking;  /* lets go of `state` around calls that take long */

    /* The layout. Guarded by `state`; chunks and addresses come and go under both locks. */
    mend_chunks chunks;
    mend_zone zones[MEND_ZONE_COUNT];
    mend_pointer_map blocks; /* from a block's address to its span */
    mend_streams streams;
    mend_nodes nodes;
    mend_caching caching;
    mend_frees frees;
    mend_groups groups;
    mend_heap_counters counters;

    /* To make room. Guarded by both locks: `state` to read. */
    mend_space space; /* the addresses of both zones */
    mend_retiring retire;
    mend_allowed allowed;
    mend_budget budget;
    mend_shortage shortage; /* of the search that is under way, or was the last */
} mend_heap;

/* What an attempt to place a request comes to. */
typedef enum mend_outcome {
    MEND_NOTHING = 0, /* not this way; others may be open */
    MEND_PLACED,
    MEND_FAILED, /* for a reason that is noted (base/error.h): no other way is tried */
    MEND_AGAIN   /* a stream was made to wait, without the lock: what was found may be gone */
} mend_outcome;

/* The order in which a program uses memory: that of a stream, and the capture which records what is
 * queued there. */
typedef struct mend_order {
    mend_stream stream;
    uint64_t capture; /* its id; 0: none */
} mend_order;

#define MEND_LARGEST_REQUEST_BYTES (UINT64_C(1) << 60)

/* A request, as the rooms of the heap pass it on. */
typedef struct mend_request {
    uint64_t size_bytes;      /* rounded up to the granule */
    uint64_t alignment_bytes; /* at least the granule */
    uint64_t requested_bytes;
    mend_stream handle;
    uint64_t capture; /* that records its use; 0: none */
    uint32_t stream;  /* MEND_STREAM_UNKNOWN: any may use the block */
    uint32_t group;   /* that the block will belong to; 0: none */
    int zone;         /* where it belongs */
    bool behind_wait; /* memory of other streams may be taken behind a wait on the device */
    bool may_break;   /* empty chunks may be broken though pressure is critical */
} mend_request;

/* A figure of both zones. */
#define MEND_HEAP_SUM(heap, figure)                                                                \
    ((heap)->counters.zone[MEND_ZONE_SMALL].figure + (heap)->counters.zone[MEND_ZONE_LARGE].figure)

static inline uint64_t mend_heap_live_blocks(const mend_heap *heap)
{
    return MEND_HEAP_SUM(heap, allocations) - MEND_HEAP_SUM(heap, frees);
}

/* Mappings the driver holds for the heap. */
static inline uint64_t mend_heap_mappings(const mend_heap *heap)
{
    return heap->chunks.mapped.count - heap->chunks.unmapped_count + heap->retire.mappings.count;
}

/* Without a lock, a group that another thread begins at this moment may be missed. */
static inline bool mend_heap_has_begun_groups(const mend_heap *heap)
{
    return atomic_load_explicit(&heap->groups.begun_count, memory_order_relaxed) > 0;
}

/* The status by which the context was lost, or OK. */
static inline mend_status mend_heap_lost_by(const mend_heap *heap)
{
    return heap->unlocking.lost;
}

static inline mend_wait_env mend_heap_wait_env(mend_heap *heap)
{
    return (mend_wait_env){&heap->streams, &heap->nodes.waits};
}

#endif
