/* Pinned host memory: its numbers in the ledger, and the rules that the device checks. */
#include "tests/unit/sim/sim_fixture.h"

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

SIM_TEST(sim_host, the_ledger_has_what_is_held)
{
    void *first = NULL;
    void *second = NULL;
    ANSWER(INVALID_VALUE, host_alloc, 0, &first);
    ANSWER(OUT_OF_MEMORY, host_alloc, UINT64_MAX, &first);
    EXPECT_TRUE(first == NULL && f->heard == 0);
    PASS(host_alloc, 1, &first);
    PASS(host_alloc, 2 * MEND_MIB, &second);
    EXPECT_U64_EQ(2, sim_fixture_ledger(f).host_allocations);
    EXPECT_U64_EQ(2 * MEND_MIB + 4096, sim_fixture_ledger(f).host_bytes);
    PASS(host_free, first);
    EXPECT_U64_EQ(2 * MEND_MIB, sim_fixture_ledger(f).host_bytes);
    PASS(host_free, second);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).host_allocations);
    EXPECT_U64_EQ(0, sim_fixture_ledger(f).host_bytes);
}

SIM_TEST(sim_host, other_pointers_are_not_freed)
{
    void *made = NULL;
    PASS(host_alloc, 8192, &made);
    BREACH(INVALID_VALUE, "is not the start of an allocation", host_free, (char *)made + 4096);
    ANSWER(INVALID_VALUE, host_free, NULL);
    PASS(host_free, made);
    ANSWER(INVALID_VALUE, host_free, made);
    EXPECT_U64_EQ(3, f->heard);
}

SIM_TEST(sim_host, memory_of_a_queued_copy_is_not_freed)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    void *made = NULL;
    PASS(host_alloc, 4096, &made);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    PASS(copy, address, address_of(made), 512, f->stream);
    BREACH(INVALID_VALUE, "a queued copy uses", host_free, made);
    PASS(stream_synchronize, f->stream);
    PASS(copy, address_of(made), address, 512, f->stream);
    PASS(stream_synchronize, f->stream);
    PASS(host_free, made);
    EXPECT_U64_EQ(1, f->heard);
}

SIM_TEST(sim_host, a_copy_beyond_its_end_is_one_of_unpinned_memory)
{
    uint64_t address = sim_fixture_map(f, f->page, f->page);
    void *made = NULL;
    PASS(host_alloc, 4096, &made);
    sim_fixture_work(f, f->stream, MEND_SIM_WORK_TOUCH, address, 512, 0, 1000);
    uint64_t waits = sim_fixture_ledger(f).host_syncs;
    PASS(copy, address_of(made) + 3584, address, 512, f->stream);
    EXPECT_U64_EQ(waits, sim_fixture_ledger(f).host_syncs);
    PASS(stream_synchronize, f->stream);
    PASS(host_free, made);
}
