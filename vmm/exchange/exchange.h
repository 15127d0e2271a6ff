/* Gives live chunks other memory at their addresses, at a safe point: to join free memory, or
 * before a checkpoint of the process. */
#ifndef MEND_EXCHANGE_EXCHANGE_H
#define MEND_EXCHANGE_EXCHANGE_H

#include "map/map.h"

typedef struct mend_exchange_report {
    uint64_t copied_bytes;
    uint64_t driver_calls;
} mend_exchange_report;

/*
 * Exchanges the memory of a mapped, awake chunk without pins, exports, retired mappings and
 * deferred work for its parts: the chunks that it becomes, in order, with an idle empty chunk of
 * their size, or NULL. No block is between them. The old memory is free memory then. `parts` NULL:
 * it stays one chunk, with new memory that is not for other processes. *report also after a
 * failure: then the chunk is as before, or unmapped. Frees no memory, and checks no limit.
 * MEND_ERROR_OUT_OF_MEMORY: the device has no room, or there are no addresses for the copy.
 *
 * The caller holds both locks, and a driver scope is open. All work of the context is done, and the
 * program has promised not to launch any meanwhile. The chunk is frozen during the exchange.
 */
mend_result mend_exchange_memory(mend_heap *heap, mend_chunk *chunk, mend_cluster *parts,
                                 size_t count, mend_exchange_report *report);

#endif
