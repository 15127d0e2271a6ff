/*
 * The model of a trial's objects: streams, blocks, graph pools, graphs, callbacks, pins, imports.
 */
#ifndef MEND_TESTS_SIM_MODEL_H
#define MEND_TESTS_SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mend/mend.h"
#include "mend/mend_graph_pools.h"
#include "mend/mend_range.h"
#include "mend/mend_share.h"
#include "mend/mend_sim.h"
#include "quota/quota.h"
#include "share/share.h"

enum {
    TRIAL_BLOCKS = 48,
    TRIAL_STREAMS = 8,
    TRIAL_OTHER_DEVICES = 2,
    TRIAL_GRAPH_POOLS = 3,
    TRIAL_GRAPHS = 4,
    TRIAL_ALL_GRAPH_POOLS = TRIAL_GRAPH_POOLS + TRIAL_GRAPHS + TRIAL_STREAMS, /* of captures, too */
    TRIAL_NODES = 256, /* of graphs that are being captured. More work is not recorded */
    TRIAL_CALLBACKS = 2,
    TRIAL_PINS = 6,
    TRIAL_IMPORTS = 4,
    TRIAL_RANGES = 3,
    TRIAL_DESCRIPTION_BYTES =
        16 << 10, /* more than 200 chunks. The blocks of more are not described */
    TRIAL_POOLS = 2,
    ANY_THREAD = -1,
    HERE = -2, /* the thread that runs */
    NOBODY = -1
};

/* Use of pages of ranges by a capture or its graph. */
enum { TRIAL_PAGE_USES = 6 };
typedef struct trial_page_use {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t tag; /* that each launch writes. 0: it reads */
} trial_page_use;
typedef struct trial_page_uses {
    uint32_t count;
    trial_page_use list[TRIAL_PAGE_USES];
} trial_page_uses;

typedef struct trial_stream {
    mend_stream handle;
    int thread;    /* the only one that may use it, or ANY_THREAD */
    bool created;  /* not a default stream */
    bool blocking; /* takes turns with the legacy stream */
    int green;     /* the number of its green context. 0: none */
    int foreign;   /* the number of its device, if that is another. 0: it is the pool's */
    bool captured;
    bool unsure;   /* a pool that cannot know of it may have spoilt it, or a fork was not joined */
    bool spoilt;   /* the capture of it */
    uint32_t seen; /* pools that learnt of its capture from the driver, a bit each */
    int capturer;  /* the thread that began the capture */
    uint32_t capture_graph_pools;         /* whose blocks the capture uses, a bit each */
    uint64_t capture;                     /* a number of its own */
    int origin;                           /* the stream on which its capture began */
    uint64_t nodes_before[TRIAL_STREAMS]; /* of each stream of the capture: so many come before */
    uint64_t id;               /* of the captured stream, unlike its handle unique for ever */
    uint64_t recorded;         /* a hash of the work captured */
    trial_page_uses page_uses; /* by the capture */
    bool is_known;             /* a call of mend_unregister_stream failed */
    bool is_new;      /* it was forgotten, or has just been made, and no call has named it since */
    uint32_t unnamed; /* where streams may vanish: pools of which no call has named it since it was
                         captured, a bit each */
} trial_stream;

/*
 * Work on a block on its home stream, and on earlier home streams, is ordered. Readers are streams
 * that were behind the last write when they read, and of which the home stream knows nothing. A
 * block of a graph pool is used by its home stream alone, and by graphs.
 */
/* A page of a block, when it fell asleep last. */
enum { TRIAL_SLEPT_PAGES = 302 };
typedef struct trial_slept {
    uint64_t tag;    /* the written contents. 0: it never slept. UINT64_MAX: not known */
    bool is_kept;    /* by its rule. Else it may be, between others */
    bool is_dropped; /* by a sleep, and the block has not been awake as a whole since: the program
                      * could not write it */
    bool sleeps;
} trial_slept;

typedef struct trial_block {
    bool live;
    int pool;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t requested_bytes;
    uint64_t tag;
    uint64_t sleep_tag;       /* 0: not known */
    uint64_t own_tag;         /* of the options. 0: none, and its sleep tag stands for it */
    uint32_t scope;           /* as the pool said at first */
    uint32_t stack;           /* the number of the source of stacks. 0: it was not asked */
    mend_stream allocated_on; /* as the pool knows it */
    int home;
    bool used;
    bool written;
    bool unmapped;       /* a compaction could not map it again: it is not used, and may be freed */
    bool asleep;         /* it, or a part of it: it is not used, and may be freed */
    bool dropped;        /* by a sleep, and none has kept it since */
    bool has_slept;      /* or a part of it: trial.slept has its earlier state */
    bool frozen;         /* a reader is gone that nobody can wait for: not written again */
    uint32_t readers;    /* a bit for each stream */
    uint32_t declared;   /* of the readers, those the pool was given */
    uint32_t noted;      /* streams that were declared for it and not forgotten since */
    int graph_pool;      /* NOBODY: none */
    int zone;            /* where it lies */
    uint64_t written_in; /* capture of the last write, or 0 */
    uint64_t launches;   /* of the graph pool, at the last write outside captures */
    bool is_exported;    /* in any way, with all between the next two */
    uint64_t exported_at;
    uint64_t exported_bytes;
    bool in_one_chunk;
    uint64_t export_id;      /* unlike its address unique for ever */
    bool has_token;          /* by file */
    mend_export_token token; /* of that export */
    uint64_t described_hash; /* of the description. 0: it is not exported by fabric handles */
    int range; /* 0: it is a block. Else a committed page of the range of this number, from 1 */
} trial_block;

static inline bool trial_pins_its_chunks(const trial_block *block)
{
    return block->live && (block->is_exported || block->in_one_chunk);
}

typedef struct trial_graph_pool {
    mend_graph_pool *graph_pool; /* NULL: none */
    bool begun;
    mend_stream takes;
    uint64_t begun_at;
    uint64_t capture; /* outside of the program's graph pools: the pool keeps its memory by
                       * itself */
    int last_stream;  /* behind which all use of its memory is. NOBODY: it was never used */
    uint64_t launches;
} trial_graph_pool;

typedef struct trial_graph {
    mend_sim_graph *graph; /* NULL: none */
    uint32_t graph_pools;
    uint64_t recorded;
    uint64_t capture;
    trial_page_uses page_uses;
} trial_graph;

/* Work on a block that a capture recorded. */
typedef struct trial_node {
    uint64_t capture;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t number; /* of its stream's nodes, from 1 */
    int stream;
    bool writes;
} trial_node;

typedef struct trial_callback {
    struct trial *trial;
    bool added;
    uint8_t slot;
    uint8_t amount;
} trial_callback;

/* Counters of the model for one zone, and for all blocks. */
enum { ALL_ZONES = 2, TRIAL_ZONES = 4 };
typedef struct trial_zone {
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t requested_bytes;
    uint64_t allocations;
    uint64_t allocated_bytes;
    uint64_t allocated_requested_bytes;
    uint64_t peak_live_blocks;
    uint64_t peak_live_bytes;
    uint64_t peak_requested_bytes;
} trial_zone;

/* The blocks of a graph pool at some time. */
typedef struct trial_checkpoint {
    bool is_taken;
    size_t count;
    mend_graph_pool_block blocks[TRIAL_BLOCKS];
} trial_checkpoint;

/* A range that must keep its mappings. */
typedef struct trial_pinned {
    uint64_t address;
    uint64_t size_bytes; /* 0: nothing is pinned */
    int pool;
} trial_pinned;

/* A growable range. Its committed pages are blocks. */
typedef struct trial_range {
    mend_range *range; /* NULL: none */
    int pool;
    uint64_t base;
    uint64_t size_bytes;
    uint64_t page_bytes;
    uint64_t sleep_tag; /* of pages that have none of their own */
} trial_range;

/* Another process that shares the limit of the pools by a file. */
typedef struct trial_quota {
    char path[96];        /* empty: there is no file */
    uint64_t limit_bytes; /* of the file */
    uint64_t
        idle_bytes; /* of the member's, that it gives back while others wait. 0: it never does */
    mend_limit_slot member;
} trial_quota;

/* The newest description. */
typedef struct trial_described {
    int slot; /* of the block */
    size_t size_bytes;
    uint64_t hash; /* 0: there is none */
    unsigned char bytes[TRIAL_DESCRIPTION_BYTES];
} trial_described;

/* A block that a pool has mapped once more. */
typedef struct trial_imported {
    void *pointer; /* NULL: there is none */
    uint64_t size_bytes;
    uint64_t uses;
    int pool;
    int last_stream;    /* behind which all use of it is. NOBODY: it was never used */
    uint64_t export_id; /* of its block */
    bool by_fabric;
} trial_imported;

#endif
