/* Chunks: physical memory, its handles and how it is counted. */
#include <unistd.h>

#include "tests/contract/contract.h"

CONTRACT_TEST(contract_chunk, memory_falls_at_create_and_rises_at_release)
{
    uint64_t size = 32 * c->page;
    uint64_t before = contract_free_bytes(c);
    mend_chunk_handle handle = contract_create(c, size);
    EXPECT_TRUE(handle != 0);
    contract_expect_free(c, before - size);
    EXPECT_OK(c->driver->release(c->driver, handle));
    contract_expect_free(c, before);
}

CONTRACT_TEST(contract_chunk, a_mapping_holds_memory_like_a_handle)
{
    uint64_t size = 32 * c->page;
    uint64_t address = contract_reserve(c, size);
    uint64_t before = contract_free_bytes(c);
    mend_chunk_handle handle = contract_create(c, size);
    EXPECT_OK(c->driver->map(c->driver, address, size, 0, handle));
    contract_expect_free(c, before - size);
    EXPECT_OK(c->driver->unmap(c->driver, address, size));
    contract_expect_free(c, before - size);

    EXPECT_OK(c->driver->map(c->driver, address, size, 0, handle));
    EXPECT_OK(c->driver->release(c->driver, handle));
    contract_expect_free(c, before - size);
    EXPECT_OK(c->driver->unmap(c->driver, address, size));
    contract_expect_free(c, before);
    EXPECT_OK(c->driver->address_free(c->driver, address, size));
}

CONTRACT_TEST(contract_chunk, release_before_unmap_keeps_the_bytes)
{
    uint64_t size = 2 * c->page;
    uint64_t address = contract_reserve(c, size);
    mend_chunk_handle handle = contract_create(c, size);
    EXPECT_OK(c->driver->map(c->driver, address, size, 0, handle));
    contract_allow(c, address, size);
    contract_write(c, c->stream, address, size, 0xC0FFEE, 0);
    EXPECT_OK(c->driver->release(c->driver, handle));
    EXPECT_U64_EQ(0, contract_mismatches(c, address, size, 0xC0FFEE));
    contract_drop(c, address, size, size);
}

CONTRACT_TEST(contract_chunk, bytes_outlive_their_mapping)
{
    uint64_t size = 2 * c->page;
    uint64_t address = contract_reserve(c, 2 * size);
    mend_chunk_handle handle = contract_create(c, size);
    EXPECT_OK(c->driver->map(c->driver, address, size, 0, handle));
    contract_allow(c, address, size);
    contract_write(c, c->stream, address, size, 0xFEED, 0);
    EXPECT_OK(c->driver->stream_synchronize(c->driver, c->stream));
    EXPECT_OK(c->driver->unmap(c->driver, address, size));
    EXPECT_OK(c->driver->map(c->driver, address + size, size, 0, handle));
    contract_allow(c, address + size, size);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + size, size, 0xFEED));
    EXPECT_OK(c->driver->release(c->driver, handle));
    EXPECT_OK(c->driver->unmap(c->driver, address + size, size));
    EXPECT_OK(c->driver->address_free(c->driver, address, 2 * size));
}

CONTRACT_TEST(contract_chunk, sizes_are_whole_pages)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle = 77;
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_VALUE,
                   c->driver->create(c->driver, c->page / 2, &properties, &handle));
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_VALUE,
                   c->driver->create(c->driver, c->page + 4096, &properties, &handle));
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_VALUE,
                   c->driver->create(c->driver, 0, &properties, &handle));
    EXPECT_U64_EQ(77, handle);
}

CONTRACT_TEST(contract_chunk, out_of_memory_leaves_nothing_behind)
{
    const mend_chunk_properties properties = {0};
    mend_chunk_handle handle = 77;
    uint64_t before = contract_free_bytes(c);
    uint64_t size = mend_align_up(c->info.total_bytes, c->page) + c->page;
    EXPECT_STATUS(MEND_DRIVER_OUT_OF_MEMORY,
                  c->driver->create(c->driver, size, &properties, &handle));
    EXPECT_U64_EQ(77, handle);
    contract_expect_free(c, before);
    EXPECT_OK(c->driver->release(c->driver, contract_create(c, c->page)));
}

/* Memory of the host is mapped and used as that of the device, and takes none of it. */
CONTRACT_TEST(contract_chunk, memory_of_the_host_is_used_in_place)
{
    if (c->info.host_page_bytes == 0) {
        return;
    }
    const mend_chunk_properties properties = {.on_host = true};
    const uint64_t size = mend_align_up(2 * c->page, c->info.host_page_bytes);
    const uint64_t before = contract_free_bytes(c);
    mend_chunk_handle handle = 0;
    EXPECT_OK(c->driver->create(c->driver, size, &properties, &handle));
    contract_expect_free(c, before);
    const uint64_t address = contract_reserve(c, size);
    EXPECT_OK(c->driver->map(c->driver, address, size, 0, handle));
    contract_allow(c, address, size);
    contract_write(c, c->stream, address, size, 0xFEED, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, size, 0xFEED));
    EXPECT_OK(c->driver->unmap(c->driver, address, size));
    EXPECT_OK(c->driver->address_free(c->driver, address, size));
    EXPECT_OK(c->driver->release(c->driver, handle));
}

CONTRACT_TEST(contract_chunk, plain_memory_counts_too)
{
    uint64_t size = 16 * c->page;
    uint64_t before = contract_free_bytes(c);
    uint64_t address = 0;
    EXPECT_OK(c->driver->plain_alloc(c->driver, size, &address));
    EXPECT_TRUE(before - contract_free_bytes(c) >= size);
    contract_write(c, c->stream, address, size, 5, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address, size, 5));
    EXPECT_OK(c->driver->plain_free(c->driver, address));
    contract_expect_free(c, before);
}

CONTRACT_TEST(contract_chunk, an_exported_chunk_is_the_same_memory)
{
    if (!c->info.share_file_descriptor) {
        return;
    }
    const mend_chunk_properties properties = {.share_types = MEND_SHARE_FILE_DESCRIPTOR};
    mend_chunk_handle first = 0;
    mend_chunk_handle second = 0;
    int file = -1;
    uint64_t address = contract_reserve(c, 2 * c->page);
    EXPECT_OK(c->driver->create(c->driver, c->page, &properties, &first));
    EXPECT_OK(c->driver->export_handle(c->driver, first, MEND_SHARE_FILE_DESCRIPTOR, &file));
    ASSERT_TRUE(file >= 0);
    EXPECT_OK(c->driver->import_handle(c->driver, &file, MEND_SHARE_FILE_DESCRIPTOR, &second));
    close(file);
    EXPECT_OK(c->driver->map(c->driver, address, c->page, 0, first));
    EXPECT_OK(c->driver->map(c->driver, address + c->page, c->page, 0, second));
    contract_allow(c, address, 2 * c->page);
    contract_write(c, c->stream, address, c->page, 0xABCD, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + c->page, c->page, 0xABCD));
    EXPECT_OK(c->driver->release(c->driver, first));
    EXPECT_OK(c->driver->release(c->driver, second));
    contract_drop(c, address, 2 * c->page, 2 * c->page);
}

/* A device that says so gives handles; an imported one holds the memory. */
CONTRACT_TEST(contract_chunk, a_fabric_handle_is_the_same_memory)
{
    if (!c->info.share_fabric) {
        return;
    }
    const int types =
        MEND_SHARE_FABRIC | (c->info.share_file_descriptor ? MEND_SHARE_FILE_DESCRIPTOR : 0);
    const mend_chunk_properties properties = {.share_types = types};
    mend_chunk_handle first = 0;
    mend_chunk_handle second = 0;
    unsigned char fabric[MEND_FABRIC_HANDLE_BYTES];
    uint64_t address = contract_reserve(c, 2 * c->page);
    uint64_t before = contract_free_bytes(c);
    EXPECT_OK(c->driver->create(c->driver, c->page, &properties, &first));
    EXPECT_OK(c->driver->export_handle(c->driver, first, MEND_SHARE_FABRIC, fabric));
    EXPECT_OK(c->driver->import_handle(c->driver, fabric, MEND_SHARE_FABRIC, &second));
    EXPECT_OK(c->driver->map(c->driver, address, c->page, 0, first));
    EXPECT_OK(c->driver->map(c->driver, address + c->page, c->page, 0, second));
    contract_allow(c, address, 2 * c->page);
    contract_write(c, c->stream, address, c->page, 0xFAB, 0);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + c->page, c->page, 0xFAB));
    EXPECT_OK(c->driver->unmap(c->driver, address, c->page));
    EXPECT_OK(c->driver->release(c->driver, first));
    contract_expect_free(c, before - c->page);
    EXPECT_U64_EQ(0, contract_mismatches(c, address + c->page, c->page, 0xFAB));
    EXPECT_OK(c->driver->release(c->driver, second));
    EXPECT_OK(c->driver->unmap(c->driver, address + c->page, c->page));
    EXPECT_OK(c->driver->address_free(c->driver, address, 2 * c->page));
    contract_expect_free(c, before);
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
    EXPECT_OK(c->driver->create(c->driver, size, &shared, &handle));
    EXPECT_OK(c->driver->export_handle(c->driver, handle, MEND_SHARE_FILE_DESCRIPTOR, &file));
    ASSERT_TRUE(file >= 0);
    EXPECT_OK(c->driver->release(c->driver, handle));
    contract_expect_free(c, before - size);
    close(file);
    contract_expect_free(c, before);
}

/* INVALID_VALUE or NOT_PERMITTED: no document says which. */
CONTRACT_TEST(contract_chunk_observed, only_chunks_made_for_it_are_exported)
{
    mend_chunk_handle handle = contract_create(c, c->page);
    int file = -1;
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_VALUE,
                   c->driver->export_handle(c->driver, handle, MEND_SHARE_FILE_DESCRIPTOR, &file));
    EXPECT_INT_EQ(-1, file);
    EXPECT_OK(c->driver->release(c->driver, handle));
}
