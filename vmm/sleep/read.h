/*
 * Reads what is kept of sleeping memory, while it sleeps.
 *
 * The caller holds both locks. What is kept changes under both: while bytes are copied, `state` is
 * released. No driver call.
 */
#ifndef MEND_SLEEP_READ_H
#define MEND_SLEEP_READ_H

#include "layout/state.h"

/* As mend_read_kept. */
mend_result mend_sleep_read(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host);

#endif
