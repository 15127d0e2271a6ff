/* A simulated device with a pool on it and blocks in use, for the scenes. */
#ifndef MEND_TESTS_PROCESS_RIG_H
#define MEND_TESTS_PROCESS_RIG_H

#include "tests/process/scenes.h"

enum { RIG_BLOCKS = 12, RIG_STREAMS = 2 };

typedef struct rig_block {
    void *pointer;
    uint64_t size_bytes;
    mend_stream stream;
} rig_block;

typedef struct rig {
    mend_sim *sim;
    mend_pool *pool;
    mend_graph_pool *graph_pool; /* idle. Ends with the pool */
    mend_stream streams[RIG_STREAMS];
    void *kept;                   /* a live block as long as there is a pool */
    rig_block blocks[RIG_BLOCKS]; /* live. Each holds bytes of its own */
} rig;

void rig_open(rig *r);

/* Live blocks of both zones on both streams, with work queued that has not run, and memory freed
 * that waits for such work. */
void rig_fill(rig *r);

/* Every live block holds its bytes, the pool agrees with itself and the device with the pool. */
void rig_check(rig *r);

/* Frees what is live. The pool takes each back. */
void rig_free_blocks(rig *r);

/* Destroys the pool, live blocks or not. Nothing is left on the device, which goes as well. */
void rig_close(rig *r);

/* A device and a pool made, filled, checked, emptied and destroyed. */
void rig_try_all(void);

#endif
