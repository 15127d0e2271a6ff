/* Small texts: sizes and capacities, cost tables, JSON, columns of numbers, and the histogram
 * behind the percentiles. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lab/support/capacity.h"
#include "lab/support/columns.h"
#include "lab/support/costs.h"
#include "lab/support/histogram.h"
#include "lab/support/json.h"
#include "tests/cli/fixture.h"
#include "tests/support/test.h"

MEND_TEST(capacity, sizes_have_units)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"16B", 16},
                {"600KiB", 614400},
                {"1.5MiB", 1572864},
                {"16GiB", UINT64_C(17179869184)},
                {"0.1GiB", 107374183},
                {"2TiB", UINT64_C(2199023255552)}};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        uint64_t bytes = 1;
        MEND_TEST_CHECK(mend_parse_bytes(good[i].text, &bytes) && bytes == good[i].bytes, (void)0,
                        "%s is read as %llu", good[i].text, (unsigned long long)bytes);
    }
    static const char *const bad[] = {"",    "GiB",   "1 GiB", "1GB",  "-1",    "+1",
                                      "1e9", "1.GiB", ".5B",   "0x10", "1.2.3", "5000000TiB",
                                      "inf", "1.5",   "1.0",   "1.5B"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint64_t bytes = 77;
        MEND_TEST_CHECK(!mend_parse_bytes(bad[i], &bytes) && bytes == 77, (void)0,
                        "\"%s\" is accepted", bad[i]);
    }
}

MEND_TEST(capacity, is_bytes_a_factor_or_a_word)
{
    mend_capacity capacity;
    ASSERT_TRUE(mend_parse_capacity("1.05x", &capacity));
    EXPECT_INT_EQ(MEND_CAPACITY_FACTOR, capacity.kind);
    EXPECT_TRUE(fabs(capacity.factor - 1.05) < 1e-12);
    ASSERT_TRUE(mend_parse_capacity("fit", &capacity));
    EXPECT_INT_EQ(MEND_CAPACITY_FIT, capacity.kind);
    ASSERT_TRUE(mend_parse_capacity("unlimited", &capacity));
    EXPECT_INT_EQ(MEND_CAPACITY_UNLIMITED, capacity.kind);
    ASSERT_TRUE(mend_parse_capacity("16GiB", &capacity));
    EXPECT_INT_EQ(MEND_CAPACITY_BYTES, capacity.kind);
    EXPECT_U64_EQ(UINT64_C(17179869184), capacity.bytes);
    static const char *const bad[] = {"",     "x",   "0",     "0x",     "-1x",
                                      "nanx", "Fit", "1.05X", "1.05 x", "1.05"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        MEND_TEST_CHECK(!mend_parse_capacity(bad[i], &capacity), (void)0, "\"%s\" is accepted",
                        bad[i]);
    }
}

static mend_result read_costs(const char *text, mend_sim_prices *prices)
{
    fixture_file file = fixture_write_text(".txt", text);
    mend_result result = mend_costs_read(file.path, prices);
    fixture_remove(&file);
    return result;
}

MEND_TEST(costs, a_list_replaces_the_whole_reference)
{
    mend_sim_prices prices = MEND_SIM_PRICES_INIT;
    mend_sim_prices_named("reference", &prices);
    ASSERT_RESULT(MEND_OK, read_costs("# mine\n\ncreate 10 0\t30 # each\r\n  map 7 8 9", &prices));
    EXPECT_U64_EQ(10, prices.create.call_ns);
    EXPECT_U64_EQ(30, prices.create.mib_ns);
    EXPECT_U64_EQ(8, prices.map.mapping_ns);
    EXPECT_U64_EQ(0, prices.unmap.call_ns);
}

MEND_TEST(costs, bad_lines_are_named)
{
    static const struct {
        const char *text;
        const char *complaint;
    } cases[] = {{"create 1 2\n", ":1: not a name"},
                 {"create 1 2 3 4\n", ":1: not a name"},
                 {"\nfly 1 2 3\n", ":2: no call \"fly\""},
                 {"map 1 2 3\nmap 1 2 3\n", ":2: a second cost"},
                 {"map 1 -2 3\n", ":1: \"-2\""},
                 {"map 1 2.5 3\n", ":1: \"2.5\""},
                 {"map 1000000000000 2 3\n", ":1: \"1000000000000\""}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        mend_sim_prices prices = {.struct_size = sizeof(mend_sim_prices), .map = {.call_ns = 5}};
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, read_costs(cases[i].text, &prices));
        MEND_TEST_CHECK(strstr(fixture_message(), cases[i].complaint) != NULL, (void)0, "%s",
                        fixture_message());
        EXPECT_U64_EQ(5, prices.map.call_ns);
    }
}

/* The output of `write`, in memory that the caller frees. */
static char *json_text(void (*write)(mend_json *json))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    mend_json json = {.out = out};
    write(&json);
    fclose(out);
    return text;
}

static void write_values(mend_json *json)
{
    mend_json_begin_object(json, NULL);
    mend_json_string(json, "a", "x\"\\\n\x01");
    mend_json_integer(json, "b", UINT64_MAX);
    mend_json_begin_array(json, "c");
    mend_json_bool(json, NULL, true);
    mend_json_null(json, NULL);
    mend_json_begin_object(json, NULL);
    mend_json_end_object(json);
    mend_json_end_array(json);
    mend_json_number(json, "d", 1.0 / 3, 3);
    mend_json_number(json, "e", NAN, 3);
    mend_json_end_object(json);
}

MEND_TEST(json, writes_every_kind_of_value)
{
    char *text = json_text(write_values);
    EXPECT_STR_EQ("{\"a\": \"x\\\"\\\\\\u000a\\u0001\", \"b\": 18446744073709551615, "
                  "\"c\": [true, null, {}], \"d\": 0.333, \"e\": null}",
                  text);
    free(text);
}

static void write_unicode(mend_json *json)
{
    mend_json_string(json, NULL, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
}

static void write_no_unicode(mend_json *json)
{
    mend_json_string(json, NULL, "\xff \xc0\xaf \xed\xa0\x80 \xe2\x82");
}

MEND_TEST(json, text_is_always_utf_8)
{
    char *good = json_text(write_unicode);
    EXPECT_STR_EQ("\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"", good);
    free(good);
    char *bad = json_text(write_no_unicode);
    EXPECT_STR_EQ("\"\\ufffd \\ufffd\\ufffd \\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\"", bad);
    free(bad);
}

/* The output of a column, unpacked as a page does it. */
static size_t unpack(const mend_column *column, uint64_t *values)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    EXPECT_TRUE(mend_column_write(column, out));
    fclose(out);
    uint8_t packed[4096];
    size_t packed_count = 0;
    uint32_t bits = 0;
    EXPECT_TRUE(length % 4 == 0 && length < sizeof(packed));
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, text[i]) - digits);
        if (i % 4 != 0) {
            packed[packed_count++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
        }
    }
    free(text);
    uint8_t bytes[4096];
    uLongf size = sizeof(bytes);
    EXPECT_U64_EQ(Z_OK, (uint64_t)uncompress(bytes, &size, packed, packed_count));
    size_t count = 0;
    unsigned shift = 0;
    values[0] = 0;
    for (size_t i = 0; i < size; i++) {
        values[count] |= (uint64_t)(bytes[i] & 127) << shift;
        shift = bytes[i] < 128 ? 0 : shift + 7;
        if (shift == 0) {
            values[++count] = 0;
        }
    }
    return count;
}

MEND_TEST(columns, hold_what_was_added)
{
    static const uint64_t numbers[] = {
        0, 1, 127, 128, 300, 5, UINT64_C(1) << 40, UINT64_MAX, UINT64_C(1) << 63, 0, 7, 6};
    enum { COUNT = sizeof(numbers) / sizeof(*numbers) };
    uint64_t values[64];
    for (size_t length = 0; length <= COUNT; length++) {
        mend_column plain = {0};
        mend_column changes = {0};
        for (size_t i = 0; i < length; i++) {
            mend_column_add(&plain, numbers[i]);
            mend_column_add_change(&changes, numbers[i]);
        }
        EXPECT_U64_EQ(length, unpack(&plain, values));
        EXPECT_TRUE(memcmp(numbers, values, length * sizeof(*numbers)) == 0);
        EXPECT_U64_EQ(length, unpack(&changes, values));
        uint64_t last = 0;
        for (size_t i = 0; i < length; i++) {
            last += values[i] % 2 == 0 ? values[i] / 2 : ~(values[i] / 2);
            EXPECT_U64_EQ(numbers[i], last);
        }
        mend_column_clear(&plain);
        mend_column_clear(&changes);
    }
    mend_column lost = {.lacks_memory = true};
    EXPECT_TRUE(!mend_column_write(&lost, stderr));
}

MEND_TEST(histogram, quantiles_are_within_four_percent)
{
    mend_histogram *histogram = calloc(1, sizeof(mend_histogram));
    EXPECT_U64_EQ(0, mend_histogram_quantile(histogram, 0.5));
    for (uint64_t i = 1; i <= 100000; i++) {
        mend_histogram_add(histogram, i);
    }
    uint64_t median = mend_histogram_quantile(histogram, 0.5);
    uint64_t late = mend_histogram_quantile(histogram, 0.99);
    EXPECT_TRUE(median >= 50000 && median <= 52000);
    EXPECT_TRUE(late >= 99000 && late <= 100000);
    EXPECT_U64_EQ(100000, mend_histogram_quantile(histogram, 1));
    EXPECT_U64_EQ(UINT64_C(100000) * 100001 / 2, histogram->sum);
    mend_histogram_add(histogram, UINT64_MAX);
    EXPECT_U64_EQ(UINT64_MAX, mend_histogram_quantile(histogram, 1));
    mend_histogram twin = *histogram;
    mend_histogram_merge(histogram, &twin);
    EXPECT_U64_EQ(200002, histogram->count);
    EXPECT_U64_EQ(median, mend_histogram_quantile(histogram, 0.5));
    free(histogram);
}
