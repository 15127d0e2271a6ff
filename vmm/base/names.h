/*
 * Names that the program gives to numbers: tags, streams, stacks. A new name for a number comes
 * behind the one before; none is taken back, so that what is known by its index can be read without
 * a lock, by a child of fork, too.
 */
#ifndef MEND_BASE_NAMES_H
#define MEND_BASE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/process.h"

/* False: there is no host memory, or no room for more. What is the number's name already is kept
 * once. */
bool mend_names_set(mend_name_kind kind, uint64_t number, const char *name);

/* NULL: it has none. Stays as long as the process. */
const char *mend_names_find(mend_name_kind kind, uint64_t number);

/* How many have been given: their indices are 1 to this. */
uint32_t mend_names_count(void);
const mend_name_entry *mend_names_entry(uint32_t index);

#endif
