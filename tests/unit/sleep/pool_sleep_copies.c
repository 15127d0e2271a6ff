/* Pinned memory of the host that wakes leave for the next sleep. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "map/map.h"
#include "pool/pool.h"
#include "sim/state.h"
#include "sleep/sleep.h"
#include "tests/unit/sleep/sleep_rig.h"

enum { ALL = SLEEP_BLOCKS * SLEEP_BLOCK };

static void cycle(mend_world *w)
{
    EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
    EXPECT_STATS(w, backup_cache_bytes, 0);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_TRUE(mend_world_check(w));
}

/* The memory of each chunk is its own again, so backups can be read after the wake, too. */
SLEEP_TEST(pool_sleep_copies, the_next_sleep_pins_nothing)
{
    static unsigned char read[SLEEP_BLOCK];
    const void *first;
    const void *again;
    cycle(w);
    EXPECT_STATS(w, backup_cache_bytes, ALL, backup_host_bytes, 0);
    EXPECT_OK(mend_read_backup(w->pool, r->blocks[1], SLEEP_BLOCK, NULL, &first));
    EXPECT_OK(mend_read_backup(w->pool, (char *)r->blocks[1] + 700, 1, NULL, &again));
    EXPECT_PTR_EQ((const char *)first + 700, again);
    kit_fail(w, "host_alloc", 0, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY);
    for (int i = 0; i < 3; i++) {
        cycle(w);
        sleep_rig_sleep(r, 2, MEND_BACKUP_HOST); /* a part of them */
        EXPECT_OK(mend_read_backup(w->pool, r->blocks[1], SLEEP_BLOCK, NULL, &again));
        EXPECT_PTR_EQ(first, again);
        sleep_rig_sleep(r, 1, MEND_DISCARD); /* theirs stays where it is */
        EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
        EXPECT_INVALID(mend_read_backup(w->pool, r->blocks[0], SLEEP_BLOCK, read, NULL));
        for (int at = 0; at < SLEEP_BLOCKS; at += 2) {
            kit_write(w, S(0), r->blocks[at], SLEEP_BLOCK);
        }
    }
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_read_backup(w->pool, r->blocks[1], SLEEP_BLOCK, read, NULL));
    EXPECT_TRUE(memcmp(read, r->blocks[1], SLEEP_BLOCK) == 0);
    EXPECT_TRUE(memcmp(read, first, SLEEP_BLOCK) == 0);
}

/* A block at the same address is another one, and a trim frees the old copy. */
SLEEP_TEST(pool_sleep_copies, they_are_of_blocks_that_live)
{
    const void *found;
    char byte;
    cycle(w);
    EXPECT_REFUSAL(NOT_SUPPORTED, "in several places",
                   mend_read_backup(w->pool, r->blocks[0], SLEEP_BLOCK + 1, NULL, &found));
    EXPECT_INVALID(mend_read_backup(w->pool, r->blocks[0], 0, NULL, &found));
    EXPECT_INVALID(mend_read_backup(w->pool, r->blocks[0], 1, NULL, NULL));
    void *const address = r->blocks[0];
    kit_release(w, address, SLEEP_BLOCK, S(0));
    EXPECT_INVALID(mend_read_backup(w->pool, address, 1, NULL, &found));
    r->blocks[0] = kit_alloc_written(w, SLEEP_BLOCK, S(0));
    EXPECT_PTR_EQ(address, r->blocks[0]);
    EXPECT_REFUSAL(INVALID_ARGUMENT, "has no copy",
                   mend_read_backup(w->pool, address, 1, &byte, NULL));
    EXPECT_OK(mend_read_backup(w->pool, r->blocks[1], 1, &byte, NULL));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, backup_cache_bytes, ALL - SLEEP_BLOCK);
    EXPECT_TRUE(mend_world_check(w));
}

SLEEP_TEST(pool_sleep_copies, a_part_that_stays_awake_has_none_of_another_block)
{
    char byte;
    char *const address = kit_alloc_written(w, 2 * MEND_MIB, S(0));
    cycle(w);
    kit_release(w, address, 2 * MEND_MIB, S(0));
    EXPECT_PTR_EQ(address, kit_alloc_written(w, 2 * MEND_MIB, S(0)));
    EXPECT_OK(mend_pin(w->pool, address + MEND_MIB, 512));
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .skip_pinned = 1), NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_OK(mend_read_backup(w->pool, address, 1, &byte, NULL));
    EXPECT_INVALID(mend_read_backup(w->pool, address + MEND_MIB, 1, &byte, NULL));
    EXPECT_OK(mend_unpin(w->pool, address + MEND_MIB, 512));
}

/* Between two blocks of a chunk lies freed memory, which has no backup. */
SLEEP_TEST(pool_sleep_copies, a_backup_behind_a_hole_is_the_blocks_own)
{
    enum { SIZE = 64 * MEND_KIB };
    static unsigned char was[SIZE], is[SIZE];
    char *blocks[3];
    KIT_THREAD(.sleep_tag = 3);
    kit_free(w, kit_alloc(w, 3 * SIZE, S(0)), S(0));
    kit_alloc_written_row(w, (void **)blocks, 3, SIZE, S(0));
    mend_set_alloc_options(NULL, NULL);
    memcpy(was, blocks[2], SIZE);
    kit_release(w, blocks[1], SIZE, S(0));
    sleep_rig_sleep(r, 3, MEND_BACKUP_HOST);
    EXPECT_STATS(w, backup_host_bytes, 2 * SIZE);
    EXPECT_OK(mend_read_backup(w->pool, blocks[2] + 512, SIZE - 512, is, NULL));
    EXPECT_INT_EQ(0, memcmp(was + 512, is, SIZE - 512));
    EXPECT_INVALID(mend_read_backup(w->pool, blocks[1], 1, is, NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, blocks[0], SIZE, S(0));
    kit_release(w, blocks[2], SIZE, S(0));
}

static mend_contents *kept_of(mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    mend_contents *kept = calloc(1, sizeof(*kept) + sizeof(kept->pieces[0]));
    *kept = (mend_contents){.address = address, .host_bytes = size_bytes, .piece_count = 1};
    kept->pieces[0] = (mend_kept_piece){.size_bytes = size_bytes, .backup = MEND_BACKUP_HOST};
    EXPECT_OK(mend_keep_take_room(heap, kept));
    return kept;
}

/* Of a larger chunk that slept later, and in whose place a smaller one had slept, and the reverse.
 */
SLEEP_TEST(pool_sleep_copies, they_replace_all_that_they_overlap)
{
    enum { SIZE = MEND_MIB };
    const uint64_t address = (uint64_t)(uintptr_t)r->blocks[0];
    mend_heap *heap = &w->pool->heap;
    mend_driver_scope scope;
    mend_heap_lock_all(heap);
    EXPECT_OK(mend_driver_scope_open(heap, &scope));
    mend_contents *large = kept_of(heap, address, 2 * SIZE);
    mend_contents *first = kept_of(heap, address, SIZE);
    mend_contents *second = kept_of(heap, address + SIZE, SIZE);
    mend_contents *last = kept_of(heap, address + SIZE, SIZE);
    mend_copies_leave(heap, first, SIZE);
    mend_copies_leave(heap, second, SIZE);
    EXPECT_PTR_EQ(second, mend_copy_at(heap, address + SIZE));
    mend_copies_leave(heap, large, 2 * SIZE);
    EXPECT_PTR_EQ(large, mend_copy_at(heap, address + SIZE));
    mend_copies_leave(heap, last, SIZE);
    EXPECT_PTR_EQ(last, mend_copy_at(heap, address + SIZE));
    EXPECT_PTR_EQ(NULL, mend_copy_at(heap, address));
    mend_copies_shrink(heap, 0);
    mend_driver_scope_close(heap, &scope);
    mend_heap_unlock_all(heap);
}

/* Behind a block with a copy may lie one that never slept, or slept last in a file. */
SLEEP_TEST(pool_sleep_copies, they_end_with_their_blocks)
{
    enum { SMALL = 4 << 10 };
    static unsigned char read[2 * SMALL];
    void *pair[2];
    const void *found;
    kit_alloc_written_row(w, pair, 2, SMALL, S(0));
    EXPECT_PTR_EQ((char *)pair[0] + SMALL, pair[1]);
    cycle(w);
    EXPECT_OK(mend_read_backup(w->pool, pair[0], sizeof(read), read, NULL));
    EXPECT_OK(mend_read_backup(w->pool, pair[0], sizeof(read), NULL, &found));
    kit_release(w, pair[1], SMALL, S(0));
    void *other = kit_alloc_with(w, SMALL, S(0), .tag = 3, .address = pair[1]);
    kit_write(w, S(0), other, SMALL);
    EXPECT_INVALID(mend_read_backup(w->pool, pair[0], sizeof(read), read, NULL));
    EXPECT_OK(mend_read_backup(w->pool, pair[0], SMALL, read, NULL));
    EXPECT_OK(mend_sleep(
        w->pool, SLEEP_TAG(3, MEND_BACKUP_FILE, .others = MEND_BACKUP_HOST, .directory = "/tmp"),
        NULL));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    EXPECT_INVALID(mend_read_backup(w->pool, pair[0], sizeof(read), read, NULL));
    EXPECT_OK(mend_read_backup(w->pool, pair[0], SMALL, read, NULL));
    kit_release(w, pair[0], SMALL, S(0));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, backup_cache_bytes, ALL);
    kit_release(w, other, SMALL, S(0));
}

SLEEP_TEST(pool_sleep_copies, a_limit_says_how_much_wakes_leave)
{
    char byte;
    EXPECT_INVALID(mend_set_backup_cache_limit(NULL, 0));
    EXPECT_OK(mend_set_backup_cache_limit(w->pool, 3 * SLEEP_BLOCK));
    cycle(w);
    EXPECT_STATS(w, backup_cache_bytes, 3 * SLEEP_BLOCK);
    EXPECT_OK(mend_set_backup_cache_limit(w->pool, SLEEP_BLOCK + 1));
    EXPECT_STATS(w, backup_cache_bytes, SLEEP_BLOCK);
    cycle(w);
    EXPECT_OK(mend_set_backup_cache_limit(w->pool, 0));
    EXPECT_LEDGER(w, host_allocations, 0);
    EXPECT_INVALID(mend_read_backup(w->pool, r->blocks[0], 1, &byte, NULL));
    EXPECT_OK(mend_set_backup_cache_limit(w->pool, UINT64_MAX));
}

/* Blocks of other sizes at other addresses take fitting copies, and others go first. */
SLEEP_TEST(pool_sleep_copies, pinned_memory_is_hardly_more_than_what_slept)
{
    enum { OTHERS = 3 };
    static const uint64_t sizes[OTHERS] = {SLEEP_BLOCK * 7 / 8, SLEEP_BLOCK / 4, 2 * SLEEP_BLOCK};
    for (int i = 0; i < OTHERS; i++) {
        void *others[OTHERS];
        EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
        EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
        EXPECT_TRUE(mend_world_ledger(w).host_bytes <= ALL * 5 / 4);
        kit_alloc_written_row(w, others, OTHERS, sizes[i], S(0));
        kit_free_row(w, r->blocks, SLEEP_BLOCKS, S(0));
        if (i == 0) { /* theirs fits */
            kit_fail(w, "host_alloc", 0, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY);
        }
        EXPECT_OK(mend_sleep(w->pool, NULL, NULL));
        mend_sim_clear_faults(w->sim);
        EXPECT_TRUE(mend_world_ledger(w).host_bytes <= ALL * 5 / 4);
        EXPECT_TRUE(mend_world_check(w));
        EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
        kit_release_row(w, others, OTHERS, sizes[i], S(0));
        kit_alloc_written_row(w, r->blocks, SLEEP_BLOCKS, SLEEP_BLOCK, S(0));
    }
}

SLEEP_TEST(pool_sleep_copies, they_go_where_the_host_lacks_memory)
{
    cycle(w);
    void *other = kit_alloc_written(w, SLEEP_BLOCK / 4, S(0));
    kit_fail(w, "host_alloc", 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
    sleep_rig_sleep(r, 1, MEND_BACKUP_HOST); /* of copies */
    EXPECT_OK(
        mend_sleep(w->pool, SLEEP_TAG(0, MEND_BACKUP_HOST, .others = MEND_STAY_RESIDENT), NULL));
    EXPECT_STATS(w, backup_cache_bytes, 0);
    EXPECT_TRUE(mend_world_check(w));
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
    kit_release(w, other, SLEEP_BLOCK / 4, S(0));
}

/* Small ones are the driver's own, and all are where it refuses that. */
KIT_SET_TEST(pool_sleep_copies, large_ones_are_pages_of_the_process,
             w->placement.chunk_bytes = 4 * MEND_MIB)
{
    static const uint64_t sizes[] = {3 * MEND_MIB, 2 * MEND_MIB, MEND_MIB};
    void *blocks[3];
    const void *pages;
    unsigned char is_there;
    w->sim->registers_host = w->pool->heap.device.host_register = true;
    for (int i = 0; i < 3; i++) {
        blocks[i] = kit_alloc_with(w, sizes[i], S(0), .sleep_tag = 1 + (uint64_t)i);
        kit_write(w, S(0), blocks[i], sizes[i]);
    }
    for (uint64_t refused = 0; refused < 2; refused++) {
        kit_fail(w, "host_register", refused == 0 ? 9 : 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
        cycle(w);
        EXPECT_OK(mend_sleep(w->pool, NULL, NULL)); /* in the same pages */
        EXPECT_LEDGER(w, host_bytes, (7 - refused) * MEND_MIB);
        EXPECT_OK(mend_read_backup(w->pool, blocks[0], 1, NULL, &pages));
        EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
        EXPECT_OK(mend_set_backup_cache_limit(w->pool, 0));
        EXPECT_LEDGER(w, host_allocations, 0);
        EXPECT_TRUE(mincore((void *)(uintptr_t)pages, 4096, &is_there) != 0);
        EXPECT_OK(mend_set_backup_cache_limit(w->pool, UINT64_MAX));
    }
    for (int i = 0; i < 3; i++) {
        kit_release(w, blocks[i], sizes[i], S(0));
    }
}
