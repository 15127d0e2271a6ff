/*
 * What a program's tightness means to the policy: from the fewest driver calls (1) to the least
 * memory (5).
 */
#ifndef MEND_POLICY_TIGHTNESS_H
#define MEND_POLICY_TIGHTNESS_H

#include "layout/state.h"

enum { MEND_TIGHTNESS_LEVELS = 5 };

/* Fills the placement of a new heap, whose limit and device are known. 0 means the default. */
void mend_tightness_apply(mend_heap *heap, int tightness);

#endif
