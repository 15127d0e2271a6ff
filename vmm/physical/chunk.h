/*
 * Chunks: the physical allocations a pool holds. A chunk is mapped whole at one address, or
 * nowhere; empty chunks stand in a set by size, from which they are taken to any place. While
 * a transaction moves a chunk it has claimed it: no other room knows its address then.
 *
 * Guarded by the pool's lock.
 */
#ifndef MEND_PHYSICAL_CHUNK_H
#define MEND_PHYSICAL_CHUNK_H

#include <assert.h>

#include "base/slab.h"
#include "base/tree.h"
#include "driver/driver.h"
#include "physical/waits.h"

/* What the driver would not give a chunk back at its address. */
typedef enum mend_chunk_missing {
    MEND_MISSING_NOTHING = 0,
    MEND_MISSING_MAPPING, /* and access */
    MEND_MISSING_ACCESS
} mend_chunk_missing;

typedef struct mend_chunk {
    mend_tree_node by_address; /* in mapped, while address is not 0 */
    struct mend_chunk *next;   /* in mapped: the one behind it; NULL for the last */
    mend_tree_node by_size;    /* in whole, while live_bytes is 0 and it is not held */
    mend_tree_node by_number;  /* in all */
    mend_chunk_handle handle;
    uint64_t size_bytes;
    uint64_t address;    /* where it is mapped; 0: nowhere */
    uint64_t live_bytes; /* bytes of live blocks in it */
    uint64_t number;     /* order of creation */
    int zone;            /* of its address */

    struct mend_chunk *next_claimed; /* in the list of the transaction that works with it */

    /* Claimed by a transaction: still mapped here, in no layout, idle after the waits. */
    uint64_t claimed_address; /* 0: not claimed */
    mend_waits claimed_waits;

    /* Held by a compaction: never in `empty`, whatever lives in it. Longer than the compaction
     * only while the driver refuses what is missing at the address. */
    bool is_frozen;
    mend_chunk_missing missing;
} mend_chunk;

typedef struct mend_chunks {
    const mend_driver *driver;
    mend_chunk_properties properties;
    mend_tree mapped; /* by address */
    mend_tree empty;  /* empty, by (size, number) */
    mend_tree all;    /* by number */
    mend_slab slab;
    uint64_t reserved_bytes;
    uint64_t empty_bytes;
    uint64_t unmapped_bytes; /* in chunks mapped nowhere; part of empty_bytes */
    uint32_t frozen_count;   /* chunks that are held */
    uint32_t missing_count;  /* of these, without their mapping or access */
    uint64_t unmapped_count; /* of these, without their mapping */
    uint64_t lost_bytes;     /* in them */
    uint64_t next_number;
    uint64_t created;
    uint64_t created_bytes;
    uint64_t released;
} mend_chunks;

/* `rdma`: the chunks are made so that they can be registered for it. */
void mend_chunks_init(mend_chunks *chunks, const mend_driver *driver, int device, bool rdma);

/* Frees the host's memory only; every chunk was released. */
void mend_chunks_clear(mend_chunks *chunks);

/* The trees are valid, and each mapped chunk knows the next. O(n). */
bool mend_chunks_are_in_order(const mend_chunks *chunks);

/* Creates a chunk, mapped nowhere and empty. The slab was reserved. Reaches the driver; on
 * failure nothing changed. */
mend_status mend_chunk_create(mend_chunks *chunks, uint64_t size_bytes, mend_chunk **chunk);

/* Releases a chunk that is mapped nowhere. Reaches the driver; on failure nothing changed. */
mend_status mend_chunk_release(mend_chunks *chunks, mend_chunk *chunk);

/* The index follows when a chunk gets or loses its address. */
void mend_chunk_set_address(mend_chunks *chunks, mend_chunk *chunk, int zone, uint64_t address);

/* A chunk becomes held, and is so no more. */
void mend_chunk_freeze(mend_chunks *chunks, mend_chunk *chunk);
void mend_chunk_thaw(mend_chunks *chunks, mend_chunk *chunk);

/* Notes what a held chunk lacks at its address. */
void mend_chunk_set_missing(mend_chunks *chunks, mend_chunk *chunk, mend_chunk_missing missing);

/* By its number; NULL when it is no more. */
mend_chunk *mend_chunk_numbered(const mend_chunks *chunks, uint64_t number);

/* The mapped chunk that contains the address; NULL when none does. */
mend_chunk *mend_chunk_at(const mend_chunks *chunks, uint64_t address);

/* The mapped chunk behind a mapped one, not always where it ends; NULL when none is. */
static inline mend_chunk *mend_chunk_next(const mend_chunk *chunk)
{
    return chunk->next;
}

static inline bool mend_chunk_is_empty(const mend_chunk *chunk)
{
    return chunk->live_bytes == 0 && !chunk->is_frozen;
}

/* It becomes empty, or is so no more. */
void mend_chunk_enter_empty(mend_chunks *chunks, mend_chunk *chunk);
void mend_chunk_leave_empty(mend_chunks *chunks, mend_chunk *chunk);

/* Its live bytes change, and the set of empty chunks follows. */
static inline void mend_chunk_add_live(mend_chunks *chunks, mend_chunk *chunk, uint64_t size_bytes)
{
    if (mend_chunk_is_empty(chunk)) {
        mend_chunk_leave_empty(chunks, chunk);
    }
    chunk->live_bytes += size_bytes;
    assert(chunk->live_bytes <= chunk->size_bytes);
}

static inline void mend_chunk_subtract_live(mend_chunks *chunks, mend_chunk *chunk,
                                            uint64_t size_bytes)
{
    assert(chunk->live_bytes >= size_bytes);
    chunk->live_bytes -= size_bytes;
    if (mend_chunk_is_empty(chunk)) {
        mend_chunk_enter_empty(chunks, chunk);
    }
}

/* Empty chunks in rising order of (size, number): the last not above (size_bytes, number),
 * and the first not below. */
mend_chunk *mend_chunk_empty_at_most(const mend_chunks *chunks, uint64_t size_bytes,
                                     uint64_t number);
mend_chunk *mend_chunk_empty_at_least(const mend_chunks *chunks, uint64_t size_bytes,
                                      uint64_t number);
mend_chunk *mend_chunk_empty_next(const mend_chunk *chunk);

#endif
