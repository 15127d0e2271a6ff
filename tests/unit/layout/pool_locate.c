/* Pointers that are not the start of a block: each is distinguished from the others, while blocks
 * come and go and while the driver is busy. */
#include <string.h>

#include "tests/support/kit.h"

enum { MOST_BLOCKS = 200, STEPS = 1500 };

typedef struct block {
    uint64_t address;
    uint64_t size_bytes; /* asked for */
} block;

typedef struct rig {
    mend_world w;
    block blocks[MOST_BLOCKS];
    size_t count;
    block last_freed;
    uint64_t busy_calls; /* of the driver in which all blocks were asked for */
} rig;

static mend_result ask(mend_pool *pool, uint64_t address, uint64_t *base)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    mend_result result = mend_get_block_info(pool, (void *)(uintptr_t)address, &info);
    *base = (uint64_t)(uintptr_t)info.base;
    return result;
}

static void expect_inside(mend_pool *pool, const block *of, uint64_t offset)
{
    uint64_t base = 0;
    EXPECT_RESULT(MEND_OK, ask(pool, of->address + offset, &base));
    EXPECT_U64_EQ(of->address, base);
}

/* Any address of the device that lies in no block is refused, and names none. */
static void expect_as_listed(rig *r, uint64_t address)
{
    uint64_t base = 0;
    const block *of = NULL;
    for (size_t i = 0; i < r->count; i++) {
        uint64_t usable_bytes = mend_align_up(r->blocks[i].size_bytes, 512);
        of = address - r->blocks[i].address < usable_bytes ? &r->blocks[i] : of;
    }
    mend_result result = ask(r->w.pool, address, &base);
    if (of != NULL) {
        EXPECT_RESULT(MEND_OK, result);
        EXPECT_U64_EQ(of->address, base);
    } else {
        EXPECT_TRUE(result == MEND_ERROR_DOUBLE_FREE || result == MEND_ERROR_FOREIGN_POINTER);
    }
}

static void step(rig *r, mend_test_random *random)
{
    static const uint64_t largest_bytes[] = {2000, 64 * MEND_KIB, 3 * MEND_MIB, 12 * MEND_MIB};
    void *pointer = NULL;
    uint64_t size_bytes = 1 + mend_test_random_below(random, largest_bytes[random->state % 4]);
    bool takes = r->count < MOST_BLOCKS && mend_test_random_below(random, 8) < 5;
    if (takes && mend_alloc(r->w.pool, size_bytes, NULL, &pointer) == MEND_OK) {
        r->blocks[r->count++] = (block){(uint64_t)(uintptr_t)pointer, size_bytes};
    } else if (r->count > 0) {
        size_t at = mend_test_random_below(random, r->count);
        pointer = (void *)(uintptr_t)r->blocks[at].address;
        kit_free(&r->w, pointer, NULL);
        r->last_freed = r->blocks[at];
        r->blocks[at] = r->blocks[--r->count];
    }
    if (mend_test_random_below(random, 50) == 0) { /* this thread's requests fail meanwhile */
        EXPECT_INT_EQ(MEND_OK, mend_compact(r->w.pool, NULL, NULL));
    }
}

/* While a driver call that takes long is under way: then runs and chunks are claimed. */
static void ask_meanwhile(void *context, const char *call, int is_after)
{
    static const char long_calls[] = "create unmap set_access release"; /* and map */
    rig *r = context;
    if (is_after || strstr(long_calls, call) == NULL || r->count == 0) {
        return;
    }
    r->busy_calls++;
    for (uint64_t at = 0; at < r->last_freed.size_bytes; at += 1 + r->last_freed.size_bytes / 16) {
        expect_as_listed(r, r->last_freed.address + at);
    }
    for (size_t i = 0; i < r->count; i++) {
        expect_inside(r->w.pool, &r->blocks[i], r->blocks[i].size_bytes - 1);
        expect_inside(r->w.pool, &r->blocks[i], r->blocks[i].size_bytes / 2);
        expect_as_listed(r, r->blocks[i].address + mend_align_up(r->blocks[i].size_bytes, 512));
    }
}

MEND_TEST(pool_locate, any_address_is_that_of_its_block_or_of_none)
{
    static rig r;
    mend_test_random random;
    mend_test_random_init(&random, mend_test_seed());
    r = (rig){0};
    ASSERT_TRUE(kit_open_default(&r.w));
    mend_sim_set_call_observer(r.w.sim, ask_meanwhile, &r);
    for (int i = 0; i < STEPS && !mend_test_has_failed(); i++) {
        step(&r, &random);
        for (int k = 0; k < 8 && r.last_freed.address != 0; k++) {
            uint64_t inside = mend_test_random_below(&random, r.last_freed.size_bytes + 1);
            uint64_t around = mend_test_random_below(&random, 16 * MEND_MIB);
            expect_as_listed(&r, r.last_freed.address + inside);
            expect_as_listed(&r, r.last_freed.address + 8 * MEND_MIB - around);
        }
        for (size_t k = 0; k < r.count; k++) {
            uint64_t offset = mend_test_random_below(&random, r.blocks[k].size_bytes);
            expect_inside(r.w.pool, &r.blocks[k], offset);
        }
    }
    EXPECT_TRUE(r.busy_calls > 0);
    mend_sim_set_call_observer(r.w.sim, NULL, NULL);
    mend_world_check(&r.w);
    kit_close(&r.w);
}
