/*
 * Peer pools: several on one device, where one holds idle chunks and another needs the memory.
 * It gets what it lacks, and the others keep the rest.
 */
#include <semaphore.h>

#include "mend/mend_sleep.h"
#include "tests/support/kit.h"

enum { MOST = 3 };

/* A device of 8 MiB with pools in chunks of 1 MiB; the first is the world's. */
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
        EXPECT_OK(mend_audit(f->pools[i]));
        EXPECT_OK(mend_pool_destroy(f->pools[i]));
    }
    mend_world_check(&f->w); /* the ledger is that of one pool again */
    kit_close(&f->w);
}

static uint64_t reserved(mend_pool *pool)
{
    return kit_stats(pool).reserved_bytes;
}

/* What each pool holds, and how often the first has asked another. */
static void expect_reserved(const family *f, const uint64_t mib[], uint64_t trims)
{
    for (int i = 0; i < f->count; i++) {
        EXPECT_U64_EQ(mib[i] * MEND_MIB, reserved(f->pools[i]));
    }
    EXPECT_U64_EQ(trims, kit_stats(f->pools[0]).peer_pool_trims);
}

static void expect_none(mend_pool *pool, uint64_t size_bytes)
{
    void *pointer = NULL;
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(pool, size_bytes, NULL, &pointer));
}

/* Leaves so many idle MiB in a pool. */
static void leave_idle(mend_pool *pool, uint64_t mib)
{
    EXPECT_OK(mend_free(pool, kit_alloc_from(pool, mib * MEND_MIB, NULL), NULL));
    EXPECT_U64_EQ(mib * MEND_MIB, reserved(pool));
}

#define FAMILY_TEST(suite, name, opening)                                                          \
    KIT_RIG_TEST(suite, name, family, opening, close_family(r))

/* Leaves so many MiB free, and work that uses them for so long. */
static void leave_in_flight(family *f, mend_pool *pool, uint64_t mib, uint64_t duration_ns)
{
    mend_stream stream = f->w.streams[0];
    void *pointer = kit_alloc_from(pool, mib * MEND_MIB, stream);
    kit_launch(&f->w, stream, MEND_SIM_WORK_TOUCH, pointer, mib * MEND_MIB, 0, duration_ns);
    EXPECT_OK(mend_free(pool, pointer, stream));
}

/* Not even with all that the peer pool has free would it be served. */
FAMILY_TEST(pool_peer_pools, nobody_waits_for_a_hopeless_request, open_family(r, 2))
{
    kit_alloc_from(r->pools[1], 3 * MEND_MIB, NULL);
    leave_in_flight(r, r->pools[1], 4, 1000);
    expect_none(r->pools[0], 6 * MEND_MIB);
    EXPECT_U64_EQ(0, mend_sim_now_ns(w->sim));
    EXPECT_U64_EQ(7 * MEND_MIB, reserved(r->pools[1]));
    EXPECT_OK(mend_forget_stream(r->pools[1], S(0)));
}

/* Neither the free memory of the pool is enough, nor that of the peer pool. Some of it may lie
 * beside a live block. */
static void expect_served_by_both(family *f, mend_pool *pool, mend_pool *peer, mend_stream stream,
                                  uint64_t beside_bytes)
{
    mend_stream own = f->w.streams[1];
    const uint64_t size_bytes = MEND_MIB + beside_bytes;
    const uint64_t beside = beside_bytes > 0 ? MEND_MIB - beside_bytes : 0;
    leave_in_flight(f, peer, 1, 1000);
    void *live = beside > 0 ? kit_alloc_from(pool, beside, own) : NULL;
    void *pointer = kit_alloc_from(pool, size_bytes, own);
    kit_use(&f->w, own, pointer, size_bytes, 1000);
    EXPECT_OK(mend_free(pool, pointer, own));
    mend_sim_set_foreign_bytes(f->w.sim, 0, 7 * MEND_MIB - reserved(pool));
    EXPECT_OK(mend_free(pool, kit_alloc_from(pool, size_bytes + MEND_MIB, stream), stream));
    EXPECT_U64_EQ(1000, mend_sim_now_ns(f->w.sim));
    mend_sim_set_foreign_bytes(f->w.sim, 0, 0);
    EXPECT_OK(mend_free(pool, live, own));
    EXPECT_OK(mend_forget_stream(peer, f->w.streams[0]));
}

FAMILY_TEST(pool_peer_pools, own_work_and_theirs_are_waited_for_together, open_family(r, 2))
{
    expect_served_by_both(r, r->pools[0], r->pools[1], MEND_NO_STREAM, 0);
}

/* Less of the device is free than a pool is to leave: that is lacking, too. */
FAMILY_TEST(pool_peer_pools, what_is_to_stay_free_is_asked_for_too, open_family(r, 1))
{
    mend_pool *careful = NULL;
    w->pool_config.keep_free_bytes = 3 * MEND_MIB;
    EXPECT_OK(mend_world_create_pool(w, &careful));
    void *block = kit_alloc_from(careful, 2 * MEND_MIB, NULL);
    EXPECT_OK(mend_sleep(careful, NULL, NULL));
    void *in_use = kit_alloc(w, 7 * MEND_MIB, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_wake(careful, NULL, 0, NULL));
    kit_expect_words("lacks 4.00 MiB"); /* of 2, and of 3 that are to stay free */
    kit_free(w, in_use, NULL);
    EXPECT_OK(mend_wake(careful, NULL, 0, NULL));
    expect_reserved(r, (const uint64_t[]){3}, 0);
    EXPECT_OK(mend_free(careful, block, NULL));
    EXPECT_OK(mend_trim(careful, 0, MEND_TRIM_WAIT, NULL));
    leave_idle(w->pool, 7);
    block = kit_alloc_from(careful, 2 * MEND_MIB, NULL);
    expect_reserved(r, (const uint64_t[]){3}, 0);
    EXPECT_OK(mend_free(careful, block, NULL));
    EXPECT_OK(mend_pool_destroy(careful));
}
