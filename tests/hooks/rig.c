#include "tests/hooks/rig.h"

#include <dlfcn.h>
#include <string.h>

#include "base/align.h"
#include "mend/mend_frameworks.h"
#include "tests/support/test.h"

static hooks_functions functions;
static bool is_loaded;

static void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        mend_test_fail(__FILE__, __LINE__, "%s", dlerror());
    }
    return library;
}

const hooks_functions *hooks_get(void)
{
    if (is_loaded) {
        return &functions;
    }
    void *torch = open_library(LIBMEND_TORCH);
    void *hooks = open_library(LIBMEND_HOOKS);
    void *mend = open_library(LIBMEND);
    if (torch == NULL || hooks == NULL || mend == NULL) {
        return NULL;
    }
    is_loaded = true;
#define X(library, name)                                                                           \
    *(void **)&functions.name = dlsym(library, #name);                                             \
    if (functions.name == NULL) {                                                                  \
        mend_test_fail(__FILE__, __LINE__, "%s is not there", #name);                              \
        is_loaded = false;                                                                         \
    }
    HOOKS_FUNCTIONS(X)
#undef X
    return is_loaded ? &functions : NULL;
}

bool hooks_open(hooks_rig *rig, uint64_t memory_bytes)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    *rig = (hooks_rig){.f = hooks_get(), .memory_bytes = memory_bytes};
    if (rig->f == NULL) {
        return false;
    }
    device.memory_bytes = memory_bytes;
    device.page_bytes = 4 * MEND_KIB;
    device.device_count = 2;
    device.content = MEND_SIM_CONTENT_BYTES;
    EXPECT_RESULT(MEND_OK, mend_sim_create(&device, &rig->sim));
    for (int i = 0; i < HOOKS_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(rig->sim, NULL, &rig->streams[i]));
    }
    config.driver = mend_sim_driver(rig->sim);
    config.address_reservation_bytes = 4 * memory_bytes;
    EXPECT_RESULT(MEND_OK, rig->f->mend_set_default_config(MEND_ALL_DEVICES, &config));
    return !mend_test_has_failed();
}

void hooks_expect_reason(hooks_rig *rig, const char *file, int line, mend_result result)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_OK, rig->f->mend_get_last_error(&error));
    if (error.result != result || error.message[0] == '\0' ||
        strcmp(error.message, HOOKS_EARLIER) == 0) {
        mend_test_fail(file, line, "the reason of %s is that of %s: \"%s\"",
                       mend_result_name(result), mend_result_name(error.result), error.message);
    }
}

int hooks_below_alloc(void *below, void **pointer, size_t size_bytes, mend_stream stream)
{
    const mend_device_handler *inner = &((hooks_below *)below)->inner.handler;
    return inner->alloc(inner->ctx, pointer, size_bytes, stream);
}

int hooks_below_free(void *below, void *pointer, size_t size_bytes, mend_stream stream)
{
    const mend_device_handler *inner = &((hooks_below *)below)->inner.handler;
    return inner->free(inner->ctx, pointer, size_bytes, stream);
}

static int below_info(void *below, const void *pointer, mend_block_info *info)
{
    const mend_allocator *inner = &((hooks_below *)below)->inner;
    return inner->block_info(inner->handler.ctx, pointer, info);
}

static int below_record(void *below, void *pointer, mend_stream stream)
{
    const mend_allocator *inner = &((hooks_below *)below)->inner;
    return inner->record_stream(inner->handler.ctx, pointer, stream);
}

mend_allocator hooks_below_allocator(hooks_rig *rig, hooks_below *below)
{
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    below->inner = allocator;
    HOOKS_OK(mend_get_allocator(0, &below->inner));
    allocator.handler = (mend_device_handler){
        .ctx = below, .alloc = hooks_below_alloc, .free = hooks_below_free, .name = "below"};
    allocator.block_info = below_info;
    allocator.record_stream = below_record;
    return allocator;
}

void *torch_alloc(hooks_rig *rig, uint64_t size_bytes, mend_stream stream)
{
    void *pointer = NULL;
    int is_foreign = 0;
    HOOKS_OK(mend_torch_block_alloc(0, size_bytes, stream, &pointer, &is_foreign));
    EXPECT_INT_EQ(0, is_foreign);
    return pointer;
}

mend_torch_block torch_found(hooks_rig *rig, const void *pointer)
{
    mend_torch_block block = {.base = NULL};
    HOOKS_OK(mend_torch_block_find(pointer, &block));
    return block;
}

void torch_give(hooks_rig *rig, const void *pointer)
{
    mend_torch_block block = torch_found(rig, pointer);
    HOOKS_OK(mend_torch_block_free(&block));
}

mend_pool *hooks_pool(hooks_rig *rig)
{
    mend_pool *pool = NULL;
    EXPECT_RESULT(MEND_OK, rig->f->mend_pool_for_device(0, &pool));
    return pool;
}

mend_stats hooks_stats(hooks_rig *rig)
{
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_RESULT(MEND_OK, rig->f->mend_get_stats(hooks_pool(rig), &stats));
    return stats;
}

bool hooks_device_is_well(hooks_rig *rig)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(rig->sim, &ledger));
    return ledger.violations == 0 && ledger.content_errors == 0;
}

/* Each pool agrees with itself and holds nothing of the program's. */
static void check_and_destroy(hooks_rig *rig, int device)
{
    mend_pool *pool = NULL;
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_RESULT(MEND_OK, rig->f->mend_pool_for_device(device, &pool));
    EXPECT_RESULT(MEND_OK, rig->f->mend_validate(pool));
    EXPECT_RESULT(MEND_OK, rig->f->mend_get_stats(pool, &stats));
    EXPECT_U64_EQ(0, stats.live_blocks);
    EXPECT_RESULT(MEND_OK, rig->f->mend_pool_destroy(pool));
}

static void check_device(hooks_rig *rig)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    for (int i = 0; i < HOOKS_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(rig->sim, rig->streams[i]));
    }
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(rig->sim, &ledger));
    EXPECT_U64_EQ(0, ledger.chunks);
    EXPECT_U64_EQ(0, ledger.mappings);
    EXPECT_U64_EQ(0, ledger.contexts_open);
}

void hooks_close(hooks_rig *rig)
{
    mend_sim_advance(rig->sim, UINT64_C(1) << 40);
    EXPECT_RESULT(MEND_OK, rig->f->mend_set_allocator(MEND_ALL_DEVICES, NULL));
    if (hooks_device_is_well(rig)) {
        EXPECT_RESULT(MEND_OK, rig->f->mend_torch_set_fraction(0, 1));
        check_and_destroy(rig, 0);
        check_and_destroy(rig, 1);
        check_device(rig);
    } else { /* a mistake was made on it, and it may be lost */
        rig->f->mend_pool_destroy(hooks_pool(rig));
    }
    EXPECT_RESULT(MEND_OK, rig->f->mend_set_default_config(MEND_ALL_DEVICES, NULL));
    mend_sim_destroy(rig->sim);
}

mend_result hooks_launch(hooks_rig *rig, mend_stream stream, mend_sim_work_kind kind,
                         const void *block, uint64_t size_bytes, uint64_t tag, uint64_t duration_ns)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = kind,
                          .address = (uint64_t)(uintptr_t)block,
                          .size_bytes = size_bytes,
                          .tag = tag,
                          .finish_ns = mend_sim_now_ns(rig->sim) + duration_ns};
    return mend_sim_launch(rig->sim, stream, &work);
}

void hooks_write_long(hooks_rig *rig, int stream, const void *block, uint64_t size_bytes)
{
    EXPECT_RESULT(MEND_OK, hooks_launch(rig, rig->streams[stream], MEND_SIM_WORK_WRITE, block,
                                        size_bytes, 1, UINT64_C(1) << 30));
}
