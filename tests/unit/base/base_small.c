/* Arithmetic of sizes at its edges, amounts in words, and the ring of nodes under every change. */
#include "base/align.h"
#include "base/list.h"
#include "base/words.h"

#include <stddef.h>

#include "tests/support/test.h"

MEND_TEST(base_words, amounts_have_the_unit_that_fits)
{
    static const struct {
        uint64_t bytes;
        const char *below;
        const char *above;
    } rows[] = {
        {0, "0 bytes", "0 bytes"},
        {1023, "1023 bytes", "1023 bytes"},
        {1024, "1.00 KiB", "1.00 KiB"},
        {1025, "1.00 KiB", "1.01 KiB"},
        {MEND_MIB - 1, "1023.99 KiB", "1024.00 KiB"},
        {576 * MEND_MIB, "576.00 MiB", "576.00 MiB"},
        {13071548416, "12.17 GiB", "12.18 GiB"},
        {5 * MEND_TIB / 2, "2.50 TiB", "2.50 TiB"},
        {UINT64_MAX, "16777215.99 TiB", "16777216.00 TiB"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mend_amount below = mend_words_amount(rows[i].bytes);
        mend_amount above = mend_words_amount_above(rows[i].bytes);
        EXPECT_STR_EQ(rows[i].below, below.text);
        EXPECT_STR_EQ(rows[i].above, above.text);
    }
}
