/*
 * Other memory behind a live chunk, at the same address: memory of the host for that of the device,
 * and back; or several chunks for one, which is how a chunk is split, because the driver cannot do
 * that. A transaction: all steps that can fail come first, while the chunk keeps its mapping: other
 * memory is created, mapped at a scratch address, and the contents are copied. Then the chunk is
 * unmapped, the other memory is mapped at its address, and only if the driver does that the chunk
 * gets it, or becomes several. If the driver refuses, the chunk is mapped to its old memory again;
 * if it refuses that, too, the chunk lacks its mapping, and later calls try again (move/remap.h).
 * What it does not unmap on that way back stays: then the chunk has the other memory, and what is
 * not mapped of it lacks its mapping.
 *
 * All work of the context is done, and the program has promised not to launch any meanwhile. The
 * chunk is frozen during the exchange, and stays so on the host (physical/on_host.h).
 *
 * The caller holds both locks, and a driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_MOVE_EXCHANGE_H
#define MEND_MOVE_EXCHANGE_H

#include "layout/layout.h"

/* What memory the chunk gets. */
typedef enum mend_exchange_kind {
    MEND_EXCHANGE_TO_HOST,
    MEND_EXCHANGE_TO_DEVICE,
    MEND_EXCHANGE_TO_PRIVATE /* on the device, and not for other processes */
} mend_exchange_kind;

typedef struct mend_exchange_order {
    mend_chunk *chunk;
    mend_exchange_kind kind;
    const uint64_t *sizes; /* borrowed: of the chunks that it becomes, in order, each a multiple of
                            * the device's page; their sum is its own size. Of the device alone.
                            * NULL: it stays one */
    size_t count;          /* of the sizes */
} mend_exchange_order;

/*
 * Exchanges the memory of a mapped chunk without pins, exports, aliases and retired mappings, which
 * lacks nothing and does not sleep. *copied_bytes: bytes that were copied. Does not make room, and
 * looks at no limit. MEND_ERROR_OUT_OF_MEMORY: the host, or the device, has no room;
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: the chunk is as before,
 * or lacks its mapping.
 */
mend_result mend_exchange_memory(mend_heap *heap, const mend_exchange_order *order,
                                 uint64_t *copied_bytes);

#endif
