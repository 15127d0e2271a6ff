/* Reservations of addresses. */
#include "tests/contract/contract.h"

CONTRACT_TEST(contract_address, reservations_are_aligned_and_apart)
{
    enum { COUNT = 8 };
    uint64_t address[COUNT];
    uint64_t size = 3 * c->page;
    for (int i = 0; i < COUNT; i++) {
        address[i] = contract_reserve(c, size);
        EXPECT_U64_EQ(0, address[i] % c->page);
        for (int j = 0; j < i; j++) {
            EXPECT_TRUE(address[i] + size <= address[j] || address[j] + size <= address[i]);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        PASS(address_free, address[i], size);
    }
}

/* Mend itself passes 0 always. A driver may ignore the part beyond the page. */
CONTRACT_TEST(contract_address_observed, alignment_is_kept)
{
    uint64_t alignment = 16 * c->page;
    uint64_t address = 0;
    PASS(reserve, c->page, alignment, 0, &address);
    EXPECT_U64_EQ(0, address % alignment);
    PASS(address_free, address, c->page);
}

CONTRACT_TEST(contract_address, takes_no_physical_memory)
{
    uint64_t before = contract_free_bytes(c);
    uint64_t size = 8 * MEND_GIB;
    uint64_t address = contract_reserve(c, size);
    contract_expect_free(c, before);
    PASS(address_free, address, size);
}

CONTRACT_TEST(contract_address, size_zero_is_invalid)
{
    uint64_t address = 77;
    REFUSE(MEND_DRIVER_INVALID_VALUE, reserve, 0, 0, 0, &address);
    EXPECT_U64_EQ(77, address);
}

CONTRACT_TEST(contract_address, is_freed_as_it_was_made)
{
    uint64_t size = 4 * c->page;
    uint64_t address = contract_reserve(c, size);
    REFUSE(MEND_DRIVER_INVALID_VALUE, address_free, address, 2 * c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, address_free, address + c->page, size - c->page);
    PASS(address_free, address, size);
}

/* That it is refused is documented, by which code is not. */
CONTRACT_TEST(contract_address_observed, is_not_freed_while_mapped)
{
    uint64_t size = 4 * c->page;
    uint64_t address = contract_reserve(c, size);
    contract_map_new(c, address + c->page, c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, address_free, address, size);
    PASS(unmap, address + c->page, c->page);
    PASS(address_free, address, size);
}
