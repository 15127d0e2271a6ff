/*
 * The state of a heap: segments of mapped addresses, tiled by live spans (blocks) and free ones.
 * Neighboring free spans form runs across chunk boundaries. A few of the spans freed last are
 * cached (layout/layout.h): free, and in no run yet.
 *
 * Two zones separate small and large requests. A third has the committed pages of growable ranges,
 * live spans, too. A fourth has the blocks that are passed through to the driver. Invariants, all
 * checked by the validation (mend_validate):
 *  - the spans of a segment tile it without a hole. A span never crosses an unmapped address.
 *  - neighboring free spans belong to one run, and a run is maximal, apart from cached spans. A
 *    run is in all its indices.
 *  - a chunk's live_bytes are the bytes of live spans inside it.
 *  - a mapped chunk without live bytes lies in exactly one run, after its cached spans are put
 *    back, or it is frozen and claimed: in no run, out of reach of other threads. A claimed span
 *    lies inside its frozen chunk. A block may lie in several frozen chunks. All but one sleep
 *    (memory/chunk.h), except while a sleep begins and after one that failed, whose chunks are
 *    unmapped.
 *  - the pointer map has exactly the blocks and the cached spans, and no page of a range.
 *  - a span has no chunk exactly in the fourth zone. There it is live, alone in its segment, and of
 *    no graph pool, export or pin.
 *  - a block in_one_chunk crosses no edge of a chunk, and is one of the pins of its chunk.
 *  - a user of a live block is a node without an epoch, which names the slot of the stream. A slot
 *    counts the nodes that name it, and is not reused before the count is 0. So unregistering a
 * stream or releasing a graph pool reads no blocks: the slot has the last epoch.
 *
 * Two locks. `state` guards everything here and in the modules below. `grow` is the right to change
 * mappings: to plan, create, map, unmap, release, and to record and wait for fences. The thread
 * that holds `grow` holds `state` too, but releases it during driver calls that may take long
 * (driver/forward.h). Meanwhile other threads take blocks from free runs, free blocks and register
 * streams. Before such a call the thread claims its chunks, so that no other thread finds them.
 */
#ifndef MEND_LAYOUT_STATE_H
#define MEND_LAYOUT_STATE_H

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/align.h"
#include "base/events.h"
#include "base/pointer_map.h"
#include "base/process.h"
#include "base/thread.h"
#include "base/tree.h"
#include "driver/forward.h"
#include "memory/chunk.h"
#include "memory/others.h"
#include "memory/space.h"
#include "memory/waits.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_stats.h"

/* The first two are the zones of blocks. The third one has the pages of ranges. */
enum {
    MEND_ZONE_SMALL = 0,
    MEND_ZONE_LARGE = 1,
    MEND_ZONES_OF_BLOCKS = 2,
    MEND_ZONE_RANGE = MEND_CHUNK_ZONE_WITH_SUMS,
    MEND_ZONE_PASSED = MEND_CHUNK_ZONES, /* blocks that are passed through */
    MEND_ZONE_COUNT
};
static_assert(MEND_ZONES_OF_BLOCKS == 2,
              "a figure of all blocks is that of the small and the large zone");

/* Of the processor. Structures are laid out so that a search, or a call, reads few cache lines. */
enum { MEND_CACHE_LINE_BYTES = 64 };

/* A maximal contiguous stretch of free spans. */
typedef struct mend_run {
    mend_tree_node by_size; /* by (size, address) */
    uint64_t address;
    uint64_t size_bytes;
    mend_chunk *chunk; /* the one in which it begins */
    struct mend_span *first;
    struct mend_span *last;

    mend_tree_node by_address;
    mend_tree_node by_growth; /* by (size, address). Only if unmapped addresses follow */
    bool extensible;
} mend_run;
static_assert(sizeof(void *) != 8 || offsetof(mend_run, by_address) <= MEND_CACHE_LINE_BYTES,
              "a search by size looks at one cache line of a run");

/* Classes for each power of two from the granule on, and words of 64 bits for all classes. */
enum {
    MEND_SIZE_STEP_BITS = 6,
    MEND_SIZE_CLASSES = (64 - 9) << MEND_SIZE_STEP_BITS,
    MEND_SIZE_WORDS = (MEND_SIZE_CLASSES + 63) / 64,
};
static_assert(MEND_SIZE_WORDS <= 64, "one word has a bit for each word");

/* The runs of a zone by (size, address), where every search begins: a tree for each class of size,
 * mostly of one run, and bits of the classes that have one. */
typedef struct mend_sizes {
    uint64_t used;                            /* bit n: words[n] has a bit */
    uint64_t words[MEND_SIZE_WORDS];          /* bit n: class n has a run */
    size_t count;                             /* runs of all classes */
    mend_tree_node *roots[MEND_SIZE_CLASSES]; /* of the trees of the classes */
} mend_sizes;

/* A stretch of mapped addresses in one state. All but its last member fill two cache lines: a call
 * reads both of its own span, and the first one of the neighbors. */
typedef struct mend_span {
    uint64_t address;
    uint64_t size_bytes;
    struct mend_span *previous; /* neighbors by address. NULL at either end of a segment */
    struct mend_span *next;
    struct mend_run *run; /* free: valid for the first and the last span of a run only. NULL if
                           * claimed or cached */
    mend_chunk *chunk;    /* the one in which the span begins. NULL: it is passed through */
    uint64_t first_at;    /* cached: zone->changes when mend_cache_comes_first was last true */
    uint8_t zone;
    bool live;
    bool contents_dropped : 1; /* live: a sleep dropped contents, and no other one kept all of it */
    bool has_copy : 1;         /* live: it slept. Copies of its bytes on the host are its own */
    bool in_one_chunk : 1;     /* live: the block pins its one chunk */
    bool skips_cache : 1;      /* live: not in the zone where a search for its size begins, or of a
                                * size that this pool has in_one_chunk */
    bool is_exported : 1;      /* live: other processes can import the block, or the page */
    bool is_guarded : 1;       /* live: its guard is filled. Set by checks alone */
    bool is_in_order : 1;      /* passed through: it is of the driver's pool, in stream order */
    bool cached;               /* free, in the zone's front cache */
    bool of_graph_pool;        /* live: the block is of a graph pool. The oldest node of `waits` is
                                * its mark */
    uint8_t cache_index;       /* cached: index in the cache's list */
    float born;                /* live: blocks and pages allocated in the heap until then */
    uint16_t scope;            /* live: number of the scope it was allocated in (base/words.h) */
    uint16_t stack;            /* live: number that the source of stacks said. 0: none */

    mend_waits waits;         /* free: the stamps that must pass before it is idle. Live: the waits
                               * of its memory when it was taken, and the users declared by
                               * record_stream. Epoch 0 in a node means "when it is freed" */
    uint64_t requested_bytes; /* live: the size that the program asked for */
    mend_stream stream;       /* live: the stream it was allocated for */
    uint64_t tag;             /* live: the program's number for it. 0: none */
    uint64_t sleep_tag;       /* the number by which it sleeps. 0: none. Free: the tag of the last
                               * block */
    mend_tree_node by_end;    /* in the zone's segment_ends, while `next` is NULL */
    mend_list pending;        /* free, in a run, and another stream may still use it: in the list of
                               * these. `next` is NULL: not in it */
    uint32_t freed_on;        /* pending: the slot of the stream that freed it */
} mend_span;

static_assert(sizeof(void *) != 8 ||
                  offsetof(mend_span, by_end) <= (size_t)2 * MEND_CACHE_LINE_BYTES,
              "what a call looks at of a span is in two cache lines");

/* Few: a request looks at all cached spans of its zone, and flushes them if none fits. */
enum { MEND_CACHE_SPANS = 32 };
static_assert(MEND_CACHE_SPANS <= UINT8_MAX + 1, "a span knows its index in a byte");

/* Some of the spans freed last: see layout/layout.h. */
typedef struct mend_cache {
    mend_span *spans[MEND_CACHE_SPANS]; /* in no order */
    uint32_t count;
    uint32_t promised; /* nodes of runs promised to the cache: at least one for each span */
} mend_cache;

/* Blocks of one zone: live ones, their peaks, and totals. */
typedef struct mend_zone_counters {
    uint64_t allocations;
    uint64_t live_blocks; /* the others were freed */
    uint64_t allocated_bytes;
    uint64_t allocated_requested_bytes;
    uint64_t live_bytes;
    uint64_t peak_live_bytes;
    uint64_t requested_bytes; /* requested bytes of live blocks */
    uint64_t peak_requested_bytes;
    uint64_t peak_live_blocks;
    uint64_t peak_reserved_bytes; /* peak bytes of the zone's segments */
} mend_zone_counters;

typedef struct mend_zone {
    mend_tree runs_by_address;
    mend_sizes runs_by_size;
    mend_tree runs_by_growth;
    mend_tree segment_ends;   /* the last span of each segment, by address */
    uint64_t free_bytes;      /* bytes of free spans, cached ones included */
    uint64_t changes;         /* number of changes of runs_by_size */
    const mend_run *walk_run; /* where the last look into a run ended, or NULL */
    mend_span *walk_span;     /* with the numbers of zone and streams then: */
    uint64_t walk_changes, walk_passes;
    mend_zone_counters counters;
    mend_cache cache;
} mend_zone;

/* A mapping that is no longer used. It is unmapped when its fences have passed. */
typedef struct mend_retired {
    mend_deferred deferred; /* by address, from its retirement on */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t number; /* of the chunk that it maps. 0: none of the pool's */
    int zone;        /* the zone that the chunk was in */
    mend_waits waits;
} mend_retired;

/* X(counter): counters that mend_stats reports under the same name. See mend_stats.h. */
#define MEND_HEAP_COUNTERS(X)                                                                      \
    X(peak_live_bytes)                                                                             \
    X(peak_requested_bytes)                                                                        \
    X(peak_reserved_bytes)                                                                         \
    X(peak_live_blocks)                                                                            \
    X(peak_mappings)                                                                               \
    X(peak_chunks)                                                                                 \
    X(cache_hits)                                                                                  \
    X(out_of_memory)                                                                               \
    X(placed_in_run)                                                                               \
    X(placed_by_extension)                                                                         \
    X(placed_at_new_address)                                                                       \
    X(chunks_moved)                                                                                \
    X(compactions)                                                                                 \
    X(copied_bytes)                                                                                \
    X(chunks_remade)                                                                               \
    X(moves_avoided)                                                                               \
    X(sleeps)                                                                                      \
    X(wakes)                                                                                       \
    X(dropped_bytes)                                                                               \
    X(driver_failures)                                                                             \
    X(soft_limit_passed)                                                                           \
    X(waited_requests)                                                                             \
    X(background_trimmed_bytes)

typedef struct mend_heap_counters {
    uint64_t live_bytes; /* of all zones. Other sums are computed on demand */
    uint64_t births;     /* allocations of all zones: the clock of births. A block keeps 24 bits of
                          * it, so an age is right to a sixteen-millionth of all allocations */
#define X(counter) uint64_t counter;
    MEND_HEAP_COUNTERS(X)
#undef X
} mend_heap_counters;

/* Counters of which layout/usage.c keeps peaks. */
enum { MEND_USE_BLOCKS, MEND_USE_BYTES, MEND_USE_REQUESTED, MEND_USE_COUNTERS };

/* The process's use of the device: see layout/usage.c. Guarded by `state`. */
typedef struct mend_usage_state {
    uint64_t outside[MEND_USAGE_ROWS][MEND_USAGE_PARTS]; /* of the pool. The program says it */
    uint64_t beside[MEND_USAGE_ROWS][MEND_USAGE_PARTS];  /* the counter, as it was noted last */
    uint64_t peak[MEND_USAGE_ROWS][MEND_USAGE_PARTS];    /* until that was noted */
    uint64_t counter_peak[MEND_USE_COUNTERS][MEND_USAGE_PARTS];
    mend_list pending; /* free spans that another stream may still use. The first freed first */
    uint64_t pending_blocks[MEND_USAGE_PARTS], pending_bytes[MEND_USAGE_PARTS]; /* of these */
} mend_usage_state;

/* The obstacles of the last request that ran out of memory. */
typedef struct mend_shortage {
    uint64_t refused_bytes;     /* least creation within the limit that missed memory. 0: none */
    uint64_t device_free_bytes; /* free bytes of the device after that refusal. 0: not told */
    uint64_t others_bytes;      /* bytes of the device that are neither free nor this pool's */
    bool device_is_asked;       /* whether this search has asked the device */
    bool wait_is_refused;       /* a capture refused this search a CPU stall */
    mend_status no_addresses;   /* the driver's refusal of addresses, where memory was, or OK */
    uint64_t held_range;        /* a commit to it meets old mappings in use. 0: none */
} mend_shortage;

/* The most memory that the pool can hold, by the device's last report. `map` asks. If the driver
 * refused memory that it reports as free, as by a quota of the process, this is less: until more
 * can be created, a while has passed, a request would fail, or memory is released for others. */
typedef struct mend_effective_limit {
    bool is_known;
    bool is_refused;         /* the driver refused some of its reported free memory */
    uint64_t bytes;          /* reserved by the pool plus free on the device, when last asked */
    uint64_t free_bytes;     /* of that, free on the device */
    uint64_t asked_at_bytes; /* total of allocated bytes at that time */
} mend_effective_limit;

/* Peaks of memory in use, in this window and in the one before. */
typedef struct mend_usage_peaks {
    uint64_t used_bytes;         /* bytes of partly used chunks */
    uint64_t trapped_bytes;      /* of these, bytes not live, when most of the limit was used */
    uint64_t window_start_bytes; /* total of allocated bytes when this window began */
} mend_usage_peaks;

/* Whether to create memory instead of moving chunks. */
typedef struct mend_headroom {
    uint64_t most_live_bytes;
    uint64_t window_start_bytes; /* total of allocated bytes when it began */
    bool was_refused;            /* the driver refused a creation in this window */
} mend_headroom;

/* The devices that may use the memory: the pool's own first, then its peer devices. */
typedef struct mend_allowed {
    int devices[MEND_DEVICE_LIMIT + 1]; /* the pool's own may be above the limit */
    int count;
} mend_allowed;

/* How the policy weighs driver calls against memory. The sizes of chunks are set by tests alone. */
typedef struct mend_placement {
    uint64_t low_pressure_percent; /* pressure is low while more of the limit is not reserved */
    uint64_t chunks_of_limit;      /* a usual chunk is near this part of the limit ... */
    uint64_t largest_chunk_bytes;  /* ... up to this size */
    uint64_t headroom_percent;     /* of the peak of live bytes, created to avoid moves */
    uint64_t small_request_bytes;  /* requests up to this size use the small zone */
    uint64_t unfenced_bytes;       /* so much may be freed without a stream and not known idle */
    uint64_t chunk_bytes;          /* usual size of a chunk of the large zone. 0: by the limit */
    uint64_t small_chunk_bytes;    /* the same for the small zone. 0: by the limit */
} mend_placement;

/* Which requests are passed through to the driver, beside the thread's own choice. */
typedef enum mend_passes {
    MEND_PASSES_NONE = 0,
    MEND_PASSES_ALL,     /* by cuMemAlloc */
    MEND_PASSES_IN_ORDER /* by cuMemAllocAsync, as far as it can */
} mend_passes;

typedef struct mend_heap_config {
    int device;
    mend_passes passes;
    bool allow_stream_waits;
    bool allow_context_fences;
    bool detect_destroyed_streams;
    bool front_cache;
    bool capture_checks;
    bool rdma;       /* create chunks that can be registered for RDMA, if the device supports it */
    int share_types; /* MEND_SHARE_... bits: create chunks that other processes can import */
    uint64_t peers;  /* bit n: device n may use the memory from the start */
    uint64_t limit_bytes;
    uint64_t default_limit_bytes; /* used if limit_bytes is 0 */
    uint64_t soft_limit_bytes;    /* 0: none. Written under both locks */
    int growth_percent;           /* of the peak of live bytes: from there on a stream waits on the
                                   * device before the pool grows. 0: it grows */
    uint64_t in_one_chunk_bytes;  /* blocks from this size on lie in one chunk each */
    uint64_t guard_bytes;         /* at least so much behind each block is not the program's */
    const mend_process_member *home; /* the pool in the process */
    mend_others *others;             /* memory that the pool leaves to them. NULL: all is its own */
    uint64_t address_reservation_bytes;
    int strategy;                       /* 1 to 5. 0: the default */
    const struct mend_helpers *helpers; /* of the pool. `alloc` */
    mend_placement placement;           /* filled at creation */
} mend_heap_config;

/* ---- the parts of a heap, by owner ----------------------------------------------------------- */

typedef struct mend_nodes { /* host memory for records of the layout, guarded by `state` */
    mend_slab spans, runs, waits;
} mend_nodes;

/* Retired mappings. `map` uses it. Read under `state`, written under both locks. */
typedef struct mend_retiring {
    uint64_t bytes;
    mend_slab nodes;
    mend_status refused; /* the result of a failed unmapping in the last flush, or OK */
    bool lacked_nodes;   /* the last flush kept mappings because host memory was short */
    mend_stamp copies;   /* of copies and fills whose end could not be waited for */
} mend_retiring;

/* The policy's. Read under `state`, written under both locks. */
typedef struct mend_budget {
    mend_usage_peaks peaks;
    mend_headroom headroom;
    uint32_t emptyings; /* trims in a row that gave much back, as in each step of a program */
    uint64_t emptied_at_bytes; /* total of allocated bytes at the last one */
} mend_budget;

/* Whether the front cache may be used. Guarded by `state`. */
typedef struct mend_caching {
    uint32_t closings;       /* number of closings. The cache is open if this is 0 */
    bool keeps_empty_chunks; /* a search spares them. Valid while the cache is open */
} mend_caching;

/* The state that frees leave for later frees. Guarded by `state`. */
typedef struct mend_frees {
    uint32_t early_fences_left; /* fences that frees may still record early */
    uint64_t of_users;          /* number of freed blocks that other streams used */
} mend_frees;

/* Graph pools of the program and graph pools of captures. `graphs` uses it. Guarded by `state`. */
typedef struct mend_graph_pools {
    mend_list list;
    uint32_t count, capture_count; /* all. Of these, graph pools of captures */
    atomic_uint begun_count;       /* begun graph pools. Also read without the lock */
    unsigned ends_seen;            /* ends of graphs in the process when they were last collected */
    uint32_t last_number;          /* number of the newest graph pool */
} mend_graph_pools;

/* Pinned ranges. `share` uses it. Guarded by `state`. A pin is added under both locks, so that no
 * chunk is claimed or frozen then. */
typedef struct mend_pins {
    mend_tree ranges; /* by (address, size) */
    mend_slab nodes;
} mend_pins;

/* Backups of sleeping chunks. `sleep` uses it. As the retired mappings. */
typedef struct mend_keeping {
    uint64_t host_bytes, file_bytes;  /* in pinned memory of the host, and in files */
    mend_tree copies, copies_by_room; /* copies that wakes left for the next sleep, in two orders */
    uint64_t copies_bytes,
        copies_limit;                /* memory of the host in these, and the most there may be */
    uint64_t room_bytes, most_bytes; /* of these and of sleeping chunks, and the most of sleeping
                                      * chunks */
    bool is_abandoned;               /* the heap ends without a context: the driver keeps them */
} mend_keeping;

/* Memory of another process, as it is mapped here. */
typedef struct mend_mapped_import {
    mend_tree_node by_address;
    uint64_t at;    /* start of the first chunk */
    uint64_t bytes; /* of all chunks */
} mend_mapped_import;

/* Blocks of other processes. `share` uses it. As the retired mappings. */
typedef struct mend_imports {
    mend_tree by_address, by_name;
    uint64_t bytes;    /* mapped for them */
    uint64_t mappings; /* their number */
} mend_imports;

struct mend_heap;

/* Growable ranges. As the retired mappings. */
typedef struct mend_ranges {
    mend_tree by_address; /* all that have addresses, closed ones too */

    /* The live span of the committed page that contains an address. NULL: none. */
    mend_span *(*page_at)(const struct mend_heap *heap, uint64_t address);

    /* The address of the open range that contains this one. 0: none. */
    uint64_t (*around)(const struct mend_heap *heap, uint64_t address);
} mend_ranges;

typedef struct mend_heap {
    mend_mutex state, grow; /* see the top of this file. `state` has the heap's own address */

    /* Constant after creation, except the limits (written under both locks). */
    mend_heap_config config;
    mend_device_info device;
    const mend_driver *driver; /* the table of `unlocking` */
    mend_unlocking unlocking;  /* releases `state` around slow calls */

    /* The layout. Guarded by `state`. Chunks and addresses change under both locks. */
    mend_chunks chunks;
    mend_zone zones[MEND_ZONE_COUNT];
    mend_pointer_map blocks; /* from a block's address to its span */
    mend_streams streams;
    mend_nodes nodes;
    mend_caching caching;
    mend_frees frees;
    bool has_homes; /* a request had one: from then on chunks have sleep tags */
    mend_graph_pools graph_pools;
    mend_pins pins;
    mend_tree exports;       /* exported blocks, by address. `share` uses it. As the pins */
    uint64_t exported_bytes; /* of chunks that hold such blocks */
    mend_heap_counters counters;
    mend_usage_state usage;
    mend_events events;

    /* For changes of mappings. Read under `state`, written under both locks. */
    mend_space space;       /* the addresses of the zones of blocks */
    mend_space range_space; /* of ranges: one reservation each */
    mend_ranges ranges;
    mend_retiring retire;
    mend_keeping keeping;
    mend_imports imports;
    mend_allowed allowed;
    mend_effective_limit effective_limit;
    mend_budget budget;
    mend_shortage shortage; /* of the current search, or the last one */
} mend_heap;

/* The result of an attempt to place a request. */
typedef enum mend_outcome {
    MEND_NOTHING = 0, /* not in this way. Others may work */
    MEND_PLACED,
    MEND_FAILED, /* for a noted reason (base/error.h). No other way is tried */
    MEND_AGAIN   /* a stream wait was queued, with the lock released: earlier findings may be
                  * stale */
} mend_outcome;

/* The order of a program's use: of a stream, and of the capture that records the stream's work. */
typedef struct mend_order {
    mend_stream stream;
    uint64_t capture; /* id of the capture. 0: none */
} mend_order;

#define MEND_LARGEST_REQUEST_BYTES   (UINT64_C(1) << 60)
#define MEND_LARGEST_ALIGNMENT_BYTES (UINT64_C(1) << 40)
static_assert(MEND_LARGEST_REQUEST_BYTES % MEND_GRANULE_BYTES == 0, "it is not rounded up");

/* A request, as the rooms pass it on. */
typedef struct mend_request {
    uint64_t size_bytes;      /* rounded up to the granule */
    uint64_t alignment_bytes; /* at least the granule */
    uint64_t requested_bytes;
    mend_stream handle;
    uint64_t capture;      /* the capture that records its use. 0: none */
    uint32_t stream;       /* index. MEND_STREAM_UNKNOWN: any stream may use the block */
    uint32_t graph_pool;   /* the graph pool that the block will belong to. 0: none */
    int zone;              /* MEND_ZONE_... */
    bool creates_nothing;  /* only existing memory may serve it */
    uint64_t behind_wait;  /* it may get memory of other streams, behind a wait on the device for
                            * fences up to this order (memory/stream.h). 0: it may not */
    bool may_break;        /* it may break empty chunks although pressure is critical */
    int in_one_chunk;      /* 1: the block may not cross the edge of a chunk. At first the switch of
                            * mend_alloc_options, with -1. `plain` likewise */
    uint64_t home;         /* the sleep tag of its possible chunks, beside empty ones. 0: chunks
                            * without a tag */
    bool leaves_home;      /* it may lie in chunks of any tag: else it would wait, or fail */
    int plain;             /* 1: it gets an allocation of cuMemAlloc of its own */
    bool keeps_soft_limit; /* its present searches create nothing beyond the soft limit */
    uint32_t owner;        /* the graph pool that the caller named. 0: none */
    uint64_t at;           /* the address that the caller named. 0: any */
    uint64_t tag, sleep_tag;
    uint16_t stack;                 /* as the span's */
    const struct mend_pages *pages; /* not a block: they are to be committed, and size_bytes of them
                                     * are not. NULL: a block */
    mend_service service;           /* how it was placed, while there is a listener */
} mend_request;

/* The pages of a request, as far as the core knows them. */
typedef struct mend_pages {
    /* Commits them all, if they are mapped and the stream may use their memory: no driver call
     * unless behind_wait. The caller holds `state`. `maps`: after it has mapped the missing pages.
     * Both locks are held, and a driver scope is open. PLACED, NOTHING (as heap->shortage says),
     * FAILED. With behind_wait also AGAIN. */
    mend_outcome (*commit)(mend_heap *heap, const mend_request *request, bool maps);
    bool (*contain)(const struct mend_pages *pages, uint64_t address);
    uint64_t (*missing_bytes)(const struct mend_pages *pages);
    uint64_t address;            /* of the first range */
    size_t other_ranges;         /* besides */
    uint64_t page_bytes;         /* in the first range ... */
    uint64_t largest_page_bytes; /* ... and the largest of all */
} mend_pages;

/* The sum of a counter over all zones of blocks. */
#define MEND_HEAP_SUM(heap, figure)                                                                \
    ((heap)->zones[MEND_ZONE_SMALL].counters.figure +                                              \
     (heap)->zones[MEND_ZONE_LARGE].counters.figure +                                              \
     (heap)->zones[MEND_ZONE_PASSED].counters.figure)

/* Bytes of blocks that are passed through: not in chunks, but in the limit. */
static inline uint64_t mend_heap_passed_bytes(const mend_heap *heap)
{
    return heap->zones[MEND_ZONE_PASSED].counters.live_bytes;
}

/* The addresses that contain an address of the pool. */
static inline mend_space *mend_heap_space_at(mend_heap *heap, uint64_t address)
{
    return mend_space_holds(&heap->range_space, address) ? &heap->range_space : &heap->space;
}

/* Mappings that the driver holds for the heap. */
static inline uint64_t mend_heap_mappings(const mend_heap *heap)
{
    assert(heap->chunks.unmapped_frozen_count <= heap->chunks.mapped.count);
    return heap->chunks.mapped.count - heap->chunks.unmapped_frozen_count +
           heap->chunks.deferred.count[MEND_DEFERRED_MAPPING] + heap->imports.mappings;
}

static inline mend_wait_env mend_heap_wait_env(mend_heap *heap)
{
    return (mend_wait_env){&heap->streams, &heap->nodes.waits};
}

#endif
