/* The name of an owner, of the frames of a stack as PyTorch records them. */
#ifndef MEND_LAB_TRACE_STACKS_H
#define MEND_LAB_TRACE_STACKS_H

#include <stddef.h>

#include "lab/support/values.h"

/*
 * Writes "model.py:14 forward from train.py:30 > forward (linear.py:125)": the innermost line of
 * the program; after `from` the next one that calls it, past the modules around it; after `>` the
 * line of a library that it calls. Control characters become `?`. "no stack" where there is none.
 */
void mend_trace_name_stack(mend_value frames, char *label, size_t size);

#endif
