/* mend_stats_prometheus, read by a strict parser of the text format. */
#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kit.h"

enum { TEXT_BYTES = 256 * 1024, NAME_BYTES = 96, LINE_BYTES = 2048 };

static char text[TEXT_BYTES];

typedef struct parser {
    const char *at;
    char metric[NAME_BYTES]; /* whose lines these are */
    bool has_type;
    bool is_counter;
    unsigned metrics, values;
} parser;

static bool take(parser *p, const char *word)
{
    const size_t length = strlen(word);
    const bool is_it = strncmp(p->at, word, length) == 0;
    p->at += is_it ? length : 0;
    return is_it;
}

/* [a-zA-Z_:][a-zA-Z0-9_:]* */
static bool take_name(parser *p, char name[NAME_BYTES])
{
    size_t length = 0;
    while (isalpha((unsigned char)*p->at) || *p->at == '_' || *p->at == ':' ||
           (length > 0 && isdigit((unsigned char)*p->at))) {
        name[length++] = *p->at++;
        if (length == NAME_BYTES) {
            return false;
        }
    }
    name[length] = '\0';
    return length > 0;
}

/* A quoted text in which backslash, quote and end of line are escaped, and all is UTF-8. */
static bool take_value(parser *p)
{
    unsigned behind = 0; /* bytes of the character that follow */
    if (!take(p, "\"")) {
        return false;
    }
    for (; *p->at != '"' || behind > 0; p->at++) {
        const unsigned char c = (unsigned char)*p->at;
        if (behind > 0 ? (c & 0xc0) != 0x80 : c == '\0' || c == '\n' || (c & 0xc0) == 0x80) {
            return false;
        }
        behind = behind > 0 ? behind - 1 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
        if (c == '\\' && strchr("\\\"n", *++p->at) == NULL) {
            return false;
        }
    }
    return take(p, "\"");
}

static bool take_labels(parser *p)
{
    char name[NAME_BYTES];
    bool is_good = take(p, "{");
    do {
        is_good = is_good && take_name(p, name) && take(p, "=") && take_value(p);
    } while (is_good && take(p, ","));
    return is_good && take(p, "} ");
}

static bool ends_in_total(const char *name)
{
    const size_t length = strlen(name);
    return length > 6 && strcmp(name + length - 6, "_total") == 0;
}

/* A line of help opens a metric that has had none before; its type follows, then its values. */
static bool take_line(parser *p)
{
    char name[NAME_BYTES];
    if (take(p, "# HELP ")) {
        p->has_type = false;
        p->metrics++;
        bool is_good = take_name(p, p->metric) && take(p, " ");
        p->at += strcspn(p->at, "\n");
        return is_good && take(p, "\n");
    }
    if (take(p, "# TYPE ")) {
        const bool is_its = take_name(p, name) && strcmp(name, p->metric) == 0 && !p->has_type;
        p->is_counter = take(p, " counter\n");
        p->has_type = true;
        return is_its && (p->is_counter || take(p, " gauge\n")) &&
               p->is_counter == ends_in_total(name);
    }
    const bool is_value =
        take_name(p, name) && strcmp(name, p->metric) == 0 && p->has_type && take_labels(p);
    char *end = NULL;
    (void)strtoull(p->at, &end, 10);
    const bool is_number = is_value && isdigit((unsigned char)*p->at);
    p->at = end;
    p->values++;
    return is_number && take(p, "\n");
}

/* No series stands there twice. */
static bool is_unique(void)
{
    char line[LINE_BYTES] = "\n";
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        const size_t length = strcspn(at, "\n");
        memcpy(line + 1, at, length);
        line[1 + length] = '\0';
        *(strrchr(line, ' ') + 1) = '\0'; /* without its value */
        if (*at != '#' && strstr(at, line) != NULL) {
            return false;
        }
    }
    return true;
}

static parser parse(const mend_world *w)
{
    size_t length = 0;
    EXPECT_OK(mend_stats_prometheus(w->pool, text, sizeof(text), &length));
    EXPECT_U64_EQ(strlen(text), length);
    parser p = {.at = text};
    while (*p.at != '\0') {
        if (!take_line(&p)) {
            mend_test_fail(__FILE__, __LINE__, "no line of the format: %.100s", p.at);
            break;
        }
    }
    EXPECT_TRUE(is_unique());
    return p;
}

static uint64_t value_of(const char *series)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof(line), "\n%s", series);
    const char *at = strstr(text, line);
    EXPECT_TRUE(at != NULL);
    return at != NULL ? strtoull(strstr(at, "} ") + 2, NULL, 10) : 0;
}

KIT_TEST(pool_prometheus, every_figure_is_there_once_and_the_format_is_kept)
{
    enum { FIGURES = (sizeof(mend_stats) - sizeof(size_t)) / sizeof(uint64_t) };
    const parser empty = parse(w);
    EXPECT_U64_EQ(FIGURES, empty.values);
    void *tagged = NULL;
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .tag = 7);
    kit_free(w, kit_alloc(w, MEND_MIB, S(0)), S(0));
    kit_alloc(w, 3 * MEND_MIB, S(0));
    EXPECT_OK(mend_name(MEND_NAME_TAG, 7, "kv \"cache\""));
    EXPECT_OK(mend_alloc_with(w->pool, 512, S(1), options, &tagged));
    const parser p = parse(w);
    EXPECT_U64_EQ(FIGURES + 1 + 2, p.values);
    EXPECT_TRUE(strstr(text, ",tag=\"7\",name=\"kv \\\"cache\\\"\"} 512\n") != NULL);
    EXPECT_OK(mend_name(MEND_NAME_TAG, 7, ""));
    kit_free(w, tagged, S(1));
    parse(w);
    EXPECT_TRUE(strstr(text, "mend_tag_live_bytes") == NULL);
    EXPECT_U64_EQ(3 * MEND_MIB, value_of("mend_stream_live_bytes{device=\"0\""));
    EXPECT_U64_EQ(3 * MEND_MIB, value_of("mend_live_bytes{device=\"0\",pool=\""));
    EXPECT_U64_EQ(3, value_of("mend_allocations_total{device=\"0\""));
    EXPECT_U64_EQ(1, value_of("mend_live_blocks{device=\"0\""));
}

KIT_TEST(pool_prometheus, names_of_scopes_are_escaped_and_deep_ones_left_out)
{
    static const char *const names[] = {
        "back\\slash",     "\"quoted\"",   "two\nlines", "\xc3\xa9t\xc3\xa9",
        "no \xff\xe9 utf", "cut \xe2\x82", "a/b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        EXPECT_OK(mend_scope_push(names[i], 0));
        kit_alloc(w, MEND_MIB, S(0));
        EXPECT_OK(mend_scope_pop());
    }
    EXPECT_OK(mend_scope_push("a", 0));
    EXPECT_OK(mend_scope_push("b", 0));
    kit_alloc(w, 512, S(0));
    EXPECT_OK(mend_scope_pop());
    EXPECT_OK(mend_scope_pop());
    for (int i = 0; i < 12; i++) {
        EXPECT_OK(mend_scope_push("deep", 0));
        kit_alloc(w, 512, S(0));
    }
    for (int i = 0; i < 12; i++) {
        EXPECT_OK(mend_scope_pop());
    }
    const parser p = parse(w);
    EXPECT_U64_EQ(3 * (7 + 2 + 8), p.values - (p.metrics - 3)); /* the stream's is one, too */
    EXPECT_TRUE(strstr(text, "scope=\"back\\\\\\\\slash\"} 1048576\n") != NULL);
    EXPECT_TRUE(strstr(text, "scope=\"\\\"quoted\\\"\"} 1048576\n") != NULL);
    EXPECT_TRUE(strstr(text, "scope=\"two\\nlines\"} 1048576\n") != NULL);
    EXPECT_TRUE(strstr(text, "scope=\"no \\\\xff\\\\xe9 utf\"} 1048576\n") != NULL);
    EXPECT_TRUE(strstr(text, "scope=\"a\\\\/b\"} 1048576\n") != NULL);
    EXPECT_TRUE(strstr(text, "scope=\"a/b\"} 512\n") != NULL);
    EXPECT_TRUE(strstr(text, "scope=\"deep/deep\"} 5632\n") != NULL); /* with those inside it */
}

KIT_TEST(pool_prometheus, a_text_with_too_little_room_is_not_written)
{
    size_t length = 0;
    size_t again = 0;
    char small[8] = "before";
    EXPECT_OK(mend_stats_prometheus(w->pool, NULL, 0, &length));
    EXPECT_OK(mend_stats_prometheus(w->pool, text, length, &again));
    EXPECT_U64_EQ(length, again);
    EXPECT_OK(mend_stats_prometheus(w->pool, small, sizeof(small), &length));
    EXPECT_STR_EQ("before", small);
    EXPECT_OK(mend_stats_prometheus(w->pool, text, length + 1, &again));
    EXPECT_U64_EQ(strlen(text), again);
    EXPECT_INVALID(mend_stats_prometheus(NULL, text, 1, &length));
    EXPECT_INVALID(mend_stats_prometheus(w->pool, NULL, 1, &length));
    EXPECT_INVALID(mend_stats_prometheus(w->pool, text, 1, NULL));
}

enum { READS = 500 };
static atomic_uint reads;

/* Once amid each read. */
static void *rename_the_tag(void *unused)
{
    for (unsigned i = 0; i < READS; i++) {
        while (atomic_load(&reads) <= i) {
            sched_yield();
        }
        EXPECT_OK(mend_name(MEND_NAME_TAG, 7, i % 2 == 0 ? "x" : "a name that is much longer"));
    }
    return unused;
}

/* The text is measured, and then written: with the same name. */
KIT_TEST(pool_prometheus, a_tag_has_one_name_in_a_text_that_another_thread_names_meanwhile)
{
    pthread_t thread;
    void *block = NULL;
    ASSERT_RESULT(MEND_OK, mend_alloc_with(w->pool, 512, NULL,
                                           KIT_OPTIONS(mend_alloc_options, .tag = 7), &block));
    atomic_store(&reads, 0);
    ASSERT_INT_EQ(0, pthread_create(&thread, NULL, rename_the_tag, NULL));
    for (unsigned i = 0; i < READS; i++) {
        size_t length = 0;
        size_t written = 0;
        EXPECT_OK(mend_stats_prometheus(w->pool, NULL, 0, &length));
        memset(text, '#', length + 64);
        atomic_store(&reads, i + 1);
        EXPECT_OK(mend_stats_prometheus(w->pool, text, length + 1, &written));
        EXPECT_TRUE(written > length || strlen(text) == written);
        EXPECT_TRUE(text[length + 1] == '#');
    }
    pthread_join(thread, NULL);
    EXPECT_OK(mend_free(w->pool, block, NULL));
}
