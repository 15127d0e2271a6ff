/*
 * Bytes as the description of a block that another process exports by fabric handles: refused in
 * words, or sound. An odd first byte stands for an exporter that errs but knows the form: mark,
 * size and check are put right, so that the numbers in between are looked at.
 */
#include "share/share.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

static void check_sound(const void *bytes, size_t size, const mend_description *head)
{
    uint64_t sum_bytes = 0;
    FUZZ_CHECK(mend_description_size((size_t)head->all.count) == size, "%llu chunks in %zu bytes",
               (unsigned long long)head->all.count, size);
    for (size_t i = 0; i < head->all.count; i++) {
        const uint64_t chunk_bytes = mend_description_chunk(bytes, i).size_bytes;
        FUZZ_CHECK(chunk_bytes > 0 && chunk_bytes <= head->all.all_bytes - sum_bytes, "chunk %zu",
                   i);
        FUZZ_CHECK(i > 0 || head->all.offset_bytes < chunk_bytes,
                   "it begins behind the first chunk");
        sum_bytes += chunk_bytes;
    }
    FUZZ_CHECK(sum_bytes == head->all.all_bytes, "the chunks have another sum");
    FUZZ_CHECK(head->all.size_bytes > 0 &&
                   head->all.offset_bytes + head->all.size_bytes <= sum_bytes,
               "it ends behind the chunks");
}

/* In a buffer of just that size, so that the sanitizer sees a byte too many. */
static void check_bytes(const uint8_t *bytes, size_t size)
{
    mend_description head;
    uint8_t *exact = malloc(size > 0 ? size : 1);
    memcpy(exact, bytes, size);
    const char *wrong = mend_description_read(exact, size, &head);
    if (wrong == NULL) {
        check_sound(exact, size, &head);
    }
    free(exact);
}

/* As an exporter writes it, with the numbers of the input. */
static void check_repaired(const uint8_t *bytes, size_t size)
{
    mend_description head;
    memcpy(&head, bytes, sizeof(head));
    head.all.count = (size - sizeof(head)) / sizeof(mend_described_chunk);
    head.number = head.number != 0 ? head.number : 1;
    if (head.all.count > 0) {
        const size_t whole = mend_description_size((size_t)head.all.count);
        uint8_t *written = malloc(whole);
        memcpy(written, bytes, whole);
        mend_description_write_head(written, &head);
        check_bytes(written, whole);
        free(written);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    check_bytes(data + 1, size - 1);
    if (data[0] % 2 == 1 && size - 1 >= sizeof(mend_description)) {
        check_repaired(data + 1, size - 1);
    }
    return 0;
}
