/* Sizes of a pool that programs cannot set: they follow its limit and its tightness. */
#ifndef MEND_TESTS_SUPPORT_PLACE_H
#define MEND_TESTS_SUPPORT_PLACE_H

#include "layout/state.h"
#include "mend/mend.h"

/* Sets them in a new pool. 0: a chunk by the limit; the rest unchanged. The part of the limit and
 * the largest chunk stay those of the pool's tightness. */
void mend_test_place(mend_pool *pool, const mend_placement *wanted);

#endif
