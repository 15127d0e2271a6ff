/*
 * Scopes: names that a thread gives to what it does, one inside another ("step", "forward"). A path
 * of names has one number in the process, which heaps count blocks by.
 *
 * Numbers are given once and never taken back, a scope's after that of the scope around it; so what
 * is known by its number can be read without a lock. A child of fork keeps them.
 */
#ifndef MEND_BASE_SCOPES_H
#define MEND_BASE_SCOPES_H

#include <stddef.h>
#include <stdint.h>

#include "base/process.h"

/* The number of `name` inside `around`; it is new if nobody has named it before. 0: there is no
 * host memory, or no number left. */
uint32_t mend_scopes_number(uint32_t around, const char *name);

/* How many numbers have been given: they are 1 to this. */
uint32_t mend_scopes_count(void);

/* A scope by its number, which was given. The entry stays as long as the process. */
const mend_scope_entry *mend_scopes_entry(uint32_t number);

/* Writes the names from the outermost scope to this one, "step/forward"; of a path of more than
 * MEND_SCOPE_PATH_NAMES names ".../" and the innermost. Cut off where `text` ends. Returns its
 * length. */
enum { MEND_SCOPE_PATH_NAMES = 8 };
size_t mend_scopes_write_path(uint32_t number, char *text, size_t text_bytes);

#endif
