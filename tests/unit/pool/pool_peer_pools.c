/*
 * Peer pools: several on one device, where one holds idle chunks and another needs the memory. It
 * gets the missing bytes, and the others keep the rest.
 */
#include <string.h>

#include "mend/mend_frameworks.h"
#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"

enum { MOST = 3 };

/* A device of 8 MiB with pools in chunks of 1 MiB. The first is the world's. */
typedef struct family {
    mend_world w;
    mend_pool *pools[MOST];
    int count;
    int waits;
} family;

static bool open_family(family *f, int count)
{
    *f = (family){.count = count};
    if (!kit_open_with(&f->w, 8 * MEND_MIB, NULL)) {
        return false;
    }
    f->pools[0] = f->w.pool;
    for (int i = 1; i < count; i++) {
        EXPECT_OK(mend_world_create_pool(&f->w, &f->pools[i]));
    }
    return !mend_test_has_failed();
}

static void close_family(family *f)
{
    for (int i = 1; i < f->count; i++) {
        EXPECT_OK(mend_validate(f->pools[i]));
        EXPECT_OK(mend_pool_destroy(f->pools[i]));
    }
    mend_world_check(&f->w); /* the ledger is of one pool again */
    kit_close(&f->w);
}

static uint64_t reserved(mend_pool *pool)
{
    return kit_stats(pool).reserved_bytes;
}

/* The memory of each pool, and how often the first has asked another. */
static void expect_reserved(const family *f, const uint64_t mib[], uint64_t trims)
{
    for (int i = 0; i < f->count; i++) {
        const mend_stats is = kit_stats(f->pools[i]);
        EXPECT_U64_EQ(mib[i] * MEND_MIB, is.reserved_bytes);
        EXPECT_TRUE(i == 0 || mib[i] > 0 || is.address_bytes == 0); /* given back, too */
    }
    EXPECT_U64_EQ(trims, kit_stats(f->pools[0]).peer_pool_trims);
}

/* Leaves so many idle MiB in a pool. */
static void leave_idle(mend_pool *pool, uint64_t mib)
{
    EXPECT_OK(mend_free(pool, kit_alloc_from(pool, mib * MEND_MIB, NULL), NULL));
    EXPECT_U64_EQ(mib * MEND_MIB, reserved(pool));
}

#define FAMILY_TEST(suite, name, opening)                                                          \
    KIT_RIG_TEST(suite, name, family, opening, close_family(r))
#define FAMILY_EACH(suite, name, variable, most, pools)                                            \
    KIT_RIG_EACH(suite, name, int, variable, most, family, r, open_family(r, pools),               \
                 close_family(r))

/* Leaves so many bytes free, and work that uses them for so long. */
static void leave_in_flight(family *f, mend_pool *pool, uint64_t bytes, uint64_t duration_ns)
{
    mend_stream stream = f->w.streams[0];
    void *pointer = kit_alloc_from(pool, bytes, stream);
    kit_launch(&f->w, stream, MEND_SIM_WORK_TOUCH, pointer, bytes, 0, duration_ns);
    EXPECT_OK(mend_free(pool, pointer, stream));
}

/* As under a limit of the process that the driver does not tell. */
FAMILY_TEST(pool_peer_pools, a_driver_that_refuses_what_it_counts_as_free_tells_no_lack,
            open_family(r, 2))
{
    leave_idle(r->pools[1], 3);
    EXPECT_OK(mend_history_start(r->pools[1], 1));
    kit_fail(w, "create", 0, 3, MEND_DRIVER_OUT_OF_MEMORY);
    kit_alloc(w, 4 * MEND_MIB, NULL);
    kit_expect_event(r->pools[1], MEND_EVENT_TRIM, MEND_CAUSE_PEER, 3 * MEND_MIB);
    expect_reserved(r, (uint64_t[MOST]){4, 0}, 1);
}

/* The requested and the released bytes. */
typedef mend_result request(mend_pool *pool, uint64_t size_bytes, mend_stream stream);

static mend_result ask_for(mend_pool *pool, uint64_t size_bytes, mend_stream stream, int one_chunk)
{
    void *block = NULL;
    const mend_alloc_options *options = KIT_OPTIONS(mend_alloc_options, .in_one_chunk = one_chunk);
    const mend_result result = mend_alloc_with(pool, size_bytes, stream, options, &block);
    EXPECT_OK(mend_free(pool, block, stream));
    return result;
}

static mend_result ask_for_block(mend_pool *pool, uint64_t size_bytes, mend_stream stream)
{
    return ask_for(pool, size_bytes, stream, 0);
}

static mend_result ask_for_one_chunk(mend_pool *pool, uint64_t size_bytes, mend_stream stream)
{
    return ask_for(pool, size_bytes, stream, 1);
}

/* In pages of 1 MiB. */
static mend_range *create_range(mend_pool *pool, uint64_t size_bytes)
{
    mend_range *range = NULL;
    EXPECT_OK(mend_range_create(pool, size_bytes,
                                KIT_OPTIONS(mend_range_options, .page_bytes = MEND_MIB), &range));
    return range;
}

static mend_result ask_for_pages(mend_pool *pool, uint64_t size_bytes, mend_stream stream)
{
    mend_range *range = create_range(pool, size_bytes);
    const mend_result result = mend_range_commit(range, 0, size_bytes, stream);
    EXPECT_OK(mend_range_destroy(range, stream));
    return result;
}

/* Neither the free memory of the pool nor of the peer pool is enough. Some of it may lie beside a
 * live block. */
static void expect_served_by_both(family *f, mend_pool *pool, mend_pool *peer, mend_stream stream,
                                  uint64_t beside_bytes, request *ask)
{
    mend_stream own = f->w.streams[1];
    const uint64_t size_bytes = MEND_MIB + beside_bytes;
    const uint64_t beside = beside_bytes > 0 ? MEND_MIB - beside_bytes : 0;
    leave_in_flight(f, peer, MEND_MIB, 1000);
    void *live = beside > 0 ? kit_alloc_from(pool, beside, own) : NULL;
    void *pointer = kit_alloc_from(pool, size_bytes, own);
    kit_use(&f->w, own, pointer, size_bytes, 1000);
    EXPECT_OK(mend_free(pool, pointer, own));
    mend_sim_set_foreign_bytes(f->w.sim, 0, 7 * MEND_MIB - reserved(pool));
    EXPECT_OK(ask(pool, size_bytes + MEND_MIB, stream));
    EXPECT_U64_EQ(1000, mend_sim_now_ns(f->w.sim));
    mend_sim_set_foreign_bytes(f->w.sim, 0, 0);
    EXPECT_OK(mend_free(pool, live, own));
    EXPECT_OK(mend_unregister_stream(peer, f->w.streams[0]));
}

FAMILY_EACH(pool_peer_pools, own_work_and_theirs_are_waited_for_together, kind, 3, 2)
{
    request *const kinds[] = {ask_for_block, ask_for_one_chunk, ask_for_pages};
    expect_served_by_both(r, r->pools[0], r->pools[1], MEND_NO_STREAM, 0, kinds[kind]);
}

FAMILY_TEST(pool_peer_pools, a_graph_pool_has_both_too, open_family(r, 2))
{
    mend_graph_pool *graph_pool = NULL;
    EXPECT_OK(mend_graph_pool_create(w->pool, &graph_pool));
    EXPECT_OK(mend_graph_pool_begin(graph_pool, S(2)));
    expect_served_by_both(r, w->pool, r->pools[1], S(2), 0, ask_for_block);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, S(2)));
}

KIT_PRESSURE(free_one)
{
    void **block = context;
    const bool is_there = *block != NULL;
    EXPECT_OK(is_there ? mend_free(pool, *block, NULL) : MEND_OK);
    *block = NULL;
    return is_there;
}

/* Idle memory of any pool comes first, and memory that a callback frees. */
FAMILY_TEST(pool_peer_pools, work_is_waited_for_at_last, open_family(r, 3))
{
    void *own = kit_alloc(w, 2 * MEND_MIB, NULL);
    leave_in_flight(r, r->pools[1], 3 * MEND_MIB, 1000);
    leave_idle(r->pools[2], 3);
    EXPECT_OK(mend_add_pressure_callback(w->pool, free_one, &own));
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_TRUE(own != NULL);
    kit_alloc(w, 2 * MEND_MIB, NULL);
    EXPECT_TRUE(own == NULL);
    EXPECT_U64_EQ(0, mend_sim_now_ns(w->sim));
    EXPECT_OK(mend_remove_pressure_callback(w->pool, free_one, &own));
    kit_alloc(w, 3 * MEND_MIB, NULL);
    EXPECT_U64_EQ(1000, mend_sim_now_ns(w->sim));
    EXPECT_OK(mend_unregister_stream(r->pools[1], S(0)));
}

static void *use_memory(void *pool)
{
    EXPECT_OK(mend_free(pool, kit_alloc_from(pool, 64 * MEND_KIB, NULL), NULL));
    return NULL;
}

static void use_while_it_waits(void *context, const char *call, int is_after)
{
    family *f = context;
    if (!is_after && strcmp(call, "context_synchronize") == 0) {
        mend_test_run_thread(use_memory, f->pools[1]);
        f->waits++;
    }
}

/* The thread would hang. */
FAMILY_TEST(pool_peer_pools, one_that_waits_serves_its_own_threads, open_family(r, 2))
{
    void *freed = kit_alloc_from(r->pools[1], 64 * MEND_KIB, NULL);
    kit_alloc_from(r->pools[1], 64 * MEND_KIB, NULL);
    EXPECT_OK(mend_free(r->pools[1], freed, NULL));
    leave_in_flight(r, r->pools[1], 6 * MEND_MIB, 1000);
    kit_observed(w, use_while_it_waits, r, kit_alloc(w, 4 * MEND_MIB, NULL));
    EXPECT_INT_EQ(1, r->waits);
    EXPECT_OK(mend_unregister_stream(r->pools[1], S(0)));
}

FAMILY_TEST(pool_peer_pools, one_that_fails_to_trim_is_passed_over, open_family(r, 3))
{
    leave_idle(r->pools[1], 3);
    leave_idle(r->pools[2], 4);
    kit_fail(w, "unmap", 0, 0, 999);
    kit_alloc(w, 3 * MEND_MIB, NULL);
    expect_reserved(r, (uint64_t[MOST]){3, 3, 1}, 1); /* both were asked */
}

/* The limit would need the release of only 2 MiB. The device has 1 of 3. */
FAMILY_TEST(pool_peer_pools, all_that_one_chunk_lacks_is_asked_for, open_family(r, 2))
{
    leave_idle(r->pools[1], 5);
    kit_alloc(w, 2 * MEND_MIB, NULL);
    EXPECT_OK(ask_for_one_chunk(w->pool, 3 * MEND_MIB, NULL));
    expect_reserved(r, (uint64_t[MOST]){5, 2}, 1);
}

/* The reservation that a trim left it. */
KIT_SET_TEST(pool_peer_pools, addresses_that_one_keeps_are_asked_for,
             (w->sim_config.address_bytes = 20 * MEND_MIB,
              w->pool_config.address_reservation_bytes = 16 * MEND_MIB))
{
    mend_pool *peer = kit_pool(w);
    leave_idle(peer, 3);
    EXPECT_OK(mend_trim(peer, 0, MEND_TRIM_IDLE, NULL));
    kit_alloc(w, 6 * MEND_MIB, NULL);
    EXPECT_STATS(w, peer_pool_trims, 1);
    EXPECT_OK(mend_pool_destroy(peer));
}

/* None of them knows the capture that the wait of the first one harms: the second waits for
 * nothing, as it might harm another. */
FAMILY_TEST(pool_peer_pools, what_a_capture_refused_one_is_not_tried_by_another, open_family(r, 2))
{
    mend_sim_graph *graph = NULL;
    void *block = NULL;
    w->violations_meant = 1;
    kit_fail(w, "context_record", 0, UINT64_MAX, MEND_DRIVER_NOT_SUPPORTED);
    for (int i = 0; i < 2; i++) {
        void *freed = kit_alloc_from(r->pools[i], 4 * MEND_MIB, S(0));
        kit_use(w, S(0), freed, 4 * MEND_MIB, 1000);
        EXPECT_OK(mend_free(r->pools[i], freed, MEND_NO_STREAM));
    }
    EXPECT_OK(mend_sim_begin_capture(w->sim, S(1), MEND_SIM_CAPTURE_RELAXED));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 4 * MEND_MIB, S(2), &block));
    EXPECT_LEDGER(w, violations, 1);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(w->sim, S(1), &graph));
    EXPECT_OK(mend_alloc(w->pool, 4 * MEND_MIB, S(2), &block));
    EXPECT_OK(mend_free(w->pool, block, S(2)));
    mend_sim_clear_faults(w->sim);
}

/* The asked pool does not know the stream: the asking one does, or a third. */
FAMILY_EACH(pool_peer_pools, a_capture_that_one_of_them_knows_stays_whole, i, 2, 3)
{
    mend_world *w = &r->w;
    mend_pool *knows = r->pools[2 * i];
    void *block = NULL;
    EXPECT_OK(mend_free(knows, kit_alloc_from(knows, 512, S(1)), S(1)));
    mend_test_place(r->pools[1], &(mend_test_sizes){.unfenced_bytes = MEND_MIB});
    void *freed = kit_alloc_from(r->pools[1], 5 * MEND_MIB, S(0));
    kit_use(w, S(0), freed, 5 * MEND_MIB, 1000);
    EXPECT_OK(mend_free(r->pools[1], freed, MEND_NO_STREAM));
    kit_begin_capture(w, S(1));
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, 4 * MEND_MIB, S(2), &block));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, S(1)));
    EXPECT_U64_EQ(0, mend_sim_now_ns(w->sim));
    EXPECT_OK(mend_alloc(w->pool, 4 * MEND_MIB, S(2), &block));
    EXPECT_OK(mend_free(w->pool, block, S(2)));
    EXPECT_OK(mend_unregister_stream(r->pools[1], S(0)));
    EXPECT_OK(mend_unregister_stream(r->pools[2], S(1)));
}

/* The driver refuses one of the questions before a peer would wait: there may be a capture. */
FAMILY_EACH(pool_peer_pools, none_waits_where_another_cannot_tell_of_captures, i, 3, 3)
{
    enum { EARLIER_QUESTIONS = 13 };
    mend_world *w = &r->w;
    void *block = NULL;
    leave_in_flight(r, r->pools[1], 5 * MEND_MIB, 1000);
    kit_fail(w, "stream_get_info", EARLIER_QUESTIONS + (uint64_t)i, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(r->pools[2], 4 * MEND_MIB, S(2), &block));
    EXPECT_U64_EQ(0, mend_sim_now_ns(w->sim));
    EXPECT_OK(mend_unregister_stream(r->pools[1], S(0)));
    EXPECT_OK(mend_unregister_stream(r->pools[2], S(2)));
}

/* The limit does not fit both, but free memory stays, because the device misses memory of
 * others. */
FAMILY_TEST(pool_peer_pools, a_wake_has_a_peer_pool_give_what_it_lacks, open_family(r, 1))
{
    w->pool_config.min_free_bytes = 4 * MEND_MIB;
    w->pool_config.limit_bytes = 4 * MEND_MIB;
    mend_pool *careful = kit_pool(w);
    void *block = kit_alloc_from(careful, 2 * MEND_MIB, NULL);
    EXPECT_OK(mend_sleep(careful, NULL, NULL));
    EXPECT_OK(ask_for_one_chunk(careful, 3 * MEND_MIB, NULL));
    leave_idle(w->pool, 5);
    EXPECT_OK(mend_wake(careful, NULL, 0, NULL));
    EXPECT_OK(mend_free(careful, block, NULL));
    EXPECT_OK(mend_pool_destroy(careful));
}

/* The device lacks memory, too, but the limit would refuse what a peer gives. */
FAMILY_TEST(pool_peer_pools, a_wake_at_the_limit_asks_no_peer, open_family(r, 2))
{
    KIT_THREAD(.sleep_tag = 1);
    kit_alloc(w, 3 * MEND_MIB, NULL);
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_OK(mend_set_limit(w->pool, 4 * MEND_MIB));
    void *awake = kit_alloc(w, 3 * MEND_MIB, NULL);
    leave_idle(r->pools[1], 2);
    mend_sim_set_foreign_bytes(w->sim, 0, 3 * MEND_MIB);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(w->pool, NULL, 0, NULL));
    expect_reserved(r, (uint64_t[]){3, 2}, 0);
    mend_sim_set_foreign_bytes(w->sim, 0, 0);
    kit_free(w, awake, NULL);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}
