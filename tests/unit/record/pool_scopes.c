/* Scopes: allocations in them count for a path of names, in every thread. */
#include <pthread.h>
#include <string.h>

#include "base/words.h"
#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/child.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

enum { MOST = 32 };

/* The scope whose path ends with these two names. none: all zeros. */
static mend_scope_info scope_of(mend_world *w, const char *around, const char *name)
{
    mend_scope_info infos[MOST];
    size_t count = 0;
    EXPECT_OK(mend_get_scopes(w->pool, infos, sizeof(*infos), MOST, &count));
    for (size_t i = 0; i < count && i < MOST; i++) {
        const char *outer = "";
        for (size_t j = 0; j < i; j++) {
            outer = infos[j].number == infos[i].around ? infos[j].name : outer;
        }
        if (strcmp(infos[i].name, name) == 0 && strcmp(outer, around) == 0) {
            return infos[i];
        }
    }
    return (mend_scope_info){0};
}

/* A block of the innermost of these scopes. */
static void *alloc_in(mend_world *w, const char *const names[], size_t count, uint64_t size_bytes)
{
    for (size_t i = 0; i < count; i++) {
        EXPECT_OK(mend_scope_push(names[i], 0));
    }
    void *block = kit_alloc(w, size_bytes, NULL);
    for (size_t i = 0; i < count; i++) {
        EXPECT_OK(mend_scope_pop());
    }
    return block;
}
#define ALLOC_IN(size_bytes, ...)                                                                  \
    alloc_in(w, (const char *const[]){__VA_ARGS__},                                                \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), size_bytes)

KIT_TEST(pool_scopes, a_scope_has_what_was_allocated_in_it_and_inside_it)
{
    void *first = ALLOC_IN(100, "step");
    void *second = ALLOC_IN(MEND_MIB, "step", "forward");
    void *outside = kit_alloc(w, 3 * MEND_MIB, NULL);
    mend_scope_info step = scope_of(w, "", "step");
    mend_scope_info forward = scope_of(w, "step", "forward");
    EXPECT_FIELDS(step, live_bytes, MEND_MIB + 512, own_live_bytes, 512, own_live_blocks, 1,
                  peak_live_bytes, MEND_MIB + 512, allocations, 2, around, 0);
    EXPECT_FIELDS(forward, live_bytes, MEND_MIB, own_live_bytes, MEND_MIB, own_live_blocks, 1,
                  around, step.number, pool_peak_bytes, MEND_MIB + 512);
    EXPECT_U64_EQ(forward.number, kit_info(w, second).scope);
    EXPECT_U64_EQ(0, kit_info(w, outside).scope);
    EXPECT_OK(mend_reset_peak_stats(w->pool)); /* live blocks inside it are its peak, too */
    kit_free(w, second, NULL);
    kit_free(w, first, NULL);
    step = scope_of(w, "", "step");
    EXPECT_FIELDS(step, live_bytes, 0, own_live_bytes, 0, own_live_blocks, 0, peak_live_bytes,
                  MEND_MIB + 512, allocations, 2);
    EXPECT_OK(mend_reset_peak_stats(w->pool));
    EXPECT_FIELDS(scope_of(w, "", "step"), peak_live_bytes, 0, pool_peak_bytes, 0,
                  pool_reserved_bytes, 0);
    ALLOC_IN(MEND_MIB, "step"); /* the same again, by a block from the front cache */
    EXPECT_FIELDS(scope_of(w, "", "step"), number, step.number, own_live_bytes, MEND_MIB,
                  pool_peak_bytes, 4 * MEND_MIB, allocations, 3);
    void *plain = kit_alloc_with(w, 8 * MEND_MIB, NULL, .plain = 1);
    ALLOC_IN(512, "step");
    EXPECT_STATS(w, reserved_bytes, scope_of(w, "", "step").pool_reserved_bytes);
    kit_free(w, plain, NULL);
}

KIT_TEST(pool_scopes, pages_of_ranges_count)
{
    mend_range *range = NULL;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    const mend_range_options *tagged = KIT_OPTIONS(mend_range_options, .tag = 3);
    EXPECT_OK(mend_range_create(w->pool, 64 * MEND_MIB, tagged, &range));
    EXPECT_OK(mend_range_get_info(range, &info));
    EXPECT_OK(mend_scope_push("cache", 0));
    EXPECT_OK(mend_range_commit(range, 0, info.page_bytes, NULL));
    EXPECT_U64_EQ(3, kit_info(w, info.base).tag);
    KIT_THREAD(.sleep_tag = 7); /* the thread's other mark is no obstacle */
    EXPECT_OK(mend_range_commit(range, info.page_bytes, info.page_bytes, NULL));
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_scope_pop());
    EXPECT_FIELDS(scope_of(w, "", "cache"), own_live_bytes, 2 * info.page_bytes, own_live_blocks,
                  2);
    EXPECT_OK(mend_range_decommit(range, 0, info.page_bytes, NULL));
    EXPECT_FIELDS(scope_of(w, "", "cache"), live_bytes, info.page_bytes, own_live_blocks, 1);
    EXPECT_OK(mend_range_destroy(range, NULL));
    EXPECT_FIELDS(scope_of(w, "", "cache"), live_bytes, 0, peak_live_bytes, 2 * info.page_bytes);
}

KIT_TEST(pool_scopes, each_push_needs_one_pop)
{
    char longest[200];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    EXPECT_ERROR(INVALID_ARGUMENT, mend_scope_pop());
    EXPECT_OK(mend_scope_push("a", 0));
    EXPECT_ERROR(INVALID_ARGUMENT, mend_scope_push("", 0)); /* and all in it counts for "a" */
    EXPECT_ERROR(INVALID_ARGUMENT, mend_scope_push("b", 2));
    EXPECT_ERROR(INVALID_ARGUMENT, mend_scope_push(NULL, 0));
    EXPECT_OK(mend_scope_push("b", 0));
    kit_alloc(w, 512, NULL);
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(mend_scope_pop());
    }
    ALLOC_IN(1024, longest);
    longest[100] = '\0'; /* the cut part of a name makes no other scope */
    ALLOC_IN(1024, longest);
    EXPECT_OK(mend_scope_pop());
    EXPECT_ERROR(INVALID_ARGUMENT, mend_scope_pop());
    longest[63] = '\0';
    EXPECT_FIELDS(scope_of(w, "", "a"), own_live_bytes, 512, live_bytes, 2560);
    EXPECT_FIELDS(scope_of(w, "a", longest), own_live_bytes, 2048);
    EXPECT_U64_EQ(0, scope_of(w, "a", "b").number);
}

/* A slash in a name divides no path. And where there are more names than are shown, the outermost
 * are not. */
MEND_TEST(pool_scopes, a_path_is_cut_off_where_its_text_ends)
{
    static const char whole[] =
        ".../x\\/\\\\/x\\/\\\\/x\\/\\\\/x\\/\\\\/x\\/\\\\/x\\/\\\\/x\\/\\\\/x\\/\\\\";
    char text[sizeof(whole) + 8] = "";
    for (int i = 0; i <= MEND_SCOPE_PATH_NAMES; i++) {
        EXPECT_OK(mend_scope_push("x/\\", 0));
    }
    for (size_t bytes = 1; bytes <= sizeof(whole); bytes++) {
        memset(text, '#', sizeof(text) - 1);
        mend_scopes_write_path(mend_process_own_marks.scope, text, bytes);
        EXPECT_TRUE(strncmp(whole, text, bytes - 1) == 0 && strlen(text) == bytes - 1);
        EXPECT_U64_EQ(sizeof(text) - 1 - bytes, strspn(text + bytes, "#"));
    }
    while (mend_scope_pop() == MEND_OK) {
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct other_thread {
    mend_world *w;
    const char *scope; /* NULL: none of its own */
    void *block;
} other_thread;

static void *allocate(void *context)
{
    other_thread *other = context;
    if (other->scope != NULL) {
        EXPECT_OK(mend_scope_push(other->scope, 0));
    }
    other->block = kit_alloc(other->w, MEND_MIB, NULL);
    if (other->scope != NULL) {
        EXPECT_OK(mend_scope_pop());
    }
    return NULL;
}

static void *in_other_thread(mend_world *w, const char *scope)
{
    other_thread other = {w, scope, NULL};
    pthread_t thread;
    EXPECT_TRUE(pthread_create(&thread, NULL, allocate, &other) == 0);
    EXPECT_TRUE(pthread_join(thread, NULL) == 0);
    return other.block;
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* The thread itself has its scopes, and shares one that it begins. */
static bool shares_only_its_own(KIT_UNUSED void *unused)
{
    bool is_right = mend_scope_push("inside", 0) == MEND_OK && mend_process_common_scope == 0 &&
                    mend_scope_push("mine", MEND_SCOPE_OF_ALL_THREADS) == MEND_OK &&
                    mend_process_common_scope != 0;
    for (int i = 0; i < 3; i++) {
        is_right = is_right && mend_scope_pop() == MEND_OK && mend_process_common_scope == 0;
    }
    return is_right;
}

MEND_TEST(pool_scopes, a_child_of_fork_does_not_share_what_its_parent_began)
{
    EXPECT_OK(mend_scope_push("shared", MEND_SCOPE_OF_ALL_THREADS));
    EXPECT_TRUE(mend_test_holds_in_a_child(shares_only_its_own, NULL));
    EXPECT_FALSE(mend_process_common_scope == 0);
    EXPECT_OK(mend_scope_pop());
    EXPECT_TRUE(mend_process_common_scope == 0);
}

/* Of the scope, of the one that its thread begins inside it, and of outside memory. */
KIT_TEST(pool_scopes, threads_without_a_scope_may_have_that_of_another)
{
    EXPECT_OK(mend_scope_push("alone", 0));
    in_other_thread(w, NULL);
    EXPECT_OK(mend_scope_push("step", MEND_SCOPE_OF_ALL_THREADS));
    void *freed_here = in_other_thread(w, NULL);
    in_other_thread(w, "own");
    EXPECT_OK(mend_scope_push("backward", 0));
    in_other_thread(w, NULL);
    EXPECT_OK(mend_scope_pop());
    EXPECT_OK(mend_scope_push("twice", MEND_SCOPE_OF_ALL_THREADS));
    EXPECT_OK(mend_scope_pop());
    in_other_thread(w, NULL);
    EXPECT_OK(mend_scope_pop());
    in_other_thread(w, NULL); /* "alone" is of its own thread again */
    kit_free(w, freed_here, NULL);
    EXPECT_OK(mend_scope_pop());
    EXPECT_FIELDS(scope_of(w, "", "alone"), own_live_blocks, 0, live_bytes, 2 * MEND_MIB,
                  allocations, 3);
    EXPECT_FIELDS(scope_of(w, "alone", "step"), own_live_blocks, 1, live_bytes, 2 * MEND_MIB);
    EXPECT_FIELDS(scope_of(w, "step", "backward"), own_live_blocks, 1);
    EXPECT_FIELDS(scope_of(w, "", "own"), own_live_blocks, 1);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The pool reserves its counters with the first block. The names are there before. */
KIT_TEST(pool_scopes, want_of_host_memory_counts_a_block_for_the_scope_around)
{
    void *block = kit_alloc(w, 512, NULL); /* all else that a block of this size needs is there */
    kit_free(w, block, NULL);
    EXPECT_OK(mend_scope_push("a", 0));
    EXPECT_OK(mend_test_starve(0, UINT64_MAX, mend_alloc(w->pool, 512, NULL, &block)));
    EXPECT_TRUE(mend_test_failed_host_allocations() > 0);
    EXPECT_OK(mend_scope_pop());
    EXPECT_U64_EQ(0, kit_info(w, block).scope);
    kit_free(w, block, NULL);
    EXPECT_U64_EQ(0, scope_of(w, "", "a").number);
}
