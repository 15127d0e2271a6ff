/*
 * Other memory behind a live chunk, at the same address: memory of the host for that of the device,
 * and back. A transaction: all steps that can fail come first, while the chunk keeps its mapping:
 * other memory is created, mapped at a scratch address, and the contents are copied. Then the chunk
 * is unmapped and gets the other memory; its mapping is made last. If the driver refuses that, the
 * chunk gets its old memory back; if it refuses that, too, the chunk lacks its mapping, and later
 * calls try again (move/remap.h).
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

/*
 * Exchanges the memory of a mapped chunk without pins, exports, aliases and retired mappings, which
 * lacks nothing and does not sleep. *copied_bytes: bytes that were copied. Does not make room, and
 * looks at no limit. MEND_ERROR_OUT_OF_MEMORY: the host, or the device, has no room;
 * MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: the chunk is as before,
 * or lacks its mapping.
 */
mend_result mend_exchange_memory(mend_heap *heap, mend_chunk *chunk, mend_exchange_kind kind,
                                 uint64_t *copied_bytes);

#endif
