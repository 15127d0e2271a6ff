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
    torch_functions functions = {.alloc = rig->f->mend_torch_alloc,
                                 .free = rig->f->mend_torch_free,
                                 .init = rig->f->mend_torch_init,
                                 .begin_pool = rig->f->mend_torch_begin_pool,
                                 .reset = rig->f->mend_torch_reset,
                                 .memory_fraction = rig->f->mend_torch_memory_fraction,
                                 .base_alloc = rig->f->mend_torch_base_alloc,
                                 .record_stream = rig->f->mend_torch_record_stream};
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
    EXPECT_PTR_EQ(NULL, rig.f->mend_torch_alloc(0, 0, NULL));
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
        "1.00 MiB of which 424.00 KiB is free. Mend: Free memory: nothing else would help. "
        "A request of 424.00 KiB would fit. The limit is 1.00 MiB; in use 600.00 KiB.",
        raised);
    EXPECT_STR_EQ("", torch_contract_finding(contract));
    EXPECT_PTR_EQ(NULL, rig.f->mend_torch_alloc_or_null(500 * KIB, 0, NULL));
    /* More than any device has is more than this one has: a program that tries sizes goes on. */
    EXPECT_PTR_EQ(NULL, torch_contract_malloc(contract, SIZE_MAX / 4, 0, NULL, raised));
    EXPECT_TRUE(strncmp(raised, "CUDA out of memory.", 19) == 0);
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
    EXPECT_TRUE(strncmp(raised, "CUDA error.", 11) == 0);
    EXPECT_TRUE(strstr(raised, "MEND_ERROR_NO_DEVICE") != NULL);
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

/* A capture from C++ begins with a pool, of which only the allocator hears. */
MEND_TEST(torch_hook, captures_are_refused_before_they_begin)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    torch_contract_begin_pool(contract, 0, raised);
    EXPECT_TRUE(strstr(raised, "capturing a CUDA graph") != NULL);
    torch_contract_destroy(contract);
    hooks_close(&rig);
}

/* ---- who raises -------------------------------------------------------------------------------
 */

static char heard[512];

static void hear(const char *message)
{
    strncpy(heard, message, sizeof(heard) - 1);
}

MEND_TEST(torch_hook, another_may_raise)
{
    hooks_rig rig;
    char raised[TORCH_RAISED_BYTES];
    ASSERT_TRUE(hooks_open(&rig, MIB));
    torch_contract *contract = contract_of(&rig);
    heard[0] = '\0';
    rig.f->mend_torch_set_raise(hear);
    EXPECT_PTR_EQ(NULL, torch_contract_malloc(contract, 2 * MIB, 0, NULL, raised));
    EXPECT_TRUE(strncmp(heard, "CUDA out of memory.", 19) == 0);
    EXPECT_STR_EQ(heard, raised); /* it returned: never NULL all the same */
    heard[0] = '\0';
    EXPECT_PTR_EQ(NULL, rig.f->mend_torch_alloc_or_null(2 * MIB, 0, NULL));
    EXPECT_STR_EQ("", heard);
    rig.f->mend_torch_set_raise(NULL);
    EXPECT_PTR_EQ(NULL, torch_contract_malloc(contract, 2 * MIB, 0, NULL, raised));
    EXPECT_STR_EQ("", heard);
    EXPECT_TRUE(raised[0] != '\0');
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
    ASSERT_TRUE(hooks_open(&rig, MIB));
    const struct {
        double fraction;
        uint64_t limit_bytes;
    } rows[] = {{0.5, MIB / 2}, {0.25, MIB / 4}, {1.0, MIB}, {2.0, MIB}, {0.0, 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig.f->mend_torch_memory_fraction(rows[i].fraction, 0);
        EXPECT_U64_EQ(rows[i].limit_bytes, hooks_stats(&rig).limit_bytes);
    }
    rig.f->mend_torch_memory_fraction(0.5, 0);
    uint64_t failures = rig.f->mend_torch_failures();
    rig.f->mend_torch_memory_fraction((double)NAN, 0);
    rig.f->mend_torch_memory_fraction(-0.5, 0);
    EXPECT_U64_EQ(MIB / 2, hooks_stats(&rig).limit_bytes); /* no mistake removes a limit */
    EXPECT_U64_EQ(failures + 2, rig.f->mend_torch_failures());
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
    EXPECT_PTR_EQ(block, torch_contract_base(contract, block, NULL));
    size = 77;
    EXPECT_PTR_EQ(&rig, torch_contract_base(contract, &rig, &size));
    EXPECT_PTR_EQ(NULL, torch_contract_base(contract, NULL, &size));
    EXPECT_U64_EQ(77, size);
    torch_contract_delete(contract, block);
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
    void *block = rig.f->mend_torch_alloc(512, 0, NULL);
    rig.f->mend_torch_free(block, 512, 0, NULL);
    EXPECT_U64_EQ(before, rig.f->mend_torch_failures());
    rig.f->mend_torch_free(block, 512, 0, NULL);
    EXPECT_U64_EQ(before + 1, rig.f->mend_torch_failures());
    EXPECT_TRUE(strstr(line, "a free of PyTorch failed: MEND_ERROR_DOUBLE_FREE") != NULL);
    rig.f->mend_torch_record_stream(&rig, NULL);
    EXPECT_U64_EQ(before + 2, rig.f->mend_torch_failures());
    EXPECT_TRUE(strstr(line, "record_stream") != NULL);
    rig.f->mend_torch_memory_fraction(0.5, 99);
    EXPECT_U64_EQ(before + 3, rig.f->mend_torch_failures());
    rig.f->mend_log_set_sink(NULL, NULL);
    hooks_close(&rig);
}
