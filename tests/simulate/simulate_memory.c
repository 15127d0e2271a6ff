/* Memory of the simulated runtime: allocations, copies, fills, queries, and refusals. */
#include <string.h>

#include "tests/simulate/runtime.h"

static size_t free_bytes(const runtime *r)
{
    size_t free_now = 0;
    size_t total = 0;
    EXPECT_OK(r->cudaMemGetInfo(&free_now, &total));
    EXPECT_U64_EQ(256 * MEND_MIB, total);
    return free_now;
}

RUNTIME_TEST(simulate_memory, comes_and_goes)
{
    void *a = NULL;
    void *b = NULL;
    size_t before = free_bytes(r);
    ASSERT_OK(r->cudaMalloc(&a, 10 * MEND_MIB));
    EXPECT_U64_EQ(before - 10 * MEND_MIB, free_bytes(r));
    ASSERT_OK(r->cudaMallocAsync(&b, MEND_MIB, NULL));
    EXPECT_TRUE(a != b && b != NULL);
    EXPECT_OK(r->cudaFreeAsync(b, NULL));
    EXPECT_OK(r->cudaFree(a));
    EXPECT_OK(r->cudaDeviceSynchronize());
    EXPECT_U64_EQ(before, free_bytes(r));
}

RUNTIME_TEST(simulate_memory, nothing_is_no_block)
{
    void *pointer = &pointer;
    EXPECT_OK(r->cudaMalloc(&pointer, 0));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_OK(r->cudaFree(NULL));
    EXPECT_OK(r->cudaFreeAsync(NULL, NULL));
}

RUNTIME_TEST(simulate_memory, errors_are_the_runtimes_and_are_kept_until_they_are_asked_for)
{
    void *pointer = NULL;
    EXPECT_ERROR(OUT_OF_MEMORY, r->cudaMalloc(&pointer, 300 * MEND_MIB));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_OK(r->cudaMalloc(&pointer, MEND_MIB));
    EXPECT_ERROR(OUT_OF_MEMORY, r->cudaPeekAtLastError());
    EXPECT_ERROR(OUT_OF_MEMORY, r->cudaGetLastError());
    EXPECT_OK(r->cudaGetLastError());
    EXPECT_ERROR(INVALID_VALUE, r->cudaFree((char *)pointer + 512));
    EXPECT_ERROR(INVALID_VALUE, r->cudaMalloc(NULL, 1));
    char handle[64];
    EXPECT_ERROR(INVALID_VALUE, r->cudaIpcGetMemHandle(handle, NULL));
    EXPECT_ERROR(INVALID_VALUE, r->cudaIpcGetMemHandle(handle, handle));
    EXPECT_OK(r->cudaIpcGetMemHandle(handle, pointer));
    EXPECT_ERROR(NOT_SUPPORTED, r->cudaIpcCloseMemHandle(pointer));
    EXPECT_OK(r->cudaFree(pointer));
    EXPECT_STR_EQ("cudaErrorMemoryAllocation", r->cudaGetErrorName(OUT_OF_MEMORY));
    EXPECT_STR_EQ("unrecognized error code", r->cudaGetErrorName(-1));
}

RUNTIME_TEST(simulate_memory, bytes_go_to_the_device_and_come_back)
{
    char *device = runtime_block(r, 4000);
    char host[1000];
    char back[1000];
    for (size_t i = 0; i < sizeof(host); i++) {
        host[i] = (char)(i * 7);
    }
    EXPECT_OK(r->cudaMemcpy(device, host, sizeof(host), TO_DEVICE));
    EXPECT_OK(r->cudaMemcpy(device + 2000, device, sizeof(host), WITHIN_DEVICE));
    EXPECT_OK(r->cudaMemset(device, 0, 4000 - 2000));
    EXPECT_OK(r->cudaMemcpyAsync(back, device + 2000, sizeof(back), ANY, NULL));
    EXPECT_OK(r->cudaDeviceSynchronize());
    EXPECT_INT_EQ(0, memcmp(host, back, sizeof(host)));
    EXPECT_OK(r->cudaMemcpy(back, device, sizeof(back), TO_HOST));
    EXPECT_INT_EQ(0, back[0] | back[999]);
}

RUNTIME_TEST(simulate_memory, rows_are_copied_with_their_pitch)
{
    char *device = runtime_block(r, 512);
    char host[12] = "abcdefghijk";
    char back[6];
    EXPECT_OK(r->cudaMemcpy2D(device, 100, host, 4, 2, 3, TO_DEVICE));
    EXPECT_OK(r->cudaMemcpy2D(back, 2, device, 100, 2, 3, TO_HOST));
    EXPECT_INT_EQ(0, memcmp(back, "abefij", 6));
    EXPECT_ERROR(INVALID_VALUE, r->cudaMemcpy2D(device, 1, host, 4, 2, 3, TO_DEVICE));
}

RUNTIME_TEST(simulate_memory, a_copy_in_the_wrong_direction_is_refused)
{
    char host[16] = "";
    char *device = runtime_block(r, 512);
    EXPECT_ERROR(INVALID_VALUE, r->cudaMemcpy(host, device, 16, TO_DEVICE));
    EXPECT_ERROR(INVALID_VALUE, r->cudaMemcpy(device, host, 16, WITHIN_DEVICE));
    EXPECT_ERROR(INVALID_DIRECTION, r->cudaMemcpy(device, host, 16, 5));
    EXPECT_ERROR(INVALID_VALUE, r->cudaMemcpy(device, NULL, 16, TO_DEVICE));
    EXPECT_ERROR(INVALID_VALUE, r->cudaMemset(host, 1, 16));
    EXPECT_OK(r->cudaMemcpy(device, NULL, 0, TO_DEVICE));
}

RUNTIME_TEST(simulate_memory, an_address_says_what_it_is)
{
    pointer_attributes found;
    void *device = NULL;
    void *pinned = NULL;
    char own[64];
    ASSERT_OK(r->cudaSetDevice(1));
    ASSERT_OK(r->cudaMalloc(&device, 4096));
    ASSERT_OK(r->cudaHostAlloc(&pinned, 4096, 0));
    EXPECT_OK(r->cudaPointerGetAttributes(&found, (char *)device + 100));
    EXPECT_TRUE(found.type == 2 && found.device == 1);
    EXPECT_PTR_EQ((char *)device + 100, found.device_pointer);
    EXPECT_OK(r->cudaPointerGetAttributes(&found, (char *)pinned + 4095));
    EXPECT_INT_EQ(1, found.type);
    EXPECT_OK(r->cudaPointerGetAttributes(&found, own));
    EXPECT_INT_EQ(0, found.type);
    EXPECT_OK(r->cudaHostRegister(own, sizeof(own), 0));
    EXPECT_OK(r->cudaPointerGetAttributes(&found, own));
    EXPECT_INT_EQ(1, found.type);
    EXPECT_OK(r->cudaHostUnregister(own));
    EXPECT_ERROR(NOT_REGISTERED, r->cudaHostUnregister(own));
    EXPECT_OK(r->cudaFreeHost(pinned));
    EXPECT_ERROR(INVALID_VALUE, r->cudaFreeHost(pinned));
    EXPECT_OK(r->cudaFree(device));
}

RUNTIME_TEST(simulate_memory, devices_are_apart_and_copy_to_each_other)
{
    char *a = NULL;
    char *b = NULL;
    char back[4] = "";
    int value = -1;
    ASSERT_OK(r->cudaMalloc((void **)&a, 200 * MEND_MIB));
    ASSERT_OK(r->cudaSetDevice(1));
    ASSERT_OK(r->cudaMalloc((void **)&b, 200 * MEND_MIB));
    EXPECT_OK(r->cudaMemset(b, 3, 4));
    EXPECT_OK(r->cudaMemcpyPeer(a, 0, b, 1, 4));
    EXPECT_OK(r->cudaMemcpy(back, a, 4, TO_HOST));
    EXPECT_INT_EQ(3, back[3]);
    EXPECT_OK(r->cudaMemset(b, 5, 4));
    EXPECT_OK(r->cudaMemcpy(a, b, 4, WITHIN_DEVICE));
    EXPECT_OK(r->cudaMemcpy(back, a, 4, TO_HOST));
    EXPECT_INT_EQ(5, back[0]);
    EXPECT_ERROR(INVALID_DEVICE, r->cudaMemcpyPeer(a, 0, b, 2, 4));
    EXPECT_OK(r->cudaDeviceCanAccessPeer(&value, 0, 1));
    EXPECT_INT_EQ(1, value);
    EXPECT_OK(r->cudaDeviceEnablePeerAccess(0, 0));
    EXPECT_ERROR(704, r->cudaDeviceEnablePeerAccess(0, 0));
    EXPECT_OK(r->cudaDeviceDisablePeerAccess(0));
    EXPECT_ERROR(705, r->cudaDeviceDisablePeerAccess(0));
    EXPECT_OK(r->cudaFree(b));
    EXPECT_OK(r->cudaFree(a));
}

typedef int (*reserve)(unsigned long long *, size_t, size_t, unsigned long long,
                       unsigned long long);
typedef int (*create)(unsigned long long *, size_t, const void *, unsigned long long);
typedef int (*map)(unsigned long long, size_t, size_t, unsigned long long, unsigned long long);
typedef int (*set_access)(unsigned long long, size_t, const void *, size_t);
typedef int (*unmap)(unsigned long long, size_t);
typedef int (*release)(unsigned long long);

/* Whether cudaIpcGetMemHandle takes the memory, as programs ask. */
static void expect_legacy(const runtime *r, int expected, unsigned long long address)
{
    enum { DEVICE_POINTER = 3, DEVICE_ORDINAL = 9, IS_LEGACY_IPC_CAPABLE = 10 };
    unsigned long long pointer = 0;
    int (*ask)(void *, int, unsigned long long) = NULL;
    unsigned char is_capable = 2;
    int device = -1;
    runtime_entry(r, "cuPointerGetAttribute", &ask);
    EXPECT_OK(ask(&is_capable, IS_LEGACY_IPC_CAPABLE, address));
    EXPECT_INT_EQ(expected, is_capable);
    EXPECT_OK(ask(&device, DEVICE_ORDINAL, address));
    EXPECT_INT_EQ(0, device);
    EXPECT_OK(ask(&pointer, DEVICE_POINTER, address));
    EXPECT_TRUE(pointer == address);
    EXPECT_ERROR(INVALID_VALUE, ask(&device, DEVICE_ORDINAL, 4096));
}

/* As PyTorch's expandable segments do it. */
RUNTIME_TEST(simulate_memory, the_drivers_virtual_memory_is_found_by_name)
{
    struct {
        reserve reserve;
        create create;
        map map;
        set_access set_access;
        unmap unmap;
        release release;
        unmap address_free;
    } cu = {0};
    runtime_entry(r, "cuMemAddressReserve", &cu.reserve);
    runtime_entry(r, "cuMemCreate", &cu.create);
    runtime_entry(r, "cuMemMap", &cu.map);
    runtime_entry(r, "cuMemSetAccess", &cu.set_access);
    runtime_entry(r, "cuMemUnmap", &cu.unmap);
    runtime_entry(r, "cuMemRelease", &cu.release);
    runtime_entry(r, "cuMemAddressFree", &cu.address_free);
    const size_t size = 2 * MEND_MIB;
    const struct {
        int type, shares, location, device;
        void *rest[2];
    } properties = {1, 0, 1, 0, {NULL}};
    const int access[3] = {1, 0, 3};
    void *plain = NULL;
    unsigned long long address = 0;
    unsigned long long chunk = 0;
    size_t before = free_bytes(r);
    ASSERT_OK(r->cudaMalloc(&plain, size));
    expect_legacy(r, 1, (uintptr_t)plain);
    EXPECT_OK(r->cudaFree(plain));
    ASSERT_OK(cu.reserve(&address, 4 * size, 0, 0, 0));
    ASSERT_OK(cu.create(&chunk, size, &properties, 0));
    EXPECT_U64_EQ(before - size, free_bytes(r));
    EXPECT_OK(cu.map(address, size, 0, chunk, 0));
    EXPECT_OK(cu.set_access(address, size, access, 1));
    EXPECT_OK(r->cudaMemset((void *)(uintptr_t)address, 1, size));
    char handle[64]; /* virtual memory has no legacy handle, and says so before */
    EXPECT_ERROR(INVALID_VALUE, r->cudaIpcGetMemHandle(handle, (void *)(uintptr_t)address));
    expect_legacy(r, 0, address);
    EXPECT_ERROR(OUT_OF_MEMORY, cu.create(&chunk, 300 * MEND_MIB, &properties, 0));
    EXPECT_OK(cu.unmap(address, size));
    EXPECT_OK(cu.release(chunk));
    EXPECT_OK(cu.address_free(address, 4 * size));
    EXPECT_U64_EQ(before, free_bytes(r));
}

/* As NCCL, and PyTorch's expandable segments where a node has them. */
RUNTIME_TEST(simulate_memory, a_chunk_passes_through_a_fabric_handle)
{
    struct {
        create create;
        release release;
        int (*export)(void *, unsigned long long, int, unsigned long long);
        int (*import)(unsigned long long *, void *, int);
    } cu = {0};
    enum { HAS_FABRIC = 128, BOTH_TYPES = 9, FABRIC = 8, NO_TYPE = 16 };
    runtime_entry(r, "cuMemCreate", &cu.create);
    runtime_entry(r, "cuMemRelease", &cu.release);
    runtime_entry(r, "cuMemExportToShareableHandle", &cu.export);
    runtime_entry(r, "cuMemImportFromShareableHandle", &cu.import);
    struct {
        int type, shares, location, device;
        void *rest[2];
    } properties = {1, BOTH_TYPES, 1, 0, {NULL}};
    unsigned char fabric[64];
    unsigned long long chunk = 0;
    unsigned long long imported = 0;
    int is_there = 0;
    const size_t before = free_bytes(r);
    EXPECT_OK(r->cudaDeviceGetAttribute(&is_there, HAS_FABRIC, 0));
    EXPECT_INT_EQ(1, is_there);
    ASSERT_OK(cu.create(&chunk, 2 * MEND_MIB, &properties, 0));
    EXPECT_OK(cu.export(fabric, chunk, FABRIC, 0));
    EXPECT_OK(cu.import(&imported, fabric, FABRIC));
    EXPECT_OK(cu.release(chunk));
    EXPECT_U64_EQ(before - 2 * MEND_MIB, free_bytes(r));
    EXPECT_OK(cu.release(imported));
    EXPECT_U64_EQ(before, free_bytes(r));
    EXPECT_ERROR(NOT_SUPPORTED, cu.import(&imported, fabric, NO_TYPE));
    properties.shares = NO_TYPE;
    EXPECT_ERROR(NOT_SUPPORTED, cu.create(&chunk, 2 * MEND_MIB, &properties, 0));
}

RUNTIME_TEST(simulate_memory, properties_lie_where_cuda_12_and_13_have_them)
{
    char properties[1040];
    uint64_t total = 0;
    int multiprocessors[2] = {0, 0};
    memset(properties, 0x55, sizeof(properties));
    EXPECT_OK(r->cudaGetDeviceProperties(properties, 1));
    memcpy(&multiprocessors[0], properties + 384, sizeof(int));
    EXPECT_INT_EQ(0x55, properties[1008]);
    EXPECT_OK(r->cudaGetDeviceProperties_v2(properties, 1));
    memcpy(&multiprocessors[1], properties + 388, sizeof(int));
    memcpy(&total, properties + 288, sizeof(total));
    EXPECT_INT_EQ(0x55, properties[1032]);
    EXPECT_INT_EQ(132, multiprocessors[0]);
    EXPECT_INT_EQ(132, multiprocessors[1]);
    EXPECT_U64_EQ(256 * MEND_MIB, total);
    EXPECT_STR_EQ("Mend simulated GPU", properties);
    EXPECT_ERROR(INVALID_DEVICE, r->cudaGetDeviceProperties(properties, 2));
    EXPECT_ERROR(INVALID_DEVICE, r->cudaSetDevice(-1));
    EXPECT_OK(r->cudaDeviceGetAttribute(multiprocessors, 16, 0));
    EXPECT_INT_EQ(132, multiprocessors[0]);
    EXPECT_OK(r->cudaDeviceGetPCIBusId(properties, 16, 1));
    EXPECT_STR_EQ("0000:01:00.0", properties);
}
