/* Mappings: which chunks can be mapped where, unmapped, and made accessible. */
#include "tests/contract/contract.h"

/* The header speaks of multiples of the page, NVIDIA's own design notes of the whole chunk. */
CONTRACT_TEST(contract_mapping_observed, a_chunk_is_mapped_whole)
{
    uint64_t size = 4 * c->page;
    uint64_t address = contract_reserve(c, 2 * size);
    mend_chunk_handle handle = contract_create(c, size);
    REFUSE(MEND_DRIVER_NOT_SUPPORTED, map, address, 2 * size, 0, handle);
    REFUSE(MEND_DRIVER_NOT_SUPPORTED, map, address, size, c->page, handle);
    REFUSE(MEND_DRIVER_INVALID_VALUE, map, address + c->page / 2, size, 0, handle);
    REFUSE(MEND_DRIVER_NOT_SUPPORTED, map, address, size + 4096, 0, handle);
    REFUSE(MEND_DRIVER_NOT_SUPPORTED, map, address, c->page, 0, handle);
    REFUSE(MEND_DRIVER_NOT_SUPPORTED, map, address, c->page, c->page, handle);
    PASS(map, address, size, 0, handle);
    PASS(release, handle);
    contract_drop(c, address, size, 2 * size);
}

CONTRACT_TEST(contract_mapping, needs_a_reservation)
{
    uint64_t address = contract_reserve(c, c->page);
    mend_chunk_handle handle = contract_create(c, c->page);
    PASS(address_free, address, c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, map, address, c->page, 0, handle);
    PASS(release, handle);
}

/* On an H200 it does, where another reservation begins there. */
CONTRACT_TEST(contract_mapping_observed, crosses_no_end_of_a_reservation)
{
    uint64_t size = 2 * c->page;
    uint64_t address = contract_reserve(c, size);
    mend_chunk_handle handle = contract_create(c, size);
    const mend_status answer = CALL(map, address + c->page, size, 0, handle);
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_VALUE, answer);
    if (answer == MEND_DRIVER_OK) {
        PASS(unmap, address + c->page, size);
    }
    PASS(release, handle);
    PASS(address_free, address, size);
}

CONTRACT_TEST(contract_mapping, lies_over_no_other)
{
    uint64_t size = 4 * c->page;
    uint64_t address = contract_reserve(c, 3 * size);
    mend_chunk_handle handle = contract_create(c, size);
    contract_map_new(c, address + size, size);
    contract_write(c, c->stream, address + size, size, 0x11, 0);
    REFUSE(MEND_DRIVER_INVALID_VALUE, map, address + size, size, 0, handle);
    REFUSE(MEND_DRIVER_INVALID_VALUE, map, address + c->page, size, 0, handle);
    REFUSE(MEND_DRIVER_INVALID_VALUE, map, address + 2 * size - c->page, size, 0, handle);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + size, size, 0x11));
    PASS(release, handle);
    PASS(unmap, address + size, size);
    PASS(address_free, address, 3 * size);
}

/* Two chunks in the place of one, with a hole between them, as a compaction leaves it. */
CONTRACT_TEST(contract_mapping, another_chunk_takes_the_place)
{
    uint64_t address = contract_reserve(c, 4 * c->page);
    contract_map_new(c, address, 4 * c->page);
    contract_write(c, c->stream, address, 4 * c->page, 0x31, 0);
    PASS(stream_synchronize, c->stream);
    PASS(unmap, address, 4 * c->page);
    contract_map_new(c, address, c->page);
    contract_map_new(c, address + 2 * c->page, 2 * c->page);
    contract_write(c, c->stream, address, c->page, 0x32, 0);
    contract_write(c, c->stream, address + 2 * c->page, 2 * c->page, 0x33, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, c->page, 0x32));
    EXPECT_U64_EQ(0, contract_mismatches(c, address + 2 * c->page, 2 * c->page, 0x33));
    PASS(unmap, address + 2 * c->page, 2 * c->page);
    contract_drop(c, address, c->page, 4 * c->page);
}

CONTRACT_TEST(contract_mapping, one_unmap_spans_adjacent_mappings)
{
    uint64_t address = contract_reserve(c, 6 * c->page);
    contract_map_new(c, address, c->page);
    contract_map_new(c, address + c->page, 2 * c->page);
    contract_map_new(c, address + 3 * c->page, 3 * c->page);
    PASS(unmap, address, 3 * c->page);
    contract_map_new(c, address, 3 * c->page);
    contract_drop(c, address, 6 * c->page, 6 * c->page);
}

/* On an H200 it takes the mappings on both sides, and the hole alone is accepted as well. */
CONTRACT_TEST(contract_mapping_observed, unmap_crosses_no_hole)
{
    uint64_t address = contract_reserve(c, 6 * c->page);
    contract_map_new(c, address, 2 * c->page);
    contract_map_new(c, address + 4 * c->page, 2 * c->page);
    contract_write(c, c->stream, address, 2 * c->page, 1, 0);
    contract_write(c, c->stream, address + 4 * c->page, 2 * c->page, 2, 0);
    PASS(stream_synchronize, c->stream);
    REFUSE(MEND_DRIVER_INVALID_VALUE, unmap, address + 2 * c->page, 2 * c->page);
    const mend_status answer = CALL(unmap, address, 6 * c->page);
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_VALUE, answer);
    if (answer != MEND_DRIVER_OK) {
        EXPECT_U64_EQ(0, contract_mismatches(c, address, 2 * c->page, 1));
        EXPECT_U64_EQ(0, contract_mismatches(c, address + 4 * c->page, 2 * c->page, 2));
        PASS(unmap, address, 2 * c->page);
        PASS(unmap, address + 4 * c->page, 2 * c->page);
    }
    PASS(address_free, address, 6 * c->page);
}

CONTRACT_TEST(contract_mapping, unmap_takes_whole_mappings)
{
    uint64_t size = 4 * c->page;
    uint64_t address = contract_reserve(c, 2 * size);
    contract_map_new(c, address, size);
    contract_map_new(c, address + size, size);
    contract_write(c, c->stream, address, 2 * size, 3, 0);
    PASS(stream_synchronize, c->stream);
    REFUSE(MEND_DRIVER_INVALID_VALUE, unmap, address, c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, unmap, address + c->page, size - c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, unmap, address, size + c->page);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, 2 * size, 3));
    contract_drop(c, address, 2 * size, 2 * size);
}

/* A page mapped three times, for reading: all places show it. Then one of them can be written. */
CONTRACT_TEST(contract_mapping, access_may_be_for_reading_alone)
{
    const int device = 0;
    const uint64_t address = contract_reserve(c, 3 * c->page);
    const mend_chunk_handle handle = contract_create(c, c->page);
    PASS(map, address, c->page, 0, handle);
    contract_allow(c, address, c->page);
    contract_write(c, c->stream, address, c->page, 0x79, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, c->page, 0x79));
    for (uint64_t i = 1; i < 3; i++) {
        PASS(map, address + i * c->page, c->page, 0, handle);
    }
    PASS(release, handle);
    PASS(set_access, address, 3 * c->page, &device, 1, MEND_ACCESS_READ);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, 3 * c->page, 0x79));
    contract_allow(c, address, c->page);
    contract_write(c, c->stream, address, c->page, 0x7a, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, 3 * c->page, 0x7a));
    contract_drop(c, address, 3 * c->page, 3 * c->page);
}

/* On an H200 a hole is passed over. A range without any mapping is refused. */
CONTRACT_TEST(contract_mapping_observed, access_crosses_no_hole)
{
    const int device = 0;
    uint64_t address = contract_reserve(c, 6 * c->page);
    contract_map_new(c, address, 2 * c->page);
    contract_map_new(c, address + 4 * c->page, 2 * c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, set_access, address, 6 * c->page, &device, 1,
           MEND_ACCESS_READ_WRITE);
    PASS(unmap, address, 2 * c->page);
    PASS(unmap, address + 4 * c->page, 2 * c->page);
    PASS(address_free, address, 6 * c->page);
}

CONTRACT_TEST(contract_mapping, access_needs_a_mapping)
{
    const int device = 0;
    uint64_t address = contract_reserve(c, 2 * c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, set_access, address, 2 * c->page, &device, 1,
           MEND_ACCESS_READ_WRITE);
    contract_map_new(c, address, 2 * c->page);
    PASS(unmap, address, 2 * c->page);
    REFUSE(MEND_DRIVER_INVALID_VALUE, set_access, address, 2 * c->page, &device, 1,
           MEND_ACCESS_READ_WRITE);
    PASS(address_free, address, 2 * c->page);
}

CONTRACT_TEST(contract_mapping, aliases_agree_between_operations)
{
    uint64_t size = 2 * c->page;
    uint64_t address = contract_reserve(c, 2 * size);
    mend_chunk_handle handle = contract_create(c, size);
    PASS(map, address, size, 0, handle);
    PASS(map, address + size, size, 0, handle);
    contract_allow(c, address, 2 * size);
    for (uint32_t round = 1; round <= 4; round++) {
        bool forth = round % 2 == 0;
        uint64_t written = forth ? address : address + size;
        uint64_t read = forth ? address + size : address;
        contract_write(c, c->stream, written, size, round, 0);
        EXPECT_U64_EQ(0, contract_mismatches(c, read, size, round));
    }
    /* Unmapping one leaves the other. */
    PASS(unmap, address, size);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + size, size, 4));
    PASS(unmap, address + size, size);
    PASS(release, handle);
    PASS(address_free, address, 2 * size);
}

CONTRACT_TEST(contract_mapping, chunks_from_anywhere_make_one_range)
{
    enum { PIECES = 4 };
    uint64_t scattered = contract_reserve(c, 2 * PIECES * c->page);
    uint64_t whole = contract_reserve(c, PIECES * c->page);
    mend_chunk_handle handle[PIECES];
    for (uint64_t i = 0; i < PIECES; i++) {
        uint64_t place = scattered + 2 * i * c->page;
        handle[i] = contract_create(c, c->page);
        PASS(map, place, c->page, 0, handle[i]);
        contract_allow(c, place, c->page);
        contract_write(c, c->stream, place, c->page, 100 + (uint32_t)i, 0);
    }
    PASS(stream_synchronize, c->stream);
    for (uint64_t i = 0; i < PIECES; i++) {
        uint64_t place = whole + (PIECES - 1 - i) * c->page;
        PASS(unmap, scattered + 2 * i * c->page, c->page);
        PASS(map, place, c->page, 0, handle[i]);
        PASS(release, handle[i]);
    }
    contract_allow(c, whole, PIECES * c->page);
    for (uint64_t i = 0; i < PIECES; i++) {
        uint64_t place = whole + (PIECES - 1 - i) * c->page;
        EXPECT_U64_EQ(0, contract_mismatches(c, place, c->page, 100 + (uint32_t)i));
    }
    contract_write(c, c->stream, whole, PIECES * c->page, 9, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, whole, PIECES * c->page, 9));
    contract_drop(c, whole, PIECES * c->page, PIECES * c->page);
    PASS(address_free, scattered, 2 * PIECES * c->page);
}

CONTRACT_TEST(contract_mapping, map_and_unmap_elsewhere_leave_running_work_alone)
{
    uint64_t size = 4 * c->page;
    uint64_t address = contract_reserve(c, 2 * size);
    contract_map_new(c, address, size);
    contract_write(c, c->stream, address, size, 0xAA, CONTRACT_LONG_NS / 10);
    for (int round = 0; round < 8; round++) {
        contract_map_new(c, address + size, size);
        PASS(unmap, address + size, size);
    }
    EXPECT_U64_EQ(0, contract_mismatches(c, address, size, 0xAA));
    contract_drop(c, address, size, 2 * size);
}
