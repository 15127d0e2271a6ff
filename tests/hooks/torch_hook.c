/* PyTorch's hook, function by function. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "tests/hooks/rig.h"
#include "tests/hooks/torch_contract.h"
#include "tests/support/test.h"

enum { KIB = 1 << 10, MIB = 1 << 20, LONG_NS = 1000 };

static torch_contract *contract_of(hooks_rig *rig)
{
    torch_functions functions = {.alloc = rig->f->mend_torch_block_alloc,
                                 .find = rig->f->mend_torch_block_find,
                                 .free = rig->f->mend_torch_block_free,
                                 .write = rig->f->mend_torch_write_out_of_memory,
                                 .record_stream = rig->f->mend_device_record_stream,
                                 .empty_cache = rig->f->mend_torch_empty_cache};
    return torch_contract_create(&functions);
}

MEND_TEST(torch_hook, blocks_come_from_the_default_pool_of_the_device)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    void *block = torch_contract_malloc(contract, 700, 0, rig.streams[0], raised);
    void *other = torch_contract_malloc(contract, 700, 1, NULL, raised);
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_RESULT(MEND_OK, rig.f->mend_get_block_info(hooks_pool(&rig), block, &info));
    EXPECT_U64_EQ(700, info.requested_bytes);
    EXPECT_PTR_EQ(rig.streams[0], info.stream);
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER,
                  rig.f->mend_get_block_info(hooks_pool(&rig), other, &info));
    torch_contract_delete(contract, block);
    torch_contract_delete(contract, other);
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

/* An empty tensor has no memory, and PyTorch frees none. */
MEND_TEST(torch_hook, nothing_is_null)
{
    hooks_rig rig;
    ASSERT_TRUE(hooks_open(&rig, MIB));
    int is_foreign = 1;
    void *pointer = &rig;
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_block_alloc(0, 0, NULL, &pointer, &is_foreign));
    EXPECT_PTR_EQ(NULL, pointer);
    EXPECT_INT_EQ(0, is_foreign);
    EXPECT_PTR_EQ(NULL, rig.f->mend_torch_alloc_or_null(0, 0, NULL));
    rig.f->mend_torch_free(NULL, 0, 0, NULL);
    EXPECT_U64_EQ(0, hooks_stats(&rig).allocations);
    hooks_close(&rig);
}

MEND_TEST(torch_hook, what_cannot_be_had_is_raised_with_the_report)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    void *held = torch_contract_malloc(contract, 600 * KIB, 0, NULL, raised);
    EXPECT_PTR_EQ(NULL, torch_contract_malloc(contract, 500 * KIB, 0, NULL, raised));
    /* PyTorch's words, then what Mend knows besides; nothing is said twice. */
    EXPECT_STR_EQ(
        "CUDA out of memory. Tried to allocate 500.00 KiB. GPU 0 has a total capacity of "
        "1024.00 KiB of which 424.00 KiB is free. Mend has 600.00 KiB memory in use. Of the "
        "allocated memory 600.00 KiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
        "but unallocated. Mend: Free memory: nothing else would help. "
        "A request of 424.00 KiB would fit. The limit is 1.00 MiB; in use 600.00 KiB.",
        raised);
    EXPECT_STR_EQ("", torch_contract_finding(contract));
    EXPECT_PTR_EQ(NULL, rig.f->mend_torch_alloc_or_null(500 * KIB, 0, NULL));
    /* The next call works. */
    void *more = torch_contract_malloc(contract, 300 * KIB, 0, NULL, raised);
    EXPECT_TRUE(more != NULL);
    torch_contract_delete(contract, more);
    torch_contract_delete(contract, held);
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

MEND_TEST(torch_hook, what_is_no_lack_of_memory_is_not_called_so)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    EXPECT_PTR_EQ(NULL, torch_contract_malloc(contract, 512, 7, NULL, raised));
    char expected[16];
    __builtin_snprintf(expected, sizeof(expected), "%d", MEND_ERROR_NO_DEVICE);
    EXPECT_STR_EQ(expected, raised);
    EXPECT_FALSE(rig.f->mend_torch_lacks_memory(MEND_ERROR_NO_DEVICE));
    EXPECT_TRUE(rig.f->mend_torch_lacks_memory(MEND_ERROR_OUT_OF_ADDRESSES));
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

/* ---- streams ----------------------------------------------------------------------------------
 */

/* The tensor is freed on its own stream while another still reads it. */
MEND_TEST(torch_hook, a_recorded_stream_keeps_the_memory)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    size_t bytes = 600 * KIB; /* two do not fit */
    void *block = torch_contract_malloc(contract, bytes, 0, rig.streams[0], raised);
    hooks_launch(&rig, rig.streams[0], MEND_SIM_WORK_WRITE, block, bytes, 1, 1);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_wait(rig.sim, rig.streams[1], rig.streams[0]));
    hooks_launch(&rig, rig.streams[1], MEND_SIM_WORK_VERIFY, block, bytes, 1, LONG_NS);
    torch_contract_record_stream(contract, block, rig.streams[1]);
    torch_contract_delete(contract, block);
    block = torch_contract_malloc(contract, bytes, 0, rig.streams[0], raised);
    ASSERT_TRUE(block != NULL);
    hooks_launch(&rig, rig.streams[0], MEND_SIM_WORK_WRITE, block, bytes, 2, 1);
    EXPECT_U64_EQ(1, hooks_stats(&rig).stream_waits + hooks_stats(&rig).host_waits);
    torch_contract_delete(contract, block);
    mend_sim_advance(rig.sim, 2 * LONG_NS);
    EXPECT_TRUE(hooks_device_is_well(&rig));
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

/* ---- room -------------------------------------------------------------------------------------
 */

MEND_TEST(torch_hook, empty_cache_gives_back_what_is_free)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    void *kept = torch_contract_malloc(contract, 64 * KIB, 0, NULL, raised);
    torch_contract_delete(contract, torch_contract_malloc(contract, 256 * KIB, 0, NULL, raised));
    torch_contract_delete(contract, torch_contract_malloc(contract, 256 * KIB, 1, NULL, raised));
    EXPECT_U64_EQ(320 * KIB, hooks_stats(&rig).reserved_bytes);
    torch_contract_empty_cache(contract);
    EXPECT_U64_EQ(64 * KIB, hooks_stats(&rig).reserved_bytes);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(rig.sim, &ledger));
    EXPECT_U64_EQ(64 * KIB, ledger.chunk_bytes); /* of the other device, too */
    torch_contract_delete(contract, kept);
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

/* As PyTorch's own allocator does. */
MEND_TEST(torch_hook, empty_cache_waits_for_what_the_gpu_still_uses)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    void *tensor = torch_contract_malloc(contract, 256 * KIB, 0, rig.streams[0], raised);
    EXPECT_RESULT(MEND_OK, hooks_launch(&rig, rig.streams[0], MEND_SIM_WORK_TOUCH, tensor,
                                        256 * KIB, 0, 1000));
    torch_contract_delete(contract, tensor);
    torch_contract_empty_cache(contract);
    EXPECT_U64_EQ(0, hooks_stats(&rig).reserved_bytes);
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

MEND_TEST(torch_hook, the_memory_fraction_is_a_limit)
{
    hooks_rig rig;
    double fraction = 0;
    ASSERT_TRUE(hooks_open(&rig, MIB));
    const struct {
        double fraction;
        uint64_t limit_bytes;
    } rows[] = {{0.5, MIB / 2}, {0.3, 314572}, {1.0, MIB}, {0.0, 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_RESULT(MEND_OK, rig.f->mend_torch_set_fraction(0, rows[i].fraction));
        EXPECT_U64_EQ(rows[i].limit_bytes, hooks_stats(&rig).limit_bytes);
        EXPECT_RESULT(MEND_OK, rig.f->mend_torch_get_fraction(0, &fraction));
        EXPECT_TRUE(fabs(rows[i].fraction - fraction) < 1e-5);
    }
    EXPECT_RESULT(MEND_OK, rig.f->mend_torch_set_fraction(0, 0.5));
    const double wrong[] = {(double)NAN, -0.5, 1.5};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, rig.f->mend_torch_set_fraction(0, wrong[i]));
        EXPECT_U64_EQ(MIB / 2, hooks_stats(&rig).limit_bytes); /* no mistake removes a limit */
    }
    EXPECT_RESULT(MEND_ERROR_NO_DEVICE, rig.f->mend_torch_set_fraction(99, 0.5));
    EXPECT_PTR_EQ(NULL, rig.f->mend_torch_alloc_or_null(600 * KIB, 0, NULL));
    hooks_close(&rig);
}

MEND_TEST(torch_hook, the_base_of_a_pointer_is_that_of_its_block)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    size_t size = 77;
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    char *block = torch_contract_malloc(contract, 5000, 1, NULL, raised);
    EXPECT_PTR_EQ(block, torch_contract_base(contract, block + 4000, &size));
    EXPECT_U64_EQ(5120, size);
    mend_torch_block found;
    EXPECT_RESULT(MEND_ERROR_FOREIGN_POINTER, rig.f->mend_torch_block_find(&rig, &found));
    EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, rig.f->mend_torch_block_find(NULL, &found));
    torch_contract_delete(contract, block);
    EXPECT_STR_EQ("", torch_contract_finding(contract));
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

/* ---- what cannot be raised --------------------------------------------------------------------
 */

static void keep_line(void *context, mend_log_level level, const char *line)
{
    char *kept = context;
    if (level == MEND_LOG_WARNING) {
        strncpy(kept, line, 255);
    }
}

MEND_TEST(torch_hook, what_no_caller_can_be_given_is_counted_and_logged)
{
    hooks_rig rig;
    char line[256] = "";
    ASSERT_TRUE(hooks_open(&rig, MIB));
    rig.f->mend_log_set_sink(keep_line, line);
    uint64_t before = rig.f->mend_torch_failures();
    void *block = rig.f->mend_torch_alloc_or_null(512, 0, NULL);
    rig.f->mend_torch_free(block, 512, 0, NULL);
    EXPECT_U64_EQ(before, rig.f->mend_torch_failures());
    rig.f->mend_torch_free(block, 512, 0, NULL);
    EXPECT_U64_EQ(before + 1, rig.f->mend_torch_failures());
    EXPECT_TRUE(strstr(line, "a free of PyTorch failed: MEND_ERROR_DOUBLE_FREE") != NULL);
    rig.f->mend_log_set_sink(NULL, NULL);
    hooks_close(&rig);
}

/* ---- another allocator below ------------------------------------------------------------------
 */

typedef struct wrapper {
    mend_allocator inner;
    size_t freed_bytes;
    mend_stream freed_on;
} wrapper;

static int wrapper_alloc(void *ctx, void **pointer, size_t size, mend_stream stream)
{
    const wrapper *b = ctx;
    return b->inner.handler.alloc(b->inner.handler.ctx, pointer, size, stream);
}

static int wrapper_free(void *ctx, void *pointer, size_t size, mend_stream stream)
{
    wrapper *b = ctx;
    b->freed_bytes = size;
    b->freed_on = stream;
    return b->inner.handler.free(b->inner.handler.ctx, pointer, size, stream);
}

static int wrapper_info(void *ctx, const void *pointer, mend_block_info *info)
{
    const wrapper *b = ctx;
    return b->inner.block_info(b->inner.handler.ctx, pointer, info);
}

/* One that describes its blocks is given the stream and the size; another one frees when all work
 * is done. */
MEND_TEST(torch_hook, another_allocator_is_asked_what_a_free_needs)
{
    for (int describes = 0; describes < 2; describes++) {
        hooks_rig rig;
        char raised[TORCH_RAISED_BYTES];
        wrapper b = {.inner = MEND_ALLOCATOR_INIT};
        mend_allocator allocator = MEND_ALLOCATOR_INIT;
        ASSERT_TRUE(hooks_open(&rig, MIB));
        ASSERT_RESULT(MEND_OK, rig.f->mend_get_allocator(0, &b.inner));
        allocator.handler = (mend_device_handler){
            .ctx = &b, .alloc = wrapper_alloc, .free = wrapper_free, .name = "wrapper"};
        allocator.block_info = describes ? wrapper_info : NULL;
        ASSERT_RESULT(MEND_OK, rig.f->mend_set_allocator(0, &allocator));
        torch_contract *contract = contract_of(&rig);
        void *block = torch_contract_malloc(contract, 5000, 0, rig.streams[1], raised);
        torch_contract_delete(contract, block);
        EXPECT_STR_EQ("", torch_contract_finding(contract));
        EXPECT_U64_EQ(describes ? 5000 : 0, b.freed_bytes);
        EXPECT_PTR_EQ(describes ? rig.streams[1] : MEND_NO_STREAM, b.freed_on);
        EXPECT_U64_EQ(0, hooks_stats(&rig).live_blocks);
        torch_contract_destroy(contract);
        hooks_close(&rig);
    }
}
