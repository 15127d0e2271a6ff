/*
 * Python's pickles of data: nothing, numbers, texts, lists, tuples and dictionaries, of protocols 2
 * to 5. Opcodes that would import a name or call something are refused: nothing of a pickle runs.
 */
#ifndef MEND_LAB_SUPPORT_PICKLE_H
#define MEND_LAB_SUPPORT_PICKLE_H

#include "lab/support/bytes.h"
#include "lab/support/values.h"

/* Whether a file that begins with this byte may be one. */
static inline bool mend_is_pickle(char first)
{
    return first == (char)0x80;
}

/* Leaves the pickle's value alone on the stack of the store. MEND_ERROR_INVALID_ARGUMENT with path,
 * byte and reason; MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_pickle_read(mend_byte_source *source, mend_value_store *store);

#endif
