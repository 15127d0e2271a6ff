/*
 * An allocation policy under one small face: Mend itself, models of other allocators, and the
 * driver's own. All driver work goes through the door, so that whoever passed the table can count
 * it, price it and judge it. docs/benchmarks-models.md tells how the models were checked.
 */
#ifndef MEND_LAB_PEERS_PEER_H
#define MEND_LAB_PEERS_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"
#include "observe/explain.h"

typedef struct mend_peer mend_peer;

typedef struct mend_peer_config {
    const mend_driver *driver; /* borrowed; must outlive the peer */
    int device;
    uint64_t limit_bytes; /* most physical memory the peer may hold; 0: the device's */
} mend_peer_config;

/* Physical memory held: now, and the most at any time. */
typedef struct mend_peer_usage {
    uint64_t reserved_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t copied_bytes; /* of live blocks, by the policy itself, in all */
} mend_peer_usage;

/*
 * What a peer does. The caller keeps the device's context current, and frees on `stream` what it
 * no longer uses in the order of that stream. Thread-safe but for destroy. Sizes above 0.
 */
typedef struct mend_peer_operations {
    /* MEND_OK; MEND_ERROR_OUT_OF_MEMORY; anything else: the driver or the host failed. */
    mend_result (*alloc)(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                         uint64_t *address);
    mend_result (*free)(mend_peer *peer, uint64_t address, mend_stream stream);
    void (*get_usage)(mend_peer *peer, mend_peer_usage *usage);
    /* Gives everything back to the driver, blocks still live included. */
    mend_result (*destroy)(mend_peer *peer);
} mend_peer_operations;

struct mend_peer {
    const mend_peer_operations *operations;
    /* Where memory is that is not live, as `asking` finds it. NULL: the peer cannot tell. */
    mend_result (*explain)(mend_peer *peer, mend_stream asking, mend_explanation *explanation);
};

typedef struct mend_peer_policy {
    const char *name;
    const char *what; /* one line for people */
    bool is_real;     /* the driver's own allocator: no simulated device has it */
    /* The layout of blocks depends on the limit only through the calls it makes fail. */
    bool limit_only_refuses;
    mend_result (*create)(const mend_peer_config *config, mend_peer **peer);
} mend_peer_policy;

#endif
