/* JSON as values (values.h). Of texts, \u stands for a character of ASCII or reads as `?`. */
#ifndef MEND_LAB_SUPPORT_JSON_READ_H
#define MEND_LAB_SUPPORT_JSON_READ_H

#include "lab/support/bytes.h"
#include "lab/support/values.h"

/* Leaves the file's value alone on the stack of the store. MEND_ERROR_INVALID_ARGUMENT with path,
 * byte and reason; MEND_ERROR_OUT_OF_HOST_MEMORY. */
mend_result mend_json_read(mend_byte_source *source, mend_value_store *store);

#endif
