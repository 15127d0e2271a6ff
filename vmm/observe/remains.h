/* The ranges and blocks that are still there when a pool is destroyed, in words for the log. */
#ifndef MEND_OBSERVE_REMAINS_H
#define MEND_OBSERVE_REMAINS_H

#include <stdbool.h>

#include "layout/state.h"

enum { MEND_REMAINS_BYTES = 512 };

/* Writes how many ranges there are and their committed bytes; how many blocks are live, their
 * bytes, the three largest, and the three scopes with most of them. False, and "": there is none of
 * both. The caller holds `state`, or no other thread uses the heap. O(n). */
bool mend_observe_remains(const mend_heap *heap, char line[MEND_REMAINS_BYTES]);

#endif
