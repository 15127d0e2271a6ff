/*
 * Pins: ranges of addresses whose mappings must stay as they are, because something outside of the
 * pool knows them: a network card, a collective library, another process. A pinned chunk keeps its
 * address and its physical memory, with live blocks or without.
 *
 * Pins of the program and those of exported blocks are kept apart, so that neither undoes a pin of
 * the other. A block that must lie in one chunk is a pin, too, and needs no other record. The
 * caller holds `state`, and for mend_pins_add `grow` too: then no chunk is claimed or frozen. No
 * driver call.
 */
#ifndef MEND_USERS_PIN_H
#define MEND_USERS_PIN_H

#include "layout/state.h"

void mend_pins_init(mend_heap *heap);

/* Frees host memory. */
void mend_pins_clear(mend_heap *heap);

typedef enum mend_pin_owner { MEND_PIN_OF_PROGRAM = 0, MEND_PIN_OF_EXPORT } mend_pin_owner;

/* Pins all chunks of the range. MEND_ERROR_FOREIGN_POINTER: not all of it is mapped;
 * MEND_ERROR_ASLEEP: some of it sleeps;
 * MEND_ERROR_OUT_OF_HOST_MEMORY. On failure nothing changed. */
mend_result mend_pins_add(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                          mend_pin_owner owner);

/* Undoes one mend_pins_add of just this range. MEND_ERROR_INVALID_ARGUMENT: there is none. */
mend_result mend_pins_remove(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                             mend_pin_owner owner);

/* Pins the chunk of a block that has just been placed in it, under `grow`, until the block is
 * freed; and ends that, if it is so. */
void mend_pins_keep_in_one_chunk(mend_heap *heap, mend_span *span);
void mend_pins_end_in_one_chunk(mend_heap *heap, mend_span *span);

/* The number of pins that cover a byte of the chunk. O(pins + blocks in the chunk). */
uint64_t mend_pins_of(const mend_heap *heap, const mend_chunk *chunk);

#endif
