/*
 * Runs, and the runs of a zone by (size, address): an ordered set in which every search begins. It
 * has classes of size, a tree for each. A call walks a small tree, mostly of one run, and finds the
 * next class with a run by its bit.
 */
#ifndef MEND_LAYOUT_SIZES_H
#define MEND_LAYOUT_SIZES_H

#include <stddef.h>

#include "base/tree.h"

struct mend_chunk;
struct mend_span;

/* Of the processor. Structures are laid out so that a search, or a call, reads few cache lines. */
enum { MEND_CACHE_LINE_BYTES = 64 };

/* A maximal contiguous stretch of free spans. A search by size, which compares many, reads one
 * cache line of each. */
typedef struct mend_run {
    mend_tree_node by_size; /* by (size, address) */
    uint64_t address;
    uint64_t size_bytes;
    struct mend_chunk *chunk; /* the one in which it begins */
    struct mend_span *first;
    struct mend_span *last;

    mend_tree_node by_address;
    mend_tree_node by_growth; /* by (size, address). Only if unmapped addresses follow */
    bool extensible;
} mend_run;
static_assert(sizeof(void *) != 8 || offsetof(mend_run, by_address) <= MEND_CACHE_LINE_BYTES,
              "a search by size looks at one cache line of a run");

/* Classes for each power of two from the granule on, and words of 64 bits for all classes. */
enum {
    MEND_SIZE_STEP_BITS = 6,
    MEND_SIZE_CLASSES = (64 - 9) << MEND_SIZE_STEP_BITS,
    MEND_SIZE_WORDS = (MEND_SIZE_CLASSES + 63) / 64,
};
static_assert(MEND_SIZE_WORDS <= 64, "one word has a bit for each word");

typedef struct mend_sizes {
    uint64_t used;                            /* bit n: words[n] has a bit */
    uint64_t words[MEND_SIZE_WORDS];          /* bit n: class n has a run */
    size_t count;                             /* runs of all classes */
    mend_tree_node *roots[MEND_SIZE_CLASSES]; /* of the trees of the classes */
} mend_sizes;

/* The run is in no index of sizes, or in this one. Its size does not change while it is. */
void mend_sizes_insert(mend_sizes *sizes, mend_run *run);
void mend_sizes_remove(mend_sizes *sizes, mend_run *run);

/* The first run not smaller than `size_bytes`, the next one in order, the last of all, or NULL. */
mend_run *mend_sizes_at_least(const mend_sizes *sizes, uint64_t size_bytes);
mend_run *mend_sizes_next(const mend_sizes *sizes, const mend_run *run);
mend_run *mend_sizes_last(const mend_sizes *sizes);

/* Whether the run is in the index at its place. */
bool mend_sizes_has(const mend_sizes *sizes, const mend_run *run);

/* Whether order, classes, bits and count are right. O(n). */
bool mend_sizes_are_valid(const mend_sizes *sizes);

#endif
