/*
 * One small interface for allocation policies: Mend itself, models of other allocators, and the
 * driver's own. All driver work goes through the table, so that its owner can count, price and
 * check it. bench/results/models.md says how the models were checked.
 */
#ifndef MEND_LAB_PEERS_PEER_H
#define MEND_LAB_PEERS_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

typedef struct mend_peer mend_peer;
struct mend_explanation; /* lab/heap/explain.h */

typedef struct mend_peer_config {
    const mend_driver *driver; /* borrowed. Must outlive the peer */
    int device;
    uint64_t limit_bytes; /* most physical memory that the peer may hold. 0: all of the device */
} mend_peer_config;

/* How Mend served requests, as in mend_stats: X(name here, name there). Other peers: zeros. */
#define MEND_PEER_PLACEMENTS(X)                                                                    \
    X(in_run, placed_in_run)                                                                       \
    X(by_extension, placed_by_extension)                                                           \
    X(at_new_address, placed_at_new_address)                                                       \
    X(chunks_remade, chunks_remade)                                                                \
    X(moves_avoided, moves_avoided)

typedef struct mend_peer_placements {
#define X(name, counter) uint64_t name;
    MEND_PEER_PLACEMENTS(X)
#undef X
} mend_peer_placements;

/* Physical memory that the peer holds: now, and the peak. */
typedef struct mend_peer_usage {
    uint64_t reserved_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t copied_bytes; /* bytes of live blocks that the policy has copied */
    mend_peer_placements placed;
} mend_peer_usage;

/*
 * The functions of a peer. The caller keeps the device's context current. A block freed on `stream`
 * is no longer used by work queued on that stream later. Thread-safe, except destroy. Sizes are
 * above 0.
 */
typedef struct mend_peer_operations {
    /* MEND_OK; MEND_ERROR_OUT_OF_MEMORY; anything else: the driver or the host failed. */
    mend_result (*alloc)(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                         uint64_t *address);
    mend_result (*free)(mend_peer *peer, uint64_t address, mend_stream stream);
    void (*get_usage)(mend_peer *peer, mend_peer_usage *usage);
    /* Releases everything to the driver, including blocks that are still live. */
    mend_result (*destroy)(mend_peer *peer);
} mend_peer_operations;

struct mend_peer {
    const mend_peer_operations *operations;
    /* Explains where memory is that is not live, from the view of the stream `asking`. NULL: the
     * peer cannot. */
    mend_result (*explain)(mend_peer *peer, mend_stream asking,
                           struct mend_explanation *explanation);
};

typedef struct mend_peer_policy {
    const char *name;
    const char *what; /* one line for people */
    bool is_real;     /* the driver's own allocator: not on a simulated device */
    /* The limit changes the layout of blocks only by making calls fail. */
    bool limit_only_refuses;
    mend_result (*create)(const mend_peer_config *config, mend_peer **peer);
} mend_peer_policy;

#endif
