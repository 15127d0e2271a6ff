/*
 * The end of sleeping chunks that have lost their last block: their addresses, what is kept of them
 * and their records go. Those whose free memory is kept for captured graphs stay.
 */
#ifndef MEND_SLEEP_COLLECT_H
#define MEND_SLEEP_COLLECT_H

#include "layout/state.h"

/* Ends them. The caller holds both locks; a driver scope is open. What host memory is short for
 * stays. */
void mend_sleep_collect(mend_heap *heap);

/* The same without a scope, and gives back memory that the driver refused before. */
void mend_sleep_collect_all(mend_heap *heap);

/* The same for a thread that holds `state` alone; does nothing if another thread makes room. */
void mend_sleep_collect_now(mend_heap *heap);

/* Frees what is kept of all sleeping chunks, at the end of the heap. */
void mend_sleep_clear(mend_heap *heap);

#endif
