/*
 * Moves of live blocks between the device and the host, chunk by chunk (move/exchange.h).
 *
 * The caller holds both locks, and no driver scope is open; slow driver calls release `state`.
 */
#ifndef MEND_SLEEP_RELOCATE_H
#define MEND_SLEEP_RELOCATE_H

#include "mend/mend_host.h"
#include "move/exchange.h"

/* As mend_move_to_host and mend_move_to_device; `report` is of full size. */
mend_result mend_relocate(mend_heap *heap, mend_exchange_kind kind, const uint64_t *tags,
                          size_t tag_count, mend_move_report *report);

/* Gives a chunk other memory of the device, in an open driver scope at a quiet point; makes room by
 * giving empty chunks back. Results as mend_exchange_memory. */
mend_result mend_relocate_in_device(mend_heap *heap, const mend_exchange_order *order,
                                    uint64_t *copied_bytes);

#endif
