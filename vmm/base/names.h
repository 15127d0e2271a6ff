/*
 * Names that the program gives: of scopes, tags, streams and stacks. They are never removed, so
 * they can be read by number without a lock, by a child of fork, too.
 */
#ifndef MEND_BASE_NAMES_H
#define MEND_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process.h"

/* ---- tags, streams, stacks: a new name for a number comes behind the one before ------------ */

/* False: there is no host memory, or the table is full. The same name for a number is stored
 * once. */
bool mend_names_set(mend_name_kind kind, uint64_t number, const char *name);

/* NULL: it has none. Stays as long as the process. */
const char *mend_names_find(mend_name_kind kind, uint64_t number);

/* How many have been given: their indices, and the numbers of scopes, are 1 to this. An entry stays
 * as long as the process. */
uint32_t mend_names_count(mend_process_names *names);
const mend_name_entry *mend_names_entry(mend_process_names *names, uint32_t index);

/* ---- scopes ---------------------------------------------------------------------------------- */

/* A path of names has one number in the process, given after the outer scope's. */

/* The number of `name` inside `around`. A new one for a new name. 0: there is no host memory, or no
 * number left. */
uint32_t mend_scopes_number(uint32_t around, const char *name);

/* A scope by its number, which was given, and the number of the scope around it. */
static inline const mend_name_entry *mend_scopes_entry(uint32_t number)
{
    return mend_names_entry(&mend_process_own_scopes, number);
}
static inline uint32_t mend_scopes_around(uint32_t number)
{
    return (uint32_t)mend_scopes_entry(number)->number;
}

/* Writes the names from the outermost scope to this one, "step/forward". Of a path of more than
 * MEND_SCOPE_PATH_NAMES names ".../" and the innermost. Cut off where `text` ends. Returns its
 * length. */
enum { MEND_SCOPE_PATH_NAMES = 8 };
size_t mend_scopes_write_path(uint32_t number, char *text, size_t text_bytes);

#endif
