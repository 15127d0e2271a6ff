/*
 * Bytes as a pickle or as JSON, with all their keys: refused with byte and reason, or a value whose
 * lists hold themselves at no depth and are nested no deeper than promised.
 */
#include "lab/support/values.h"

#include <string.h>

#include "lab/support/json_read.h"
#include "lab/support/pickle.h"
#include "tests/fuzz/fuzz.h"

static size_t count_of(mend_value value)
{
    switch (value.kind) {
    case MEND_VALUE_LIST:
    case MEND_VALUE_DICT:
        return value.items->count;
    default:
        return 0;
    }
}

/* Each list says a depth that is less than that of each list that holds it: so none holds itself.
 * `most` bounds the walk where lists come again and again. */
static void check_value(mend_value value, size_t *most)
{
    FUZZ_CHECK(value.kind != MEND_VALUE_ABSENT, "no value");
    FUZZ_CHECK(value.kind != MEND_VALUE_TEXT || strlen(value.text) <= MEND_VALUE_TEXT_BYTES,
               "a text of %zu bytes", strlen(value.text));
    for (size_t i = 0; i < count_of(value) && *most > 0; i++) {
        mend_value item = value.items->values[i];
        --*most;
        FUZZ_CHECK(value.kind == MEND_VALUE_LIST || i % 2 == 1 || item.kind == MEND_VALUE_TEXT,
                   "a key that is no text");
        if (item.kind == MEND_VALUE_LIST || item.kind == MEND_VALUE_DICT) {
            FUZZ_CHECK(item.items->depth < value.items->depth &&
                           value.items->depth <= MEND_VALUE_DEPTH,
                       "%u in %u", item.items->depth, value.items->depth);
        }
        check_value(item, most);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static mend_byte_source source;
    const char *path = fuzz_file(0, data, size);
    mend_value_store store;
    mend_value_store_init(&store, NULL);
    FUZZ_CHECK(mend_byte_source_open(&source, path) == MEND_OK, "a file in memory");
    mend_result result = size > 0 && mend_is_pickle((char)data[0])
                             ? mend_pickle_read(&source, &store)
                             : mend_json_read(&source, &store);
    if (result == MEND_OK) {
        size_t most = 100000;
        FUZZ_CHECK(store.count == 1, "%zu values", store.count);
        check_value(store.stack[0], &most);
    } else {
        fuzz_check_refusal(result, path);
    }
    mend_byte_source_close(&source);
    mend_value_store_clear(&store);
    return 0;
}
