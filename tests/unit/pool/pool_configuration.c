/* MEND_CONF: every key, every kind of value, and each way to write it wrong. */
#include "pool/pool.h"

#include <stdio.h>
#include <string.h>

#include "base/align.h"
#include "tests/support/kit.h"

static bool are_same(const mend_pool_config *a, const mend_pool_config *b)
{
#define X(key, field, kind, fallback, meaning) a->field == b->field &&
    return MEND_CONFIGURATION(X) a->limit_percent == b->limit_percent &&
           a->struct_size == b->struct_size && a->device == b->device && a->driver == b->driver;
#undef X
}

static mend_pool_config read_ok(const char *text)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    EXPECT_OK(mend_configuration_read(text, &config));
    return config;
}

/* The text is refused with a message that contains each of `words` (up to a NULL), and the config
 * is untouched. */
static void expect_refused(const char *text, const char *const *words)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_pool_config before = config;
    MEND_TEST_CHECK(mend_configuration_read(text, &config) == MEND_ERROR_INVALID_ARGUMENT, (void)0,
                    "\"%s\" was not refused", text);
    EXPECT_TRUE(are_same(&before, &config));
    mend_error error = MEND_ERROR_INIT;
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_INVALID(error.result);
    for (; *words != NULL; words++) {
        MEND_TEST_CHECK(strstr(error.message, *words) != NULL, (void)0,
                        "the message on \"%s\" lacks \"%s\":\n  %s", text, *words, error.message);
    }
}
#define EXPECT_REFUSED(text, ...) expect_refused(text, (const char *const[]){__VA_ARGS__, NULL})

/* Values of a key that are refused, with what it takes. */
static void expect_none_of(const char *key, const char *takes, const char *const *values)
{
    for (; *values != NULL; values++) {
        char text[128], words[128];
        snprintf(text, sizeof(text), "%s:%s", key, *values);
        snprintf(words, sizeof(words), "MEND_CONF: %s is \"%s\"; it takes ", key, *values);
        EXPECT_REFUSED(text, words, takes);
    }
}
#define EXPECT_NONE_OF(key, takes, ...)                                                            \
    expect_none_of(key, takes, (const char *const[]){__VA_ARGS__, NULL})

MEND_TEST(pool_configuration, items_change_their_fields_alone)
{
    mend_pool_config expected = MEND_POOL_CONFIG_INIT;
    mend_pool_config config = read_ok(NULL);
    EXPECT_TRUE(are_same(&expected, &config));
    config = read_ok("");
    EXPECT_TRUE(are_same(&expected, &config));
    expected.address_reservation_bytes = 4096;
    config = read_ok("address_reservation:4096");
    EXPECT_TRUE(are_same(&expected, &config));
    expected.strategy = 4;
    expected.peers = 10;
    config = read_ok("strategy:4,address_reservation:4096,peers:1+3");
    EXPECT_TRUE(are_same(&expected, &config));
}

MEND_TEST(pool_configuration, bytes_are_whole_numbers_with_a_unit_or_none)
{
    EXPECT_U64_EQ(0, read_ok("limit:0").limit_bytes);
    EXPECT_U64_EQ(0, read_ok("limit:0TiB").limit_bytes);
    EXPECT_U64_EQ(1, read_ok("limit:1").limit_bytes);
    EXPECT_U64_EQ(12, read_ok("limit:0012").limit_bytes);
    EXPECT_U64_EQ(3 * MEND_KIB, read_ok("limit:3KiB").limit_bytes);
    EXPECT_U64_EQ(UINT64_C(1) << 60, read_ok("limit:1048576TiB").limit_bytes);
    EXPECT_U64_EQ(UINT64_C(1) << 60, read_ok("limit:1152921504606846976").limit_bytes);
}

MEND_TEST(pool_configuration, a_fraction_has_a_unit)
{
    EXPECT_U64_EQ(3 * MEND_GIB / 2, read_ok("limit:1.5GiB").limit_bytes);
    EXPECT_U64_EQ(768, read_ok("address_reservation:0.75KiB").address_reservation_bytes);
    EXPECT_U64_EQ(3 * MEND_MIB / 2, read_ok("limit:01.500000000MiB").limit_bytes);
    /* Up to whole bytes. */
    EXPECT_U64_EQ(107374183, read_ok("address_reservation:0.1GiB").address_reservation_bytes);
    EXPECT_U64_EQ(1, read_ok("limit:0.000000001KiB").limit_bytes);
    EXPECT_U64_EQ(UINT64_C(1) << 60, read_ok("limit:1048576.0TiB").limit_bytes);
    EXPECT_NONE_OF("limit", "at most 9 digits after its point", "1.5", "1.0", "1.GiB", ".5GiB",
                   "1.5.5GiB", "1.0000000001GiB", "1048576.1TiB");
}

MEND_TEST(pool_configuration, a_limit_may_be_a_part_of_the_device)
{
    mend_pool_config config = read_ok("limit:90%");
    EXPECT_FIELDS(config, limit_percent, 90, limit_bytes, 0);
    EXPECT_INT_EQ(1, read_ok("limit:1%").limit_percent);
    EXPECT_INT_EQ(100, read_ok("limit:100%").limit_percent);
    EXPECT_NONE_OF("limit", "90%", "0%", "101%", "1.5%", "%");
    EXPECT_NONE_OF("address_reservation", "GiB", "90%");
    EXPECT_REFUSED("limit:90%,limit:1GiB", "limit");
}

MEND_TEST(pool_configuration, a_limit_of_either_kind_that_the_program_set_stays)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.limit_bytes = 7;
    EXPECT_OK(mend_configuration_read("limit:90%", &config));
    EXPECT_FIELDS(config, limit_bytes, 7, limit_percent, 0);
    config.limit_bytes = 0;
    config.limit_percent = 50;
    EXPECT_OK(mend_configuration_read("limit:1GiB", &config));
    EXPECT_FIELDS(config, limit_bytes, 0, limit_percent, 50);
    EXPECT_OK(mend_configuration_read("limit:90%", &config));
    EXPECT_INT_EQ(50, config.limit_percent);
}

MEND_TEST(pool_configuration, growth_is_a_percentage_from_100_on)
{
    EXPECT_INT_EQ(250, read_ok("growth:250%").growth_percent);
    EXPECT_INT_EQ(100, read_ok("growth:100%").growth_percent);
    EXPECT_INT_EQ(10000, read_ok("growth:10000%").growth_percent);
    EXPECT_NONE_OF("growth", "100% to 10000%", "99%", "10001%", "250", "%");
}

MEND_TEST(pool_configuration, switches_are_on_or_off)
{
    EXPECT_INT_EQ(1, read_ok("allow_stream_waits:on").allow_stream_waits);
    EXPECT_INT_EQ(-1, read_ok("allow_stream_waits:off").allow_stream_waits);
    EXPECT_INT_EQ(1, read_ok("detect_destroyed_streams:on").detect_destroyed_streams);
    EXPECT_INT_EQ(-1, read_ok("detect_destroyed_streams:off").detect_destroyed_streams);
    /* The program says no, whatever the environment says. */
    const mend_pool_config no = {.plain = -1,
                                 .rdma = -1,
                                 .shareable = -1,
                                 .capture_checks = -1,
                                 .allow_stream_waits = -1,
                                 .allow_context_fences = -1,
                                 .detect_destroyed_streams = -1};
    mend_pool_config config = no;
    EXPECT_OK(mend_configuration_read(
        "plain:on,rdma:on,shareable:on,capture_checks:on,allow_stream_waits:on,"
        "allow_context_fences:on,detect_destroyed_streams:on",
        &config));
    EXPECT_TRUE(are_same(&no, &config));
    EXPECT_NONE_OF("detect_destroyed_streams", "on or off", "yes", "1", "ON", "", "onn", "o");
}

MEND_TEST(pool_configuration, observers_are_a_list_and_what_follows_is_another_item)
{
    static const struct {
        const char *text;
        bool top;
        int checks;
        const char *snapshots;
        const char *rest;
    } lists[] = {
        {"", false, 0, "", ""},
        {"top", true, 0, "", ""},
        {"poison,rdma:on", false, MEND_CHECK_POISON, "", ",rdma:on"},
        {"guard,/tmp/a+b,top,poison", true, 3, "/tmp/a+b", ""},
        {"poison,poison", false, MEND_CHECK_POISON, "", ",poison"},
        {"/a,/b", false, 0, "/a", ",/b"},
        {"top,", true, 0, "", ","},
        {"tops", false, 0, "", "tops"},
        {"held", false, 0, "", "held"},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        mend_observed observed;
        const size_t length = mend_configuration_read_observe(lists[i].text, &observed);
        EXPECT_STR_EQ(lists[i].rest, lists[i].text + length);
        EXPECT_INT_EQ(lists[i].top, observed.top);
        EXPECT_INT_EQ(lists[i].checks, observed.checks);
        EXPECT_STR_EQ(lists[i].snapshots, observed.snapshots);
    }
    mend_observed longest;
    char path[MEND_CONFIGURATION_PATH + 1] = "/";
    memset(path + 1, 'a', MEND_CONFIGURATION_PATH - 1);
    EXPECT_U64_EQ(0, mend_configuration_read_observe(path, &longest));
    const mend_pool_config config = read_ok("strategy:2,observe:top,/tmp/a,guard,rdma:off");
    EXPECT_STR_EQ("top,/tmp/a,guard,rdma:off", config.observe);
    EXPECT_INT_EQ(-1, config.rdma);
    EXPECT_NONE_OF("observe", "top, poison, guard and a path", "", "on");
    EXPECT_REFUSED("observe:top,on", "\"on\" has no value");
    EXPECT_REFUSED("observe:top,top", "\"top\" has no value");
}

MEND_TEST(pool_configuration, levels_are_small_numbers_or_names)
{
    EXPECT_INT_EQ(MEND_LOG_DEBUG, read_ok("log_level:debug").log_level);
    EXPECT_INT_EQ(MEND_LOG_INFO, read_ok("log_level:info").log_level);
    EXPECT_INT_EQ(MEND_LOG_WARNING, read_ok("log_level:warning").log_level);
    EXPECT_INT_EQ(-1, read_ok("log_level:off").log_level);
    EXPECT_NONE_OF("log_level", "debug, info, warning or off", "on", "3");
    EXPECT_INT_EQ(0, read_ok("shareable:off").shareable);
    EXPECT_INT_EQ(MEND_SHAREABLE_ON, read_ok("shareable:on").shareable);
    EXPECT_INT_EQ(MEND_SHAREABLE_FABRIC, read_ok("shareable:fabric").shareable);
    EXPECT_INT_EQ(MEND_SHAREABLE_AUTO, read_ok("shareable:auto").shareable);
    EXPECT_NONE_OF("shareable", "off, on, fabric or auto", "2");
    EXPECT_INT_EQ(1, read_ok("strategy:1").strategy);
    EXPECT_INT_EQ(5, read_ok("strategy:5").strategy);
    EXPECT_NONE_OF("strategy", "1 to 5", "0", "6", "4294967297", "tightest", "");
}

MEND_TEST(pool_configuration, peers_are_auto_none_or_numbers)
{
    EXPECT_U64_EQ(0, read_ok("peers:auto").peers);
    EXPECT_U64_EQ(MEND_PEERS_NONE, read_ok("peers:none").peers);
    EXPECT_U64_EQ(1, read_ok("peers:0").peers);
    EXPECT_U64_EQ((UINT64_C(1) << 62) | 4, read_ok("peers:62+2").peers);
    EXPECT_NONE_OF("peers", "auto, none, or numbers of devices", "63", "", "1+", "+1", "1;2",
                   "all");
}

MEND_TEST(pool_configuration, paths_begin_with_a_slash_and_are_not_too_long)
{
    char text[300] = "record:";
    EXPECT_STR_EQ("/a/b,strategy:5", read_ok("record:/a/b,strategy:5").record);
    EXPECT_NONE_OF("record", "", "a/b", "");
    memset(text + 7, '/', MEND_CONFIGURATION_PATH - 1);
    EXPECT_STR_EQ(text + 7, read_ok(text).record);
    text[7 + MEND_CONFIGURATION_PATH - 1] = '/';
    EXPECT_REFUSED(text, "record");
}

MEND_TEST(pool_configuration, every_field_that_the_program_set_stays)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
#define X(key, field, kind, fallback, meaning)                                                     \
    config.field = (__typeof__(config.field))(uintptr_t)1;
    MEND_CONFIGURATION(X)
#undef X
    mend_pool_config before = config;
    EXPECT_OK(
        mend_configuration_read("limit:9,address_reservation:9,allow_stream_waits:off,strategy:5,"
                                "detect_destroyed_streams:off",
                                &config));
    EXPECT_TRUE(are_same(&before, &config));
}

MEND_TEST(pool_configuration, wrong_items_are_refused_for_fields_that_would_stay)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.limit_bytes = 7;
    EXPECT_INVALID(mend_configuration_read("limit:lots", &config));
    EXPECT_INVALID(mend_configuration_read("limit:1,limit:1", &config));
    EXPECT_U64_EQ(7, config.limit_bytes);
}

MEND_TEST(pool_configuration, unknown_keys_are_named_beside_the_known)
{
#define X(key, field, kind, fallback, meaning) " " #key,
    EXPECT_REFUSED("lmit:1", "\"lmit\"", MEND_CONFIGURATION(X) "MEND_CONF");
#undef X
    EXPECT_REFUSED("Limit:1", "\"Limit\"");
    EXPECT_REFUSED("limit_bytes:1", "\"limit_bytes\"");
    EXPECT_REFUSED("lim:1", "\"lim\"");
    EXPECT_REFUSED(":1", "\"\"");
    EXPECT_REFUSED("limit:1GiB,address_reservation:2MiB,strategy:7", "strategy", "\"7\"");
}

MEND_TEST(pool_configuration, items_are_a_key_and_a_value_without_white_space)
{
    EXPECT_REFUSED("limit:1,address_reservation:2,limit:3", "limit", "twice", "\"3\"");
    EXPECT_REFUSED("limit:0,limit:0", "limit", "twice");
    EXPECT_REFUSED("detect_destroyed_streams:off,detect_destroyed_streams:off",
                   "detect_destroyed_streams", "twice");
    EXPECT_REFUSED(",", "empty item", "key:value");
    EXPECT_REFUSED("limit:1,", "empty item");
    EXPECT_REFUSED(",limit:1", "empty item");
    EXPECT_REFUSED("limit:1,,address_reservation:1", "empty item");
    EXPECT_REFUSED("limit", "\"limit\"", "key:value");
    EXPECT_REFUSED("limit=1GiB", "\"limit=1GiB\"", "key:value");
    EXPECT_REFUSED(" ", "white space");
    EXPECT_REFUSED("limit:1, address_reservation:2", "white space", "\" address_reservation:2\"");
    EXPECT_REFUSED("limit: 1", "white space", "\"limit: 1\"");
    EXPECT_REFUSED("limit:1 GiB", "white space");
    EXPECT_REFUSED("limit:1\n", "white space");
    EXPECT_REFUSED("limit\t:1", "white space");
}

MEND_TEST(pool_configuration, other_sizes_are_refused)
{
    EXPECT_NONE_OF("limit", "GiB", "", "1:2", "-1", "+1", "1GB", "1G", "1gib", "1B", "GiB", "0x10",
                   "1e9", "1GiBs", "1Gi", "1048577TiB", "1152921504606846977", "on", "all", "1/2",
                   "50%%", "050.0%", "18446744073709551616", "99999999999999999999999999999");
    EXPECT_REFUSED("address_reservation:64GB",
                   "MEND_CONF: address_reservation is \"64GB\"; it takes a whole number of bytes "
                   "up to 2^60, or a number with "
                   "KiB, MiB, GiB or TiB and at most 9 digits after its point "
                   "(64GiB, 1.5GiB); a size in bytes "
                   "has no fraction"); /* as docs/tuning.md shows it */
}

MEND_TEST(pool_configuration, messages_hold_long_texts)
{
    char text[4096];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    EXPECT_REFUSED(text, "MEND_CONF", "\"xxx", "\" has no value");
    text[100] = ':';
    EXPECT_REFUSED(text, "\"xxx", "rdma peers shareable log");
    memcpy(text, "limit:", 6);
    EXPECT_REFUSED(text, "limit is \"xxx", "TiB");
}
