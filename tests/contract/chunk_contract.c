/* Chunks: physical memory, its handles and how it is counted. */
#include <unistd.h>

#include "tests/contract/contract.h"

CONTRACT_TEST(contract_chunk, a_mapping_holds_memory_like_a_handle)
{
    uint64_t size = 32 * c->page;
    uint64_t address = contract_reserve(c, size);
    uint64_t before = contract_free_bytes(c);
    mend_chunk_handle handle = contract_create(c, size);
    PASS(map, address, size, 0, handle);
    contract_expect_free(c, before - size);
    PASS(unmap, address, size);
    contract_expect_free(c, before - size);

    PASS(map, address, size, 0, handle);
    PASS(release, handle);
    contract_expect_free(c, before - size);
    PASS(unmap, address, size);
    contract_expect_free(c, before);
    PASS(address_free, address, size);
}

CONTRACT_TEST(contract_chunk, bytes_outlive_their_mapping)
{
    uint64_t size = 2 * c->page;
    uint64_t address = contract_reserve(c, 2 * size);
    mend_chunk_handle handle = contract_create(c, size);
    PASS(map, address, size, 0, handle);
    contract_allow(c, address, size);
    contract_write(c, c->stream, address, size, 0xFEED, 0);
    PASS(stream_synchronize, c->stream);
    PASS(unmap, address, size);
    PASS(map, address + size, size, 0, handle);
    contract_allow(c, address + size, size);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + size, size, 0xFEED));
    PASS(release, handle);
    PASS(unmap, address + size, size);
    PASS(address_free, address, 2 * size);
}

CONTRACT_TEST(contract_chunk, sizes_are_whole_pages)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle = 77;
    REFUSE(MEND_DRIVER_INVALID_VALUE, create, c->page / 2, &properties, &handle);
    REFUSE(MEND_DRIVER_INVALID_VALUE, create, c->page + 4096, &properties, &handle);
    REFUSE(MEND_DRIVER_INVALID_VALUE, create, 0, &properties, &handle);
    EXPECT_U64_EQ(77, handle);
}

CONTRACT_TEST(contract_chunk, out_of_memory_leaves_nothing_behind)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle = 77;
    uint64_t before = contract_free_bytes(c);
    uint64_t size = mend_align_up(c->info.total_bytes, c->page) + c->page;
    ANSWER(MEND_DRIVER_OUT_OF_MEMORY, create, size, &properties, &handle);
    EXPECT_U64_EQ(77, handle);
    contract_expect_free(c, before);
    PASS(release, contract_create(c, c->page));
}

CONTRACT_TEST(contract_chunk, plain_memory_counts_too)
{
    uint64_t size = 16 * c->page;
    uint64_t before = contract_free_bytes(c);
    uint64_t address = 0;
    PASS(plain_alloc, size, &address);
    EXPECT_TRUE(before - contract_free_bytes(c) >= size);
    contract_write(c, c->stream, address, size, 5, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, size, 5));
    PASS(plain_free, address);
    contract_expect_free(c, before);
}

/* A device that says so gives handles. An imported one holds the memory. */
static void expect_same_memory(contract *c, int share_type)
{
    const int types = share_type | (c->info.share_file_descriptor ? MEND_SHARE_FILE_DESCRIPTOR : 0);
    const mend_chunk_properties properties = {.share_types = types};
    mend_chunk_handle first = 0;
    mend_chunk_handle second = 0;
    union {
        int file;
        unsigned char fabric[MEND_FABRIC_HANDLE_BYTES];
    } shared = {-1};
    uint64_t address = contract_reserve(c, 2 * c->page);
    uint64_t before = contract_free_bytes(c);
    PASS(create, c->page, &properties, &first);
    PASS(export_handle, first, share_type, &shared);
    PASS(import_handle, &shared, share_type, &second);
    if (share_type == MEND_SHARE_FILE_DESCRIPTOR) {
        close(shared.file);
    }
    PASS(map, address, c->page, 0, first);
    PASS(map, address + c->page, c->page, 0, second);
    contract_allow(c, address, 2 * c->page);
    contract_write(c, c->stream, address, c->page, 0xFAB, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + c->page, c->page, 0xFAB));
    PASS(unmap, address, c->page);
    PASS(release, first);
    contract_expect_free(c, before - c->page);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + c->page, c->page, 0xFAB));
    PASS(release, second);
    PASS(unmap, address + c->page, c->page);
    PASS(address_free, address, 2 * c->page);
    contract_expect_free(c, before);
}

CONTRACT_TEST(contract_chunk, an_exported_chunk_is_the_same_memory)
{
    if (c->info.share_file_descriptor) {
        expect_same_memory(c, MEND_SHARE_FILE_DESCRIPTOR);
    }
}

CONTRACT_TEST(contract_chunk, a_fabric_handle_is_the_same_memory)
{
    if (c->info.share_fabric) {
        expect_same_memory(c, MEND_SHARE_FABRIC);
    }
}

CONTRACT_TEST(contract_chunk, an_exported_file_holds_memory)
{
    const mend_chunk_properties shared = {.share_types = MEND_SHARE_FILE_DESCRIPTOR};
    const uint64_t size = mend_align_up(32 * MEND_MIB, c->page);
    mend_chunk_handle handle = 0;
    int file = -1;
    if (!c->info.share_file_descriptor) {
        return;
    }
    uint64_t before = contract_free_bytes(c);
    PASS(create, size, &shared, &handle);
    PASS(export_handle, handle, MEND_SHARE_FILE_DESCRIPTOR, &file);
    ASSERT_TRUE(file >= 0);
    PASS(release, handle);
    contract_expect_free(c, before - size);
    close(file);
    contract_expect_free(c, before);
}

/* INVALID_VALUE or NOT_PERMITTED: no document says which. */
CONTRACT_TEST(contract_chunk_observed, only_chunks_made_for_it_are_exported)
{
    mend_chunk_handle handle = contract_create(c, c->page);
    int file = -1;
    REFUSE(MEND_DRIVER_INVALID_VALUE, export_handle, handle, MEND_SHARE_FILE_DESCRIPTOR, &file);
    EXPECT_INT_EQ(-1, file);
    PASS(release, handle);
}
