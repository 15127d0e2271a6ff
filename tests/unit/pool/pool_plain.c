/* A device without virtual memory: the same interface over plain allocations. */
#include <string.h>

#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/support/kit.h"

static void configure(mend_world *w)
{
    w->sim_config.has_no_virtual_memory = 1;
    w->sim_config.content = MEND_SIM_CONTENT_BYTES;
}

static void configure_half(mend_world *w)
{
    configure(w);
    w->pool_config.limit_bytes = 8 * MEND_MIB;
}

/* The pool's own sums hold, the device has the allocations that the pool knows, and no chunk. */
static void expect_sound(mend_world *w)
{
    mend_sim_ledger ledger = mend_world_ledger(w);
    EXPECT_RESULT(MEND_OK, mend_audit(w->pool));
    EXPECT_U64_EQ(0, ledger.violations);
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(w->pool->heap.space.reservation_count, ledger.plain_allocations);
}

static void close_plain(mend_world *w)
{
    expect_sound(w);
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(w->pool));
    mend_sim_ledger ledger = mend_world_ledger(w);
    EXPECT_U64_EQ(0, ledger.plain_allocations);
    EXPECT_U64_EQ(0, ledger.contexts_open);
    mend_sim_destroy(w->sim);
}

static bool open_plain(mend_world *w, void (*how)(mend_world *))
{
    mend_world_init(w);
    w->sim_config.memory_bytes = 16 * MEND_MIB;
    how(w);
    return mend_world_open(w);
}

MEND_TEST(pool_plain, blocks_are_had_and_freed)
{
    mend_world w;
    void *a = NULL;
    void *b = NULL;
    ASSERT_TRUE(open_plain(&w, configure));
    EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 3 * MEND_MIB, NULL, &a));
    EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 700, NULL, &b));
    memset(a, 1, 3 * MEND_MIB);
    memset(b, 2, 700);
    EXPECT_INT_EQ(1, ((unsigned char *)a)[3 * MEND_MIB - 1]);
    expect_sound(&w);
    EXPECT_RESULT(MEND_OK, mend_free(w.pool, a, NULL));
    EXPECT_RESULT(MEND_OK, mend_free(w.pool, b, NULL));
    close_plain(&w);
}

MEND_TEST(pool_plain, memory_goes_back)
{
    mend_world w;
    void *a = NULL;
    uint64_t released = 0;
    ASSERT_TRUE(open_plain(&w, configure));
    EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 9 * MEND_MIB, NULL, &a));
    EXPECT_RESULT(MEND_OK, mend_free(w.pool, a, NULL));
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, &released));
    EXPECT_U64_EQ(9 * MEND_MIB, released);
    EXPECT_U64_EQ(0, mend_world_ledger(&w).plain_allocations);
    close_plain(&w);
}

MEND_TEST(pool_plain, the_limit_holds_for_what_the_driver_gave)
{
    mend_world w;
    void *blocks[64];
    int count = 0;
    ASSERT_TRUE(open_plain(&w, configure_half));
    mend_result result = MEND_OK;
    while (result == MEND_OK && count < 64) {
        result = mend_alloc(w.pool, 512 * MEND_KIB, NULL, &blocks[count]);
        count += result == MEND_OK;
    }
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, result); /* not: out of addresses */
    EXPECT_TRUE(count >= 11);
    mend_sim_ledger ledger = mend_world_ledger(&w);
    EXPECT_TRUE(ledger.plain_bytes <= 8 * MEND_MIB);
    for (int i = 0; i < count; i++) {
        EXPECT_RESULT(MEND_OK, mend_free(w.pool, blocks[i], NULL));
    }
    EXPECT_RESULT(MEND_OK, mend_set_limit(w.pool, 12 * MEND_MIB));
    EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 11 * MEND_MIB, NULL, &blocks[0]));
    close_plain(&w);
}

MEND_TEST(pool_plain, neighbouring_blocks_join)
{
    mend_world w;
    void *blocks[8];
    void *whole = NULL;
    ASSERT_TRUE(open_plain(&w, configure_half));
    EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 6 * MEND_MIB, NULL, &whole));
    EXPECT_RESULT(MEND_OK, mend_free(w.pool, whole, NULL));
    for (int i = 0; i < 6; i++) {
        EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, MEND_MIB, NULL, &blocks[i]));
    }
    for (int i = 0; i < 6; i++) {
        EXPECT_RESULT(MEND_OK, mend_free(w.pool, blocks[i], NULL));
    }
    EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 6 * MEND_MIB, NULL, &whole));
    close_plain(&w);
}

/* What needs virtual memory is refused by name, or does nothing. */
MEND_TEST(pool_plain, what_needs_virtual_memory_is_refused_or_does_nothing)
{
    mend_world w;
    mend_defrag_report report = MEND_DEFRAG_REPORT_INIT;
    void *blocks[32];
    ASSERT_TRUE(open_plain(&w, configure));
    for (int i = 0; i < 32; i++) {
        EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 200 * MEND_KIB, NULL, &blocks[i]));
        memset(blocks[i], i, 200 * MEND_KIB);
    }
    for (int i = 0; i < 32; i += 2) {
        EXPECT_RESULT(MEND_OK, mend_free(w.pool, blocks[i], NULL));
    }
    EXPECT_RESULT(MEND_OK, mend_defrag(w.pool, NULL, &report));
    EXPECT_U64_EQ(0, report.compactions);
    for (int i = 1; i < 32; i += 2) {
        EXPECT_INT_EQ(i, ((unsigned char *)blocks[i])[200 * MEND_KIB - 1]);
    }
    mend_range *range = NULL;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_range_create(w.pool, MEND_GIB, NULL, &range));
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_sleep(w.pool, NULL, NULL));
    mend_pool_config config = w.pool_config;
    config.driver = mend_sim_driver(w.sim);
    config.shareable = 1;
    mend_pool *shareable = NULL;
    EXPECT_RESULT(MEND_ERROR_NOT_SUPPORTED, mend_pool_create(&config, &shareable));
    close_plain(&w);
}

static char warned[256];

static void keep_warning(void *context, mend_log_level level, const char *line)
{
    (void)context;
    if (level == MEND_LOG_WARNING) {
        strncat(warned, line, sizeof(warned) - strlen(warned) - 1);
    }
}

MEND_TEST(pool_plain, the_log_says_so_once_for_each_pool)
{
    mend_world w;
    warned[0] = 0;
    mend_log_set_sink(keep_warning, NULL);
    ASSERT_TRUE(open_plain(&w, configure));
    mend_log_set_sink(NULL, NULL);
    EXPECT_TRUE(strstr(warned, "no virtual memory management") != NULL);
    close_plain(&w);
}

/* ---- at random ------------------------------------------------------------------------------- */

enum { SLOTS = 48, STEPS = 6000, STREAMS = 3 };

typedef struct slot {
    unsigned char *bytes; /* NULL: no block */
    uint64_t size_bytes;
    unsigned char value;
} slot;

static void fill(slot *s, unsigned char value)
{
    s->value = value;
    memset(s->bytes, value, s->size_bytes);
}

static void expect_filled(const slot *s)
{
    EXPECT_INT_EQ(s->value, s->bytes[0]);
    EXPECT_TRUE(memcmp(s->bytes, s->bytes + 1, s->size_bytes - 1) == 0);
}

/* Every byte of every block stays, whatever else is had, freed, trimmed or refused. */
MEND_TEST(pool_plain, bytes_stay_at_random)
{
    mend_world w;
    mend_test_random random;
    slot slots[SLOTS] = {0};
    uint64_t refused = 0;
    ASSERT_TRUE(open_plain(&w, configure_half));
    mend_test_random_init(&random, 20261123);
    for (int step = 0; step < STEPS && !mend_test_has_failed(); step++) {
        slot *s = &slots[mend_test_random_below(&random, SLOTS)];
        if (s->bytes != NULL) {
            expect_filled(s);
            EXPECT_RESULT(MEND_OK, mend_free(w.pool, s->bytes, NULL));
            *s = (slot){0};
            continue;
        }
        void *pointer = NULL;
        uint64_t most = mend_test_random_below(&random, 4) == 0 ? 2 * MEND_MIB : 20 * MEND_KIB;
        uint64_t size_bytes = 2 + mend_test_random_below(&random, most);
        mend_result result = mend_alloc(w.pool, size_bytes, NULL, &pointer);
        refused += result == MEND_ERROR_OUT_OF_MEMORY;
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY);
        if (result == MEND_OK) {
            *s = (slot){pointer, size_bytes, 0};
            fill(s, (unsigned char)step);
        }
        if (step % 500 == 0) {
            EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
            expect_sound(&w);
        }
    }
    EXPECT_TRUE(refused > 0);
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].bytes != NULL) {
            expect_filled(&slots[i]);
            EXPECT_RESULT(MEND_OK, mend_free(w.pool, slots[i].bytes, NULL));
        }
    }
    EXPECT_RESULT(MEND_OK, mend_trim(w.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&w).plain_allocations);
    close_plain(&w);
}

/* ---- what the driver refuses ----------------------------------------------------------------- */

MEND_TEST(pool_plain, nothing_is_left_of_an_allocation_that_is_refused)
{
    mend_world w;
    void *pointer = NULL;
    ASSERT_TRUE(open_plain(&w, configure));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "plain_alloc";
    fault.count = UINT64_MAX;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(w.sim, &fault));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w.pool, 9 * MEND_MIB, NULL, &pointer));
    expect_sound(&w);
    mend_sim_clear_faults(w.sim);
    EXPECT_RESULT(MEND_OK, mend_alloc(w.pool, 9 * MEND_MIB, NULL, &pointer));
    EXPECT_RESULT(MEND_OK, mend_free(w.pool, pointer, NULL));
    mend_sim_set_foreign_bytes(w.sim, 0, 6 * MEND_MIB);
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w.pool, 12 * MEND_MIB, NULL, &pointer));
    close_plain(&w);
}
