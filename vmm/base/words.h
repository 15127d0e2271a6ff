/* Words for people: amounts of memory, "576.00 MiB", parts of texts, and the names that the program
 * gives to scopes, tags, streams and stacks. */
#ifndef MEND_BASE_WORDS_H
#define MEND_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process.h"

enum { MEND_AMOUNT_BYTES = 32 };
typedef struct mend_amount {
    char text[MEND_AMOUNT_BYTES];
} mend_amount;

/* Uses the largest unit up to TiB that is not above the amount, with two decimal digits. Bytes have
 * none. The first function rounds down. The second rounds up, so that a limit set to the amount
 * shown is not below the exact one. */
#define mend_words_amount(bytes)       mend_words_rounded(bytes, false)
#define mend_words_amount_above(bytes) mend_words_rounded(bytes, true)
mend_amount mend_words_rounded(uint64_t bytes, bool is_above);

/* Parts of texts come from files and from the environment: control characters become '?', so that a
 * terminal does not obey them, and a line stays one. */
void mend_words_make_printable(char *text);

#define MEND_HASH_OF_NOTHING UINT64_C(0xcbf29ce484222325)

/* FNV-1a: tells texts apart, and finds accidental cuts and changes. The hash of the earlier bytes
 * of `hash` followed by these. */
static inline uint64_t mend_hash(uint64_t hash, const void *bytes, size_t count)
{
    for (const unsigned char *at = bytes; count > 0; at++, count--) {
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Names are never removed, so they are read without a lock, by a child of fork, too. */

/* Of a tag, a stream or a stack. NULL: it has none. And where a search for one begins. */
const char *mend_names_find(mend_name_kind kind, uint64_t number);
_Atomic(uint32_t) *mend_names_bucket(mend_name_kind kind, uint64_t number);

/* How many have been given: their indices, and the numbers of scopes, are 1 to this. */
uint32_t mend_names_count(mend_process_names *names);
const mend_name_entry *mend_names_entry(mend_process_names *names, uint32_t index);

/* A scope by its number, which was given, and the number of the scope around it. A path of scopes
 * has one number in the process, given after the outer scope's. */
static inline const mend_name_entry *mend_scopes_entry(uint32_t number)
{
    return mend_names_entry(&mend_process_own_scopes, number);
}
static inline uint32_t mend_scopes_around(uint32_t number)
{
    return (uint32_t)mend_scopes_entry(number)->number;
}

/* Writes the names from the outermost scope to this one, "step/forward". Of a path of more than
 * MEND_SCOPE_PATH_NAMES names ".../" and the innermost. Cut off where `text` ends. */
enum { MEND_SCOPE_PATH_NAMES = 8 };
void mend_scopes_write_path(uint32_t number, char *text, size_t text_bytes);

#endif
