/* What other files of the heap do to blocks. */
#ifndef MEND_HEAP_BLOCK_H
#define MEND_HEAP_BLOCK_H

#include "heap/heap.h"

/* Fixes the uses of a stream that will be gone when the blocks are freed: they wait for `stamp`. */
void mend_blocks_fix_users(mend_heap *heap, uint32_t stream, mend_stamp stamp);

#endif
