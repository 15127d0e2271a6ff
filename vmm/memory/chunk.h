/*
 * Chunks: the physical memory of a pool, and the addresses where it lies. A record (mend_chunk) has
 * four parts, which come and go independently:
 *  - its memory (mend_memory), of one creation. It goes from record to record as a whole: a sleep
 *    takes it away, a wake gives another one.
 *  - its address, with one mapping of all its memory there, while blocks lie in it, or free memory.
 *    An empty chunk may be mapped nowhere, and can go to any address. `missing` says why a frozen
 *    chunk is unmapped there. An exchange gives the address to other chunks. Older mappings, which
 *    work may still use, are not in the record.
 *  - its claim: the mapping that a transaction has taken over, until the chunk is mapped elsewhere,
 *    or is back. Meanwhile it has no address for other modules.
 *  - its place in the layout: the spans say which of its bytes are blocks, and the record has their
 *    sum.
 *
 * Empty chunks are in a set by size.
 *
 * Here is also the list of deferred driver work, most of which is about chunks.
 *
 * Guarded by the heap's `state` lock.
 */
#ifndef MEND_MEMORY_CHUNK_H
#define MEND_MEMORY_CHUNK_H

#include <assert.h>

#include "base/align.h"
#include "base/events.h"
#include "base/slab.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "memory/waits.h"

/* ---- deferred work --------------------------------------------------------------------------- */

/*
 * Deferred driver work: the one list of releases, unmaps and restores that the driver refused or
 * that must wait. Invariants, checked by the validation:
 *  - each is a node inside the record that it is about, so that nothing fails when it is noted.
 *  - it is noted from the refusal, or the start of the wait, until a retry has done it. Calls
 *    that reach the driver begin with one. A search for memory also retries retired mappings. No
 *    other call retries.
 *  - the kinds are in the order in which a retry goes through them.
 */
typedef enum mend_deferred_kind {
    MEND_DEFERRED_NOTHING = 0,
    MEND_DEFERRED_RESTORE,     /* the mapping or access of a chunk with live blocks */
    MEND_DEFERRED_END,         /* of a sleeping chunk that has lost its last block */
    MEND_DEFERRED_HOST_MEMORY, /* pinned, to be freed */
    MEND_DEFERRED_HANDLES,     /* of an import, closed or not, to be released */
    MEND_DEFERRED_MEMORY,      /* of a sleeping chunk, to be unmapped and released */
    MEND_DEFERRED_MAPPING,     /* retired, to be unmapped once it is idle */
    MEND_DEFERRED_GRAPHS,      /* an end that waits for captured graphs */
    MEND_DEFERRED_RANGE,       /* destroyed: its addresses, once nothing is mapped there */
    MEND_DEFERRED_KINDS
} mend_deferred_kind;

/* All zeros: no deferred work. */
typedef struct mend_deferred {
    mend_tree_node node;
    uint64_t at; /* its order in the kind: an address, or the number of a record */
    mend_deferred_kind kind;
} mend_deferred;

typedef struct mend_deferred_list {
    mend_tree tree; /* by (kind, at) */
    uint32_t count[MEND_DEFERRED_KINDS];
    uint64_t last_number; /* of records without an address */
} mend_deferred_list;

/* Sets its deferred work, or NOTHING. A record without an address comes LAST, and stays there. */
#define MEND_DEFERRED_LAST UINT64_MAX
void mend_defer(mend_deferred_list *list, mend_deferred *deferred, mend_deferred_kind kind,
                uint64_t at);

/* The first one of a kind, from this one of its order on. NULL: none. */
mend_deferred *mend_deferred_from(const mend_deferred_list *list, mend_deferred_kind kind,
                                  uint64_t at);

/* The next one of its kind. NULL: none. */
mend_deferred *mend_deferred_next(const mend_deferred *deferred);

/* Whether there is deferred work up to this kind, beside retired mappings, most of which only
 * wait. */
bool mend_deferred_any(const mend_deferred_list *list, mend_deferred_kind last);

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Why a frozen chunk is unmapped: the driver refused to restore its mapping, or it sleeps. */
typedef enum mend_chunk_missing {
    MEND_MISSING_NOTHING = 0,
    MEND_MISSING_MAPPING, /* the mapping and access */
    MEND_MISSING_ACCESS,  /* of one that sleeps: a wake that failed has left it mapped */
    MEND_MISSING_MEMORY   /* asleep: the memory, and so the rest */
} mend_chunk_missing;

/* How other processes get a chunk. */
typedef enum mend_export_way {
    MEND_EXPORT_BY_FILE = 0,
    MEND_EXPORT_BY_FABRIC,
    MEND_EXPORT_WAYS
} mend_export_way;

/* Zones of addresses, which the layout names. The last one has areas with sums. */
enum { MEND_CHUNK_ZONES = 3, MEND_CHUNK_ZONE_WITH_SUMS = MEND_CHUNK_ZONES - 1 };

/* The sums of one area of addresses, which the layout names. */
typedef struct mend_chunk_sums {
    uint64_t mapped_bytes;      /* of chunks that do not sleep */
    uint64_t asleep_live_bytes; /* of live blocks in these */
} mend_chunk_sums;

/* The memory of one creation. Its owner is the one chunk whose handle it is. */
typedef struct mend_memory {
    mend_tree_node by_number; /* in `all` */
    mend_chunk_handle handle; /* 0: the chunk misses its memory */
    uint64_t number;          /* rises with each creation */
    int share_types;          /* of its creation, remembered by a chunk without memory */
    bool was_exported;        /* others may still hold the memory: then its release gives the device
                               * nothing */
    bool has_fabric;          /* that handle was asked for. It stays until the memory is released */
    unsigned char fabric[MEND_FABRIC_HANDLE_BYTES];
} mend_memory;

/* The mapping that a chunk had when a transaction claimed it: still there, in no layout. */
typedef struct mend_claim {
    struct mend_chunk *next; /* list of the transaction */
    uint64_t address;        /* 0: not claimed */
    mend_waits waits;        /* after which it is idle */
} mend_claim;

/* The backup of a sleeping chunk, which a feature makes. */
typedef struct mend_contents mend_contents;

typedef struct mend_chunk {
    mend_tree_node by_address; /* in `mapped`, while address is not 0 */
    struct mend_chunk *next;   /* the next chunk by address in `mapped`. NULL for the last */
    uint64_t size_bytes;
    uint64_t address;    /* 0: not mapped */
    uint64_t live_bytes; /* bytes of live blocks inside it */

    /* Frozen by an exchange or by a sleep: never in `empty`, even without live bytes. It stays so
     * after a transaction only while the driver refuses to restore the mapping or access. */
    union {
        struct {
            uint32_t pins; /* on its mapping: while there is one, the mapping stays */
            uint32_t is_frozen;
        };
        uint64_t holds; /* both, as one: 0 if neither keeps it out of `empty` */
    };

    mend_tree_node by_size; /* in `empty`, while mend_chunk_is_empty, unless it is in ... */
    mend_list newly;        /* ... `newly_empty`, perhaps in use again. Else alone */
    uint64_t exports[MEND_EXPORT_WAYS]; /* blocks in it that are exported so. Each block pins it */
    int file;              /* the chunk for other processes. Only while there are exports by file */
    int zone;              /* of its address */
    mend_chunk_sums *sums; /* of the area that it is mapped in. NULL: none */
    uint64_t *empty_sum;   /* the sum of empty chunks that it is of, as it is mapped, while it is
                            * empty */
    uint64_t idle_since_ns; /* empty: when a background trim saw it empty first, by the driver's
                             * clock. 0: none has since it became empty */
    mend_deferred deferred; /* see mend_chunk_deferred_kind */
    uint64_t sleep_tag;     /* tag of its blocks, so that it can sleep as a whole. 0: blocks without
                             * a thread's tag. Empty: as it was last */
    mend_stamp held_by;     /* empty: a stamp of its memory for which that was not ready when it was
                             * last asked about. Epoch 0: none since it became empty */
    mend_contents *kept;    /* backup of a sleeping chunk. NULL: it does not sleep */
    mend_chunk_missing missing;
    mend_memory memory;
    mend_claim claim;
} mend_chunk;

typedef struct mend_chunks {
    const mend_driver *driver;
    mend_chunk_properties properties;
    mend_tree mapped;      /* by address */
    mend_tree empty;       /* empty chunks, by (size, number), except chunks of ... */
    mend_list newly_empty; /* ... this ring: that became empty since the last search for one. Most
                            * are in use again before the next one, and stay in the ring until then,
                            * so that the hot path changes neither */
    mend_tree all;         /* that have memory, by number */
    /* The sums to which a chunk of the zone with sums counts. NULL: none. */
    mend_chunk_sums *(*sums_at)(struct mend_chunks *chunks, uint64_t address);
    mend_slab slab;
    uint64_t reserved_bytes;
    uint64_t
        empty_in[MEND_CHUNK_ZONES];     /* bytes of the empty chunks that are mapped, of each ... */
    uint64_t empty_unmapped_bytes;      /* of chunks that are not mapped, but for a moment ... */
    uint64_t unmapped_bytes;            /* ... of all chunks that are not */
    uint64_t pinned_bytes;              /* bytes of chunks with pins */
    uint64_t importers_bytes;           /* released, of memory that was exported: the most that
                                         * importers may keep from the device, as far as others
                                         * hold so much of it */
    uint32_t frozen_count;              /* frozen chunks */
    uint32_t missing_count;             /* of these, without mapping or access, and not asleep */
    uint32_t asleep_count;              /* of frozen_count, asleep */
    uint64_t unmapped_frozen_count;     /* frozen chunks without mapping, asleep or not */
    uint64_t unmapped_frozen_bytes;     /* bytes of those without mapping */
    uint64_t asleep_bytes;              /* bytes of sleeping chunks */
    uint64_t asleep_live_bytes;         /* of these, of live blocks */
    uint64_t away_in[MEND_CHUNK_ZONES]; /* bytes of chunks without memory, of each zone */
    uint64_t away_live_in[MEND_CHUNK_ZONES]; /* bytes of live blocks that sleep */
    uint64_t reserved_in[MEND_CHUNK_ZONES];  /* mapped chunks with memory of the device, of each */
    mend_deferred_list deferred;             /* of the whole heap */
    uint64_t next_number;
    uint64_t created;
    uint64_t created_bytes;
    uint64_t released;
    mend_status fabric_refusal; /* why chunks have no fabric handles any more. OK: no reason */
    uint64_t fabric_retries;    /* creations that were refused, and tried without them */
    mend_events *events;        /* NULL: none */
} mend_chunks;

/* `properties`: how chunks are created. */
void mend_chunks_init(mend_chunks *chunks, const mend_driver *driver,
                      const mend_chunk_properties *properties, mend_events *events);

/* Frees host memory. Every chunk was released before. */
void mend_chunks_clear(mend_chunks *chunks);

/* Whether the trees are valid and each mapped chunk has the right `next`. O(n). */
bool mend_chunks_are_in_order(const mend_chunks *chunks);

/* Creates an empty chunk that is not mapped. The caller reserved a node of the slab. It is for
 * other processes, too, as the pool is made, unless it `is_private`. Calls the driver. On failure
 * nothing changed. If the driver refuses chunks with fabric handles, this one and all later ones
 * are created without. */
mend_status mend_chunk_create(mend_chunks *chunks, uint64_t size_bytes, bool is_private,
                              mend_chunk **chunk);

/* Releases a chunk that is not mapped. is_undone: it counts as never created. Calls the driver. On
 * failure nothing changed. */
mend_status mend_chunk_release(mend_chunks *chunks, mend_chunk *chunk, bool is_undone);

/* The end of the record of a chunk that is not mapped. */
void mend_chunk_end(mend_chunks *chunks, mend_chunk *chunk);

/* Sets the address of a chunk (0: none), and updates the index. */
void mend_chunk_set_address(mend_chunks *chunks, mend_chunk *chunk, int zone, uint64_t address);

/* Freezes a chunk, and ends that. */
void mend_chunk_freeze(mend_chunks *chunks, mend_chunk *chunk);
void mend_chunk_thaw(mend_chunks *chunks, mend_chunk *chunk);

/* Adds a pin to a mapped chunk, and removes one. A pinned chunk is never in `empty`, so nothing
 * moves or releases it. */
void mend_chunk_pin(mend_chunks *chunks, mend_chunk *chunk);
void mend_chunk_unpin(mend_chunks *chunks, mend_chunk *chunk);

/* Whether a block in the chunk is exported, in any way. */
static inline bool mend_chunk_is_exported(const mend_chunk *chunk)
{
    return chunk->exports[MEND_EXPORT_BY_FILE] + chunk->exports[MEND_EXPORT_BY_FABRIC] > 0;
}

/* The deferred work of a chunk, which follows from its state. */
mend_deferred_kind mend_chunk_deferred_kind(const mend_chunk *chunk);

/* Notes why a frozen chunk is unmapped, and its backup while it sleeps. */
void mend_chunk_set_missing(mend_chunks *chunks, mend_chunk *chunk, mend_chunk_missing missing);
void mend_chunk_set_kept(mend_chunks *chunks, mend_chunk *chunk, mend_contents *kept,
                         mend_chunk_missing missing);

/* A sleeping chunk gets the memory of an empty chunk of its size, which is not mapped, and leaves
 * it to an empty chunk again, with a node of the slab that the caller reserved. Under both locks.
 * No driver call. */
void mend_chunk_take_memory(mend_chunks *chunks, mend_chunk *chunk, mend_chunk *empty);
mend_chunk *mend_chunk_leave_memory(mend_chunks *chunks, mend_chunk *chunk, mend_contents *kept);

/* So much of a sleeping chunk was freed. Its live bytes are counted already. */
void mend_chunk_note_freed_asleep(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes);

/* The chunk with this number. NULL if it was released. */
mend_chunk *mend_chunk_numbered(const mend_chunks *chunks, uint64_t number);

/* The mapped chunk that contains the address, or NULL, and the first one that begins there or
 * behind it. */
mend_chunk *mend_chunk_at(const mend_chunks *chunks, uint64_t address);
mend_chunk *mend_chunk_from(const mend_chunks *chunks, uint64_t address);

/* The last mapped chunk that begins below the address, and the one before a mapped chunk, or NULL.
 */
mend_chunk *mend_chunk_below(const mend_chunks *chunks, uint64_t address);
mend_chunk *mend_chunk_previous(const mend_chunk *chunk);

/* The next mapped chunk by address, or NULL. There may be a gap between the two. */
static inline mend_chunk *mend_chunk_next(const mend_chunk *chunk)
{
    return chunk->next;
}

static inline bool mend_chunk_sleeps(const mend_chunk *chunk)
{
    return chunk->kept != NULL;
}

/* The number that events tell. 0: it sleeps, perhaps with memory that a failed wake left. */
static inline uint64_t mend_chunk_told_number(const mend_chunk *chunk)
{
    return mend_chunk_sleeps(chunk) ? 0 : chunk->memory.number;
}

/* Whether a transaction that failed could not map the chunk again. */
static inline bool mend_chunk_misses_mapping(const mend_chunk *chunk)
{
    return chunk->missing != MEND_MISSING_NOTHING && !mend_chunk_sleeps(chunk);
}

/* Whether its memory is of the device's budget: in reserved_bytes, which the limits bound. */
static inline bool mend_chunk_is_reserved(const mend_chunk *chunk)
{
    return chunk->missing != MEND_MISSING_MEMORY;
}

/* Whether the driver holds a mapping for a chunk that has an address. */
static inline bool mend_chunk_has_mapping(const mend_chunk *chunk)
{
    return chunk->missing != MEND_MISSING_MAPPING && chunk->missing != MEND_MISSING_MEMORY;
}

static inline bool mend_chunk_is_empty(const mend_chunk *chunk)
{
    return chunk->live_bytes == 0 && chunk->holds == 0;
}

/* Whether nothing but its pins keeps the chunk out of the set of empty ones. */
static inline bool mend_chunk_is_kept_by_pins(const mend_chunk *chunk)
{
    return chunk->live_bytes == 0 && chunk->pins > 0 && !chunk->is_frozen;
}

/* Bytes of all such chunks. */
uint64_t mend_chunks_kept_by_pins(const mend_chunks *chunks);

/* Bytes of all empty chunks. */
static inline uint64_t mend_chunks_empty_bytes(const mend_chunks *chunks)
{
    uint64_t bytes = chunks->empty_unmapped_bytes;
    for (int zone = 0; zone < MEND_CHUNK_ZONES; zone++) {
        bytes += chunks->empty_in[zone];
    }
    return bytes;
}

/* A chunk enters the set of empty ones with its sum, if it is empty, and leaves it, before it is no
 * longer so. */
static inline void mend_chunk_enter_empty(mend_chunks *chunks, mend_chunk *chunk)
{
    if (!mend_chunk_is_empty(chunk)) {
        return;
    }
    if (mend_list_is_empty(&chunk->newly)) {
        mend_list_insert_after(&chunks->newly_empty, &chunk->newly);
    }
    *chunk->empty_sum += chunk->size_bytes;
    assert(mend_chunks_empty_bytes(chunks) <= chunks->reserved_bytes);
}
static inline void mend_chunk_leave_empty(mend_chunks *chunks, mend_chunk *chunk)
{
    if (!mend_chunk_is_empty(chunk)) {
        return;
    }
    assert(*chunk->empty_sum >= chunk->size_bytes);
    *chunk->empty_sum -= chunk->size_bytes;
    if (mend_list_is_empty(&chunk->newly)) { /* otherwise nothing was noted */
        mend_tree_remove(&chunks->empty, &chunk->by_size);
        chunk->idle_since_ns = 0;
        chunk->held_by = (mend_stamp){0};
    }
}

/* Bytes of a chunk become live, or are so no longer. Updates the set of empty chunks. */
static inline void mend_chunk_change_live(mend_chunks *chunks, mend_chunk *chunk, bool live,
                                          uint64_t size_bytes)
{
    assert(chunk->address != 0 && size_bytes != 0 && size_bytes % MEND_GRANULE_BYTES == 0);
    if (live) {
        mend_chunk_leave_empty(chunks, chunk);
    }
    chunk->live_bytes += live ? size_bytes : 0 - size_bytes;
    assert(chunk->live_bytes <= chunk->size_bytes);
    if (!live) {
        mend_chunk_enter_empty(chunks, chunk);
    }
}

/* Empty chunks in order of (size, number): the last one not above (size_bytes, number), and the
 * first one not below. */
mend_chunk *mend_chunk_empty_at_most(mend_chunks *chunks, uint64_t size_bytes, uint64_t number);
mend_chunk *mend_chunk_empty_at_least(mend_chunks *chunks, uint64_t size_bytes, uint64_t number);

/* The next one in that order. One that became empty after the search is not seen. */
mend_chunk *mend_chunk_empty_next(const mend_chunk *chunk);

#endif
