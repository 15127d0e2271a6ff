/*
 * Scopes: names that a thread gives to what it does, one inside another ("step", "forward"). A path
 * of names has one number in the process, which heaps count blocks by.
 *
 * Numbers are given once and never taken back, a scope's after that of the scope around it; so what
 * is known by its number can be read without a lock. A child of fork keeps them.
 */
#ifndef MEND_BASE_SCOPES_H
#define MEND_BASE_SCOPES_H

#include <stdint.h>

#include "base/process.h"

/* The number of `name` inside `around`; it is new if nobody has named it before. 0: there is no
 * host memory, or no number left. */
uint32_t mend_scopes_number(uint32_t around, const char *name);

/* How many numbers have been given: they are 1 to this. */
uint32_t mend_scopes_count(void);

/* A scope by its number, which was given. The entry stays as long as the process. */
const mend_scope_entry *mend_scopes_entry(uint32_t number);

#endif
