/* Owners of memory: sums by scope, tag and size, and suspected leaks. tests/support/regions.c
 * compares them with the regions of every pool that a test checks. */
#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "record/record.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

enum { MOST = 8, KIB = 1024 };

/* Fills the list from the pool. Returns how many there are. */
static size_t list(const mend_world *w, mend_owner owners[MOST])
{
    size_t count = 0;
    memset(owners, 0, MOST * sizeof(*owners));
    EXPECT_OK(mend_get_owners(w->pool, 0, owners, sizeof(*owners), MOST, &count));
    return count;
}

static void *alloc_as(const mend_world *w, const char *scope, uint64_t tag, uint64_t size_bytes)
{
    void *block = NULL;
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .tag = tag);
    EXPECT_OK(scope != NULL ? mend_scope_push(scope, 0) : MEND_OK);
    EXPECT_OK(mend_alloc_with(w->pool, size_bytes, S(0), options, &block));
    EXPECT_OK(scope != NULL ? mend_scope_pop() : MEND_OK);
    return block;
}

KIT_TEST(pool_owners, what_has_no_tag_counts_for_its_sleep_tag)
{
    mend_owner h[MOST];
    mend_history_event events[64];
    uint64_t cursor = 0;
    size_t count = 0;
    mend_range *range = NULL;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    EXPECT_OK(mend_history_start(w->pool, 100));
    KIT_THREAD(.sleep_tag = 5);
    void *block = alloc_as(w, NULL, 0, 4 * MEND_MIB);
    alloc_as(w, NULL, 7, MEND_MIB);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_range_create(w->pool, 64 * MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_get_info(range, &info));
    for (uint64_t i = 0; i < 3; i++) { /* neighbors of two tags */
        KIT_THREAD(.sleep_tag = i < 2 ? 6 : 5);
        EXPECT_OK(mend_range_commit(range, i * info.page_bytes, info.page_bytes, S(0)));
    }
    EXPECT_STATS(w, pages_committed, 3, pages_decommitted, 0, history_lost, 0);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 5, "weights"));
    EXPECT_OK(mend_get_owners(w->pool, MEND_BY_TAG, h, sizeof(*h), MOST, &count));
    ASSERT_U64_EQ(3, count);
    EXPECT_FIELDS(h[0], tag, 5, live_bytes, 4 * MEND_MIB + info.page_bytes, live_blocks, 2);
    EXPECT_STR_EQ("weights", h[0].name);
    EXPECT_FIELDS(h[1], tag, 7, live_bytes, MEND_MIB);
    EXPECT_FIELDS(h[2], tag, 6, live_bytes, 2 * info.page_bytes);
    kit_free(w, block, S(0));
    EXPECT_OK(mend_range_destroy(range, S(0)));
    EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(*events), 64, &count));
    uint64_t bytes[MEND_EVENT_KINDS][8] = {{0}};
    for (size_t i = 0; i < count; i++) {
        bytes[events[i].kind][events[i].tag % 8] += events[i].size_bytes;
        EXPECT_TRUE(events[i].kind != MEND_EVENT_DECOMMIT || events[i].stream == S(0));
    }
    EXPECT_U64_EQ(4 * MEND_MIB, bytes[MEND_EVENT_ALLOC][5]);
    EXPECT_U64_EQ(4 * MEND_MIB, bytes[MEND_EVENT_FREE][5]);
    EXPECT_U64_EQ(MEND_MIB, bytes[MEND_EVENT_ALLOC][7]);
    for (mend_event_kind kind = MEND_EVENT_COMMIT; kind <= MEND_EVENT_DECOMMIT; kind++) {
        EXPECT_U64_EQ(info.page_bytes, bytes[kind][5]);
        EXPECT_U64_EQ(2 * info.page_bytes, bytes[kind][6]);
    }
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 5, ""));
}

static uint32_t one_stack(KIT_UNUSED void *context, uint64_t size_bytes)
{
    return size_bytes > 0;
}

KIT_TEST(pool_owners, a_long_name_has_its_line_whole_and_ends_with_a_character)
{
    static const char line[] = "a_long_name_of_a_file.py:411 step > linear (functional.py:12)";
    mend_owner h[MOST];
    char two_bytes_each[64] = "x";
    for (int i = 0; i < 20; i++) {
        memcpy(two_bytes_each + strlen(two_bytes_each), "\xc3\xa9", 3);
    }
    EXPECT_OK(mend_set_name(MEND_NAME_STACK, 1, line));
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 7, two_bytes_each + 1));
    EXPECT_OK(mend_stack_set_source(one_stack, NULL, 1));
    alloc_as(w, two_bytes_each, 7, MEND_MIB);
    EXPECT_OK(mend_stack_set_source(NULL, NULL, 0));
    EXPECT_U64_EQ(1, list(w, h));
    const size_t scope_bytes = strcspn(h[0].name, ",");
    EXPECT_U64_EQ(39, scope_bytes); /* of 40, and no space for the tag */
    EXPECT_STR_EQ(line, h[0].name + scope_bytes + strlen(", "));
    EXPECT_OK(mend_set_name(MEND_NAME_STACK, 1, ""));
    alloc_as(w, two_bytes_each, 7, 2 * MEND_MIB);
    EXPECT_U64_EQ(2, list(w, h));
    EXPECT_TRUE(strncmp(two_bytes_each, h[0].name, 41) == 0);
    EXPECT_U64_EQ(41 + 2 + 40, strlen(h[0].name));
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 7, ""));
}

KIT_TEST(pool_owners, a_name_is_given_as_often_as_somebody_wants_and_kept_once)
{
    char text[] = "ab\0.........";
    EXPECT_U64_EQ(1, mend_words_join(text, 6, "cdefgh"));
    EXPECT_STR_EQ("ab, c", text);
    char name[200];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    EXPECT_INVALID(mend_set_name(MEND_NAME_TAG, 1, NULL));
    EXPECT_INVALID(mend_set_name((mend_name_kind)0, 1, "one"));
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 77, name));
    const uint32_t count = mend_names_count(&mend_process_own_names);
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 77, name));
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 78, ""));
    EXPECT_U64_EQ(count, mend_names_count(&mend_process_own_names));
    EXPECT_U64_EQ(MEND_NAME_BYTES - 1, strlen(mend_names_find(MEND_NAME_TAG, 77)));
    EXPECT_TRUE(mend_names_find(MEND_NAME_STREAM, 77) == NULL);
    uint64_t beside = 79; /* in the same place of the table */
    while (mend_names_bucket(MEND_NAME_TAG, beside) != mend_names_bucket(MEND_NAME_TAG, 77)) {
        beside++;
    }
    EXPECT_TRUE(mend_names_find(MEND_NAME_TAG, beside) == NULL);
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, beside, "b"));
    EXPECT_TRUE(mend_names_find(MEND_NAME_TAG, 77) != NULL);
    /* A character is kept as a whole, or not. */
    memcpy(name + MEND_NAME_BYTES - 2, "\xc3\xa9", 2);
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 77, name));
    EXPECT_U64_EQ(MEND_NAME_BYTES - 2, strlen(mend_names_find(MEND_NAME_TAG, 77)));
    EXPECT_OK(mend_set_name(MEND_NAME_TAG, 77, ""));
    memcpy(name + MEND_SCOPE_NAME_BYTES - 2, "\xc3\xa9", 2);
    EXPECT_OK(mend_scope_push(name, 0));
    const mend_name_entry *scope = mend_scopes_entry(mend_process_own_marks.scope);
    EXPECT_U64_EQ(MEND_SCOPE_NAME_BYTES - 2, strlen(scope->name));
    EXPECT_OK(mend_scope_pop());
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Says 1, 2, 3, ..., and allocates from the pool, if there is one. */
typedef struct numbering {
    uint32_t said;
    uint64_t size_bytes; /* last */
    mend_world *w;
} numbering;

static uint32_t say(void *context, uint64_t size_bytes)
{
    numbering *n = context;
    mend_world *w = n->w;
    n->size_bytes = size_bytes;
    if (w != NULL) {
        kit_free(w, kit_alloc(w, 3 * KIB, S(0)), S(0));
    }
    return ++n->said;
}

static uint32_t stack_of(const mend_world *w, const void *block)
{
    static mend_region regions[64];
    size_t count = 0;
    EXPECT_OK(mend_get_regions(w->pool, regions, sizeof(*regions), 64, &count));
    for (size_t i = 0; i < count; i++) {
        if (regions[i].address == block && regions[i].kind != MEND_REGION_FREE) {
            return regions[i].stack;
        }
    }
    return UINT32_MAX;
}

KIT_TEST(pool_owners, each_large_block_and_a_sample_of_small_ones_have_stacks)
{
    numbering n = {0};
    mend_owner h[MOST];
    mend_history_event events[MOST];
    uint64_t cursor = 0;
    size_t count = 0;
    void *blocks[9];
    EXPECT_INVALID(mend_stack_set_source(say, &n, 0));
    EXPECT_OK(mend_history_start(w->pool, 100));
    mend_process_are_marks_set = false; /* as in a program that has set none before */
    EXPECT_OK(mend_stack_set_source(say, &n, 4 * KIB));
    EXPECT_OK(mend_set_name(MEND_NAME_STACK, 1, "train.py:41 step"));
    blocks[0] = kit_alloc(w, 4 * KIB, S(0));
    for (int i = 1; i < 9; i++) {
        blocks[i] = alloc_as(w, NULL, i == 4 ? 9 : 0, KIB); /* of four one */
    }
    EXPECT_U64_EQ(3, n.said);
    EXPECT_U64_EQ(KIB, n.size_bytes);
    for (int i = 0; i < 9; i++) {
        EXPECT_U64_EQ(i % 4 == 0 ? 1 + (unsigned)i / 4 : 0, stack_of(w, blocks[i]));
    }
    kit_free(w, blocks[0], S(0));
    blocks[0] = kit_alloc(w, 4 * KIB, S(0)); /* a hit of the front cache */
    EXPECT_U64_EQ(1, mend_world_stats(w).cache_hits);
    EXPECT_U64_EQ(4, stack_of(w, blocks[0]));
    EXPECT_OK(mend_set_name(MEND_NAME_STACK, 4, "train.py:44 step"));
    EXPECT_U64_EQ(4, list(w, h));
    EXPECT_STR_EQ("blocks of 1.00 KiB", h[0].name);
    EXPECT_STR_EQ("train.py:44 step", h[1].name);
    EXPECT_FIELDS(h[1], stack, 4, live_bytes, 4 * KIB);
    EXPECT_OK(mend_get_owners(w->pool, MEND_BY_TAG, h, sizeof(*h), MOST, &count));
    EXPECT_U64_EQ(3, count);
    EXPECT_OK(mend_get_owners(w->pool, MEND_BY_ANY, h, sizeof(*h), MOST, &count));
    EXPECT_STR_EQ("tag 9, stack 2, stream 10000", h[2].name); /* by numbers */
    EXPECT_OK(mend_stack_set_source(NULL, NULL, 0));
    EXPECT_U64_EQ(0, stack_of(w, kit_alloc(w, 4 * KIB, S(0))));
    do {
        EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(*events), MOST, &count));
        for (size_t i = 0; i < count; i++) {
            EXPECT_TRUE(events[i].address != blocks[0] || events[i].kind == MEND_EVENT_MAP ||
                        events[i].stack == 1 || events[i].stack == 4);
        }
    } while (count > 0);
}

/* Allocations of a source have none, nor does a failed call leave one. */
KIT_TEST_IN(pool_owners, a_stack_is_that_of_its_own_block, kit_open_with(w, 16 * MEND_MIB, NULL))
{
    numbering n = {.w = w};
    void *block = NULL;
    mend_range *range = NULL;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    EXPECT_OK(mend_stack_set_source(say, &n, 1));
    block = kit_alloc(w, 2 * MEND_MIB, S(0));
    EXPECT_U64_EQ(1, stack_of(w, block));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 17 * MEND_MIB, S(0), &block));
    EXPECT_U64_EQ(2, n.said);
    EXPECT_OK(mend_range_create(w->pool, 8 * MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_get_info(range, &info));
    EXPECT_OK(mend_range_commit(range, 0, info.page_bytes, S(0)));
    EXPECT_U64_EQ(0, stack_of(w, info.base));
    n.said = 1000000;
    n.w = NULL;
    EXPECT_U64_EQ(65535, stack_of(w, kit_alloc(w, MEND_MIB, S(0))));
    EXPECT_OK(mend_stack_set_source(NULL, NULL, 0));
    EXPECT_OK(mend_range_destroy(range, S(0)));
}

/* ---- suspects -------------------------------------------------------------------------------- */

/* A step allocates and frees some blocks, and keeps one if `keeps` says so. */
typedef struct story {
    const char *name;
    unsigned steps;
    unsigned begins, ends; /* the steps in which it keeps a block */
    unsigned each;         /* ... every so many steps */
    unsigned cycle;        /* after so many all that is kept is freed. 0: never */
    bool frees_nothing;    /* these blocks are kept, too */
    bool is_suspect;
    int temporaries;
    int weights; /* blocks that stay */
} story;

static const story programs[] = {
    {"leaks", 100, 0, 100, 1, 0, false, true, 4, 0},
    {"leaks slowly", 198, 0, 198, 3, 0, false, true, 1, 0}, /* frees three of four blocks */
    {"leaks from the first third on", 120, 30, 120, 1, 0, false, true, 4, 0},
    {"steady", 100, 0, 0, 1, 0, false, false, 4, 0},
    {"fills up at first", 100, 0, 12, 1, 0, false, false, 4, 0},
    {"fills up late", 100, 70, 100, 1, 0, false, false, 4, 0},
    {"accumulates, and frees all of it", 100, 0, 100, 1, 10, false, false, 4, 0},
    {"is in its second step", 100, 0, 100, 1, 51, false, false, 4, 0},
    {"builds up, and has freed nothing", 500, 0, 500, 1, 0, true, false, 0, 0},
    {"is short", 20, 0, 20, 1, 0, false, false, 4, 0},
    {"is one pass", 200, 0, 200, 1, 0, false, false, 1, 0},
    {"is one pass through a large model", 200, 0, 200, 7, 0, false, false, 1, 90},
    {"leaks beside a large model", 200, 0, 200, 16, 0, false, true, 1, 90},
    {"keeps graphs", 384, 0, 384, 1, 0, false, true, 1, 0},
};
enum { PROGRAMS = sizeof(programs) / sizeof(*programs), KEPT = 512 };

static void run(mend_world *w, const story *p)
{
    static void *kept[KEPT];
    size_t count = 0;
    for (int i = 0; i < p->weights; i++) {
        alloc_as(w, "weights", 0, 512 * KIB);
    }
    for (unsigned step = 0; step < p->steps; step++) {
        void *blocks[4];
        for (int i = 0; i < p->temporaries; i++) {
            blocks[i] = alloc_as(w, "temporary", 0, 64 * KIB);
        }
        if (step >= p->begins && step < p->ends && step % p->each == 0) {
            kept[count++] = alloc_as(w, "cache", 0, 128 * KIB);
        }
        for (int i = 0; i < p->temporaries && !p->frees_nothing; i++) {
            kit_free(w, blocks[i], S(0));
        }
        if (p->cycle != 0 && step % p->cycle == p->cycle - 1) {
            kit_free_row(w, kept, count, S(0));
            count = 0;
        }
    }
}

KIT_EACH(pool_owners, suspects_have_grown_and_never_came_back, size_t, n, PROGRAMS,
         kit_open_default(w))
{
    mend_owner h[MOST];
    run(w, &programs[n]);
    const size_t count = list(w, h);
    uint64_t suspects = 0;
    for (size_t i = 0; i < count; i++) {
        suspects += h[i].growth_bytes > 0;
        EXPECT_TRUE(h[i].growth_bytes == 0 || strcmp(h[i].name, "cache") == 0);
        EXPECT_TRUE(h[i].growth_bytes <= h[i].live_bytes);
    }
    MEND_TEST_CHECK(suspects == programs[n].is_suspect, (void)0, "%s: %d suspects",
                    programs[n].name, (int)suspects);
}

KIT_TEST_IN(pool_owners, out_of_memory_names_the_largest_and_the_suspect,
            kit_open_with(w, 16 * MEND_MIB, NULL))
{
    void *block = NULL;
    mend_error error = MEND_ERROR_INIT;
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 17 * MEND_MIB, S(0), &block));
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_TRUE(error.oom_report->owners[0] == NULL && error.oom_report->suspect == NULL);
    alloc_as(w, "small", 0, 512);
    run(w, &programs[0]);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 12 * MEND_MIB, S(0), &block));
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_TRUE(strstr(error.message, " Possible leak: cache +9.") != NULL);
    EXPECT_TRUE(strstr(error.message,
                       "; largest owners: cache (12.50 MiB in 100 blocks, up to 495 ") != NULL);
    const mend_oom_report *oom_report = error.oom_report;
    EXPECT_FIELDS(*oom_report->owners[0], live_blocks, 100, live_bytes, 100 * 128 * KIB);
    EXPECT_U64_EQ(oom_report->owners[0]->growth_bytes, oom_report->suspect->growth_bytes);
    EXPECT_STR_EQ("cache", oom_report->suspect->name);
    EXPECT_STR_EQ("small", oom_report->owners[1]->name);
    EXPECT_TRUE(oom_report->owners[2] == NULL);
    EXPECT_INVALID(mend_alloc(w->pool, 0, S(0), &block));
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_TRUE(error.oom_report == NULL);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Tags as numbers of requests: of so many the rest counts by size. */
KIT_TEST(pool_owners, there_are_at_most_1024_beside_the_classes_of_size)
{
    static mend_owner h[MEND_OWNERS_MOST];
    size_t count = 0;
    uint64_t bytes = 0;
    uint64_t others = 0;
    for (uint64_t i = 1; i <= 1501; i++) { /* the last one has an owner */
        const uint64_t n = i <= 1500 ? i : 1;
        const uint64_t tag = n * n * UINT64_C(0x2545F4914F6CDD1D); /* many fall on one slot */
        alloc_as(w, NULL, tag, i <= 1024 ? 512 : 3 * KIB);
        if (i == 1000) {
            EXPECT_OK(mend_get_owners(w->pool, 0, NULL, sizeof(*h), 0, &count));
            EXPECT_U64_EQ(1000, count);
        }
    }
    EXPECT_OK(mend_get_owners(w->pool, 0, h, sizeof(*h), MEND_OWNERS_MOST, &count));
    for (size_t i = 0; i < count; i++) {
        bytes += h[i].live_bytes;
        others += h[i].tag == 0 ? h[i].live_blocks : 0;
        EXPECT_TRUE(i == 0 || h[i].live_bytes <= h[i - 1].live_bytes);
    }
    EXPECT_U64_EQ(mend_world_stats(w).live_bytes, bytes);
    EXPECT_U64_EQ(1024 + 1, count);
    EXPECT_U64_EQ(1500 - 1024, others);
    EXPECT_STR_EQ("other blocks up to 512 bytes", h[0].name);
}

/* So many that some fall on one slot. */
KIT_TEST(pool_owners, they_differ_in_scope_stack_size_or_stream_alone)
{
    enum { OF_EACH = 400, SCOPES_BETWEEN = 1292, STREAM_BETWEEN = 1449 * 64 };
    mend_stream stream = NULL;
    numbering n = {0};
    size_t count = 0;
    for (unsigned i = 0; i < SCOPES_BETWEEN + OF_EACH; i++) {
        char name[16];
        snprintf(name, sizeof(name), "s%u", i);
        EXPECT_OK(mend_scope_push(name, 0));
        if (i < OF_EACH || i >= SCOPES_BETWEEN) {
            kit_alloc(w, 512 * (i < OF_EACH ? i + 1 : i == SCOPES_BETWEEN ? 904 : 1), S(0));
        }
        EXPECT_OK(mend_scope_pop());
    }
    EXPECT_OK(mend_get_scopes(w->pool, NULL, sizeof(mend_scope_info), 0, &count));
    EXPECT_U64_EQ(2 * OF_EACH, count);
    EXPECT_OK(mend_get_owners(w->pool, MEND_BY_SCOPE, NULL, sizeof(mend_owner), 0, &count));
    EXPECT_U64_EQ(2 * OF_EACH, count);
    EXPECT_OK(mend_stack_set_source(say, &n, 1));
    for (unsigned i = 1; i <= OF_EACH; i++) {
        n.said = i * i % 65521;
        kit_alloc(w, 512, S(0));
    }
    EXPECT_OK(mend_stack_set_source(NULL, NULL, 0));
    EXPECT_OK(mend_get_owners(w->pool, MEND_BY_STACK, NULL, sizeof(mend_owner), 0, &count));
    EXPECT_U64_EQ(2 * OF_EACH + 1, count); /* and of each size what has none */
    while ((uintptr_t)stream < (uintptr_t)S(0) + STREAM_BETWEEN) {
        stream = kit_stream(w);
    }
    kit_alloc(w, 512, stream);
    EXPECT_OK(mend_get_owners(w->pool, MEND_BY_STREAM, NULL, sizeof(mend_owner), 0, &count));
    EXPECT_U64_EQ(2, count);
}

KIT_TEST(pool_owners, a_list_takes_what_there_is_room_for)
{
    mend_owner h[MOST] = {{.live_bytes = 1}};
    size_t count = 77;
    void *lowest = alloc_as(w, NULL, 1, MEND_MIB);
    alloc_as(w, NULL, 2, 2 * MEND_MIB);
    EXPECT_OK(mend_get_owners(w->pool, 0, NULL, sizeof(*h), 0, &count));
    EXPECT_U64_EQ(2, count);
    EXPECT_OK(mend_get_owners(w->pool, 0, h, offsetof(mend_owner, live_blocks), 1, &count));
    EXPECT_FIELDS(h[0], tag, 2, live_bytes, 2 * MEND_MIB, live_blocks, 0);
    count = 77;
    EXPECT_ERROR(
        OUT_OF_HOST_MEMORY,
        mend_test_starve(0, UINT64_MAX, mend_get_owners(w->pool, 0, h, sizeof(*h), 1, &count)));
    EXPECT_ERROR(
        OUT_OF_HOST_MEMORY,
        mend_test_starve(1, UINT64_MAX, mend_get_owners(w->pool, 0, h, sizeof(*h), 1, &count)));
    EXPECT_INVALID(mend_get_owners(NULL, 0, h, sizeof(*h), 1, &count));
    EXPECT_INVALID(mend_get_owners(w->pool, 0, NULL, sizeof(*h), 1, &count));
    EXPECT_INVALID(mend_get_owners(w->pool, 0, h, sizeof(*h), 1, NULL));
    EXPECT_INVALID(mend_get_owners(w->pool, 0, h, 3, 1, &count));
    EXPECT_INVALID(mend_get_owners(w->pool, MEND_BY_ANY + 1, h, sizeof(*h), 1, &count));
    EXPECT_U64_EQ(77, count);
    EXPECT_FIELDS(h[0], live_bytes, 2 * MEND_MIB);
    kit_alloc(w, 512, S(0));
    alloc_as(w, NULL, 4, 2 * MEND_MIB);
    EXPECT_OK(mend_get_owners(w->pool, 0, h, sizeof(*h), SIZE_MAX / 2, &count));
    EXPECT_TRUE(h[0].tag == 2 && h[1].tag == 4); /* of equal ones the older one is first */
    kit_free(w, lowest, S(0));
    alloc_as(w, NULL, 4, MEND_MIB); /* the newest is met last */
    EXPECT_TRUE(list(w, h) == 3 && h[1].tag == 2 && h[1].stack == 0);
}

/* It rose in half of the stretches, all of them the first. */
MEND_TEST(pool_owners, what_grew_and_then_stayed_is_no_suspect)
{
    uint64_t least_bytes[MEND_GROWTH_STRETCHES];
    for (uint64_t i = 0; i < MEND_GROWTH_STRETCHES; i++) {
        least_bytes[i] = i * MEND_MIB;
    }
    EXPECT_U64_EQ(19 * MEND_MIB, mend_growth_judge(least_bytes, 24 * MEND_MIB));
    EXPECT_U64_EQ(19 * MEND_MIB, mend_growth_judge(least_bytes, 3800 * MEND_MIB));
    EXPECT_U64_EQ(0, mend_growth_judge(least_bytes, 3801 * MEND_MIB)); /* below 0.5 % */
    least_bytes[14] = (4 * 13 - 19) * MEND_MIB / 4; /* a fall by a quarter of it */
    EXPECT_U64_EQ(19 * MEND_MIB, mend_growth_judge(least_bytes, 24 * MEND_MIB));
    least_bytes[14]--;
    EXPECT_U64_EQ(0, mend_growth_judge(least_bytes, 24 * MEND_MIB));
    for (uint64_t i = 14; i < MEND_GROWTH_STRETCHES; i++) {
        least_bytes[i] = 14 * MEND_MIB;
    }
    EXPECT_U64_EQ(0, mend_growth_judge(least_bytes, 24 * MEND_MIB));
    for (uint64_t i = 0; i < MEND_GROWTH_STRETCHES; i++) {
        least_bytes[i] = i / 6 * MEND_MIB; /* in few steps */
    }
    EXPECT_U64_EQ(0, mend_growth_judge(least_bytes, 24 * MEND_MIB));
}

/* The least steps that there are, over chunks with one block, with many, with none and asleep,
 * and a block in none. */
KIT_TEST(pool_owners, a_sum_in_steps_is_that_of_all_at_once)
{
    const mend_heap *heap = &w->pool->heap;
    void *blocks[40];
    mend_range *range = NULL;
    kit_alloc_row(w, blocks, 40, 100 * KIB, S(0));
    alloc_as(w, "step", 7, 5 * MEND_MIB);
    KIT_THREAD(.sleep_tag = 3);
    alloc_as(w, NULL, 0, 100 * KIB);
    void *beside = alloc_as(w, NULL, 0, 100 * KIB);
    alloc_as(w, NULL, 0, 100 * KIB);
    KIT_THREAD(.plain = 1);
    void *passed = alloc_as(w, "plain", 8, 7 * MEND_MIB);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_range_create(w->pool, 4 * MEND_MIB, NULL, &range));
    EXPECT_OK(mend_range_commit(range, 0, MEND_MIB, S(0)));
    kit_use(w, S(1), alloc_as(w, NULL, 0, 3 * MEND_MIB), 3 * MEND_MIB, 1000);
    for (int i = 0; i < 40; i += 3) {
        kit_free(w, blocks[i], i % 2 == 0 ? S(0) : MEND_NO_STREAM);
    }
    kit_free(w, beside, S(0)); /* free memory sleeps, too */
    const mend_sleep_rule rule = {3, MEND_BACKUP_HOST};
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .rules = &rule, .rule_count = 1),
                         NULL));
    mend_heap_lock_to_read(&w->pool->heap);
    mend_live_free free_[2] = {{0}};
    mend_owner largest[2][MOST];
    memset(largest, 0, sizeof(largest));
    for (int in_steps = 0; in_steps < 2; in_steps++) {
        const size_t spans = in_steps ? 1 : SIZE_MAX;
        size_t steps = 1;
        size_t count = 0;
        mend_owner suspect;
        mend_owners_sum *sum = mend_owners_begin(MEND_BY_DEFAULT, &free_[in_steps]);
        ASSERT_TRUE(sum != NULL);
        while (mend_owners_add(sum, heap, spans)) {
            steps++;
        }
        mend_owners_end(sum, heap, largest[in_steps], MOST, &suspect, &count);
        EXPECT_TRUE(count > 3 && (steps > 5) == in_steps);
    }
    mend_heap_unlock_after_read(&w->pool->heap);
    EXPECT_INT_EQ(0, memcmp(&free_[0], &free_[1], sizeof(free_[0])));
    EXPECT_INT_EQ(0, memcmp(largest[0], largest[1], sizeof(largest[0])));
    EXPECT_U64_EQ(7 * MEND_MIB, largest[1][0].live_bytes); /* beside all chunks */
    EXPECT_U64_EQ(mend_world_stats(w).free_bytes,
                  free_[1].whole_bytes + free_[1].beside_bytes + free_[1].streams_bytes +
                      free_[1].no_stream_bytes + free_[1].graphs_bytes);
    kit_free(w, passed, S(0));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}

/* ---- regions --------------------------------------------------------------------------------- */

/* Low pressure: blocks share chunks of 1 MiB. Each check of a world compares the sums of its
 * regions with the statistics (support/regions.h). */
KIT_TEST_IN(pool_regions, waiting_memory_names_the_only_stream_that_it_waits_for,
            kit_open_with(w, 256 * MEND_MIB, NULL))
{
    enum { BLOCKS = 6, LIVE = 4 };
    mend_region r[BLOCKS + 1];
    size_t count = 0;
    void *blocks[BLOCKS];
    const mend_stream ended = kit_stream(w);
    const mend_stream streams[] = {S(0), MEND_NO_STREAM, S(1), ended, S(2), S(0)};
    kit_alloc_row(w, blocks, BLOCKS, 160 * KIB, S(2));
    for (int i = 0; i < BLOCKS; i++) {
        kit_use(w, i == 1 ? S(1) : streams[i], blocks[i], 160 * KIB, 1000);
        EXPECT_OK(i == 5 ? mend_record_stream(w->pool, blocks[i], S(1)) : MEND_OK);
        kit_free(w, i == LIVE ? NULL : blocks[i], streams[i]);
    }
    kit_end_stream(w, ended);
    EXPECT_OK(mend_get_regions(w->pool, r, sizeof(*r), BLOCKS + 1, &count));
    ASSERT_U64_EQ(BLOCKS + 1, count);
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT_PTR_EQ(i % 2 == 0 ? (void *)streams[i] : (void *)MEND_NO_STREAM,
                      (void *)r[i].stream);
    }
}

KIT_TEST_IN(pool_regions, memory_of_two_graph_pools_is_two_regions,
            kit_open_with(w, 256 * MEND_MIB, NULL))
{
    mend_region r[3];
    size_t count = 0;
    mend_graph_pool *graph_pools[2];
    char *blocks[2];
    for (int i = 0; i < 2; i++) {
        graph_pools[i] = kit_begin_graph_pool(w, S(0));
        blocks[i] = kit_alloc(w, 256 * KIB, S(0));
        EXPECT_OK(mend_graph_pool_end(graph_pools[i]));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mend_graph_pool_begin(graph_pools[i], S(0)));
        kit_free(w, blocks[i], S(0));
        EXPECT_OK(mend_graph_pool_end(graph_pools[i]));
    }
    EXPECT_OK(mend_get_regions(w->pool, r, sizeof(*r), 3, &count));
    ASSERT_U64_EQ(3, count);
    mend_region none = {.address = NULL};
    EXPECT_OK(mend_get_regions(w->pool, &none, sizeof(none), 1, &count));
    EXPECT_TRUE(count == 3 && none.address == NULL); /* an array too small stays */
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_TRUE(r[0].graph_pool == graph_pools[0] && r[1].graph_pool == graph_pools[1] &&
                r[2].graph_pool == NULL);
}
