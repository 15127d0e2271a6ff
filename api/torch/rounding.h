/*
 * Blocks outside of pools that are larger than PyTorch's requests, because its settings round sizes
 * up (roundup_power2_divisions). Mend was asked for the rounded size. The excess is noted here, so
 * that PyTorch's statistics count the requests of the program.
 */
#ifndef MEND_TORCH_ROUNDING_H
#define MEND_TORCH_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

/* The bytes too much of a device's blocks. */
typedef struct mend_torch_excess {
    uint64_t live;       /* of live blocks */
    uint64_t small_live; /* of those in the small pool */
    uint64_t added;      /* of all blocks so far */
    uint64_t small_added;
} mend_torch_excess;

/* A block that is larger than its request. */
typedef struct mend_torch_rounded {
    uint64_t excess_bytes; /* 0: it is not */
    int device;
    bool is_small;
} mend_torch_rounded;

/* Notes a new block. Without host memory for the note, its rounded size counts. */
void mend_torch_rounding_add(void *pointer, mend_torch_rounded rounded);

/* The note of the block at this address. One relaxed load while no block is rounded up. */
mend_torch_rounded mend_torch_rounding_of(const void *pointer);

/* The same. The note ends: the block is about to be freed, and another may begin there. */
mend_torch_rounded mend_torch_rounding_end(const void *pointer);

/* The block was not freed. */
void mend_torch_rounding_put_back(void *pointer, mend_torch_rounded rounded);

mend_torch_excess mend_torch_rounding_sum(int device);

#endif
