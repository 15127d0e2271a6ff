/* The name of an owner, of the frames of a stack as PyTorch records them. */
#ifndef MEND_LAB_TRACE_STACKS_H
#define MEND_LAB_TRACE_STACKS_H

#include <stddef.h>

#include "lab/support/values.h"

/*
 * Writes "train.py:14 step", or "train.py:11 > forward (linear.py:125)" if the line called a
 * library: the innermost lines of the program and of Python. Control characters become `?`. "no
 * stack" where there is none.
 */
void mend_trace_name_stack(mend_value frames, char *label, size_t size);

#endif
