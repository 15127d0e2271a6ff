/* Pinned memory of the host: copies from and to it run in stream order, and the calls return before
 * they are done. */
#include "tests/contract/contract.h"

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

CONTRACT_TEST(contract_host, copies_go_there_and_back)
{
    uint64_t address = contract_reserve(c, 2 * c->page);
    contract_map_new(c, address, c->page);
    contract_map_new(c, address + c->page, c->page);
    void *kept = NULL;
    ASSERT_TRUE(c->driver->host_alloc(c->driver, c->page, &kept) == MEND_DRIVER_OK);
    contract_write(c, c->stream, address, c->page, 9, CONTRACT_LONG_NS / 8);
    PASS(copy, address_of(kept), address, c->page, c->stream);
    contract_write(c, c->stream, address, c->page, 10, 0);
    PASS(copy, address + c->page, address_of(kept), c->page, c->stream);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + c->page, c->page, 9));
    EXPECT_U64_EQ(0, contract_mismatches(c, address, c->page, 10));
    EXPECT_INT_EQ(9, *(const uint32_t *)kept);
    PASS(host_free, kept);
    contract_drop(c, address, 2 * c->page, 2 * c->page);
}

CONTRACT_TEST(contract_host, a_copy_to_it_does_not_keep_the_host)
{
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    void *kept = NULL;
    ASSERT_TRUE(c->driver->host_alloc(c->driver, 512, &kept) == MEND_DRIVER_OK);
    contract_write(c, c->stream, address, 512, 3, CONTRACT_LONG_NS);
    PASS(copy, address_of(kept), address, 512, c->stream);
    PASS(copy, address, address_of(kept), 512, c->stream);
    ANSWER(MEND_DRIVER_NOT_READY, stream_query, c->stream);
    PASS(stream_synchronize, c->stream);
    EXPECT_INT_EQ(3, *(const uint32_t *)kept);
    PASS(host_free, kept);
    contract_drop(c, address, c->page, c->page);
}

CONTRACT_TEST(contract_host, it_takes_nothing_of_the_device)
{
    void *kept = NULL;
    uint64_t before = contract_free_bytes(c);
    ASSERT_TRUE(c->driver->host_alloc(c->driver, 16 * c->page, &kept) == MEND_DRIVER_OK);
    contract_expect_free(c, before);
    PASS(host_free, kept);
}

CONTRACT_TEST(contract_host, pages_of_the_caller_can_be_pinned)
{
    static _Alignas(4096) uint32_t pages[1024];
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    ANSWER(c->info.host_register ? MEND_DRIVER_OK : MEND_DRIVER_NOT_SUPPORTED, host_register, pages,
           sizeof(pages));
    contract_write(c, c->stream, address, sizeof(pages), 7, 0);
    PASS(copy, address_of(pages), address, sizeof(pages), c->stream);
    PASS(stream_synchronize, c->stream);
    EXPECT_INT_EQ(7, pages[1023]);
    ANSWER(c->info.host_register ? MEND_DRIVER_OK : MEND_DRIVER_NOT_SUPPORTED, host_unregister,
           pages);
    contract_drop(c, address, c->page, c->page);
}
