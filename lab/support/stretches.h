/* A set of stretches of addresses that do not overlap, in order. An added stretch keeps its own
 * borders. A removal cuts the stretches that it reaches into. */
#ifndef MEND_LAB_SUPPORT_STRETCHES_H
#define MEND_LAB_SUPPORT_STRETCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tree.h"

typedef struct mend_stretch {
    mend_tree_node in_set; /* by address */
    uint64_t address;
    uint64_t size_bytes; /* above 0. The end does not overflow */
    uint64_t owner;      /* the caller's: parts of a stretch that is cut keep it */
} mend_stretch;

typedef struct mend_stretches {
    mend_tree tree;
    uint64_t bytes;
    bool lacks_memory; /* malloc failed: the set is wrong */
} mend_stretches;

void mend_stretches_init(mend_stretches *set);
void mend_stretches_clear(mend_stretches *set);

/* An empty stretch, or one that passes the last address, changes nothing. Amortized O(log n). */
void mend_stretches_remove(mend_stretches *set, uint64_t address, uint64_t size_bytes);
/* Replaces the stretches that it overlaps. */
void mend_stretches_add(mend_stretches *set, uint64_t address, uint64_t size_bytes, uint64_t owner);

/* NULL: none. */
mend_stretch *mend_stretches_first(const mend_stretches *set);
mend_stretch *mend_stretches_next(const mend_stretch *stretch);

#endif
