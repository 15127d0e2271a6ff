/*
 * Arguments that no call takes, amid a trial: missing ones, too large ones, and impossible sizes,
 * beside the table of pool_misuse. The answer has a name, and nothing changes.
 */
#include "mend/mend_frameworks.h"
#include "pool/pool.h"
#include "tests/sim/quotas.h"
#include "tests/support/options.h"

#define REFUSED(call)   trial_expect(t, #call, MEND_ERROR_INVALID_ARGUMENT, call)
#define NO_DEVICE(call) trial_expect(t, #call, MEND_ERROR_NO_DEVICE, call)

/* A struct with the size of no version. */
#define CUT(type) ((type){.struct_size = 1})

static void refuse_blocks(trial *t, mend_pool *pool, mend_stream stream)
{
    void *block = t;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    REFUSED(mend_alloc_with(NULL, 512, stream, &options, &block));
    REFUSED(mend_alloc_with(pool, 512, stream, NULL, &block));
    REFUSED(mend_alloc_with(pool, 512, stream, &options, NULL));
    REFUSED(mend_alloc_with(pool, 512, stream, &CUT(mend_alloc_options), &block));
    options.address = (void *)(uintptr_t)1;
    REFUSED(mend_alloc_with(pool, 512, stream, &options, &block));
    options.address = (void *)(uintptr_t)512; /* no memory of the pool */
    mend_set_alloc_options(NULL, NULL);       /* as the last block of this thread may have been */
    const mend_result wrong =
        trial_passes_all(t) ? MEND_ERROR_NOT_SUPPORTED : MEND_ERROR_OUT_OF_ADDRESS_SPACE;
    trial_expect(t, "a block at an address", wrong,
                 t->captures > 0 ? wrong : mend_alloc_with(pool, 512, stream, &options, &block));
    REFUSED(mend_pin(NULL, t, 512));
    REFUSED(mend_pin(pool, t, 0));
    REFUSED(mend_unpin(NULL, t, 512));
    trial_expect(t, "a pin of what is no memory", MEND_ERROR_FOREIGN_POINTER,
                 mend_pin(pool, t, 512));
    trial_claim(t, TRIAL_RESULT, block == t, "a refused call touched its output");
}

static void refuse_memory(trial *t, mend_pool *pool, mend_stream stream)
{
    REFUSED(mend_get_available(NULL, stream, &(mend_available)MEND_AVAILABLE_INIT));
    REFUSED(mend_get_available(pool, stream, NULL));
    REFUSED(mend_get_available(pool, stream, &CUT(mend_available)));
    REFUSED(mend_enable_peer(NULL, 0));
    REFUSED(mend_enable_peer(pool, -1));
    REFUSED(mend_enable_peer(pool, 63));
    trial_expect(t, "the pool's own device as a peer", MEND_OK, mend_enable_peer(pool, 0));
}

static void refuse_graph_pools_and_shares(trial *t, mend_pool *pool, mend_stream stream)
{
    mend_export_token token = {{0}};
    uint64_t bytes = 0;
    size_t size = 0;
    void *block = t;
    REFUSED(mend_graph_pool_free(NULL, t, stream));
    REFUSED(mend_graph_pool_record_stream(NULL, t, stream));
    REFUSED(mend_graph_pool_checkpoint(NULL, NULL, sizeof(mend_graph_pool_block), 0, &size));
    REFUSED(mend_graph_pool_restore(NULL, NULL, sizeof(mend_graph_pool_block), 0));
    REFUSED(mend_export(NULL, t, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, &bytes));
    REFUSED(mend_export(pool, NULL, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL, &bytes));
    REFUSED(mend_export(pool, t, NULL, NULL, MEND_EXPORT_TOKEN_BYTES, NULL, &bytes));
    REFUSED(mend_import(NULL, &token, MEND_EXPORT_TOKEN_BYTES, &block, &bytes));
    REFUSED(mend_import(pool, NULL, MEND_EXPORT_TOKEN_BYTES, &block, &bytes));
    REFUSED(mend_import(pool, &token, MEND_EXPORT_TOKEN_BYTES, NULL, &bytes));
    REFUSED(
        mend_import(pool, &token, MEND_EXPORT_TOKEN_BYTES, &block, &bytes)); /* it is no token */
    REFUSED(mend_export(NULL, t, KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC), NULL,
                        0, &size, &bytes));
    REFUSED(mend_import(NULL, &token, sizeof(token), &block, &bytes));
    REFUSED(mend_import(pool, &token, sizeof(token), &block, &bytes));
    REFUSED(mend_export(pool, t, KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC), NULL,
                        1, &size, &bytes));
    REFUSED(mend_import_close(NULL, t, stream));
    REFUSED(mend_import_close(pool, t, MEND_EVERY_STREAM));
    trial_claim(t, TRIAL_RESULT, block == t, "a refused call touched its output");
}

static void refuse_ranges(trial *t, mend_pool *pool, mend_stream stream)
{
    mend_range *range = NULL;
    REFUSED(mend_range_create(NULL, 512, NULL, &range));
    REFUSED(mend_range_create(pool, 0, NULL, &range));
    REFUSED(mend_range_create(pool, 512, NULL, NULL));
    REFUSED(mend_range_create(pool, 512, &CUT(mend_range_options), &range));
    REFUSED(mend_range_get_info(NULL, &(mend_range_info)MEND_RANGE_INFO_INIT));
    REFUSED(mend_range_commit(NULL, 0, 512, stream));
    REFUSED(mend_range_commit_all(NULL, sizeof(mend_range_part), 1, stream));
    REFUSED(mend_range_decommit(NULL, 0, 512, stream));
    REFUSED(mend_range_record_stream(NULL, 0, 512, stream));
    trial_claim(t, TRIAL_RESULT, range == NULL, "a refused call touched its output");
}

static void refuse_devices(trial *t, mend_stream stream)
{
    enum { TOO_LARGE = 64 };
    mend_pool *pool = NULL;
    mend_allocator allocator = MEND_ALLOCATOR_INIT;
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    int device = -2;
    REFUSED(mend_pool_for_device(0, NULL));
    NO_DEVICE(mend_pool_for_device(TOO_LARGE, &pool));
    NO_DEVICE(mend_set_default_config(-2, NULL));
    REFUSED(mend_set_default_config(0, &CUT(mend_pool_config)));
    REFUSED(mend_get_allocator(0, NULL));
    NO_DEVICE(mend_get_allocator(-2, &allocator));
    NO_DEVICE(mend_set_allocator(TOO_LARGE, NULL));
    REFUSED(mend_set_allocator(0, &allocator)); /* it can neither allocate nor free */
    REFUSED(mend_device_alloc(0, 512, stream, NULL));
    NO_DEVICE(mend_device_free(TOO_LARGE, t, 0, stream));
    trial_expect(t, "mend_device_free of nothing", MEND_OK, mend_device_free(0, NULL, 0, stream));
    NO_DEVICE(mend_device_record_stream(-2, t, stream));
    NO_DEVICE(mend_device_unregister_stream(-2, stream));
    NO_DEVICE(mend_device_trim(TOO_LARGE, 0, MEND_TRIM_IDLE, NULL));
    REFUSED(mend_device_free_untagged(NULL, &info, &device));
    REFUSED(mend_device_free_untagged(t, &CUT(mend_block_info), &device));
    REFUSED(mend_device_block_info(0, NULL, &info));
    REFUSED(mend_device_block_info(0, t, &CUT(mend_block_info)));
    NO_DEVICE(mend_device_block_info(TOO_LARGE, t, &info));
    REFUSED(mend_current_device(NULL));
    trial_expect(t, "mend_current_device", MEND_OK, mend_current_device(&device));
    trial_claim(t, TRIAL_RESULT, device == 0 && pool == NULL, "a refused call touched its output");
}

void trial_refuse_arguments(trial *t, uint8_t which)
{
    mend_pool *pool = t->pools[which % t->pool_count].pool;
    const mend_stream stream = trial_handle(t, 0, false);
    refuse_blocks(t, pool, stream);
    refuse_memory(t, pool, stream);
    refuse_graph_pools_and_shares(t, pool, stream);
    REFUSED(mend_sleep(NULL, NULL, NULL));
    REFUSED(mend_sleep(pool, &CUT(mend_sleep_options), NULL));
    REFUSED(mend_wake(NULL, NULL, 0, NULL));
    REFUSED(mend_wake(pool, NULL, 1, NULL));
    REFUSED(mend_prepare_checkpoint(NULL, NULL));
    if (!trial_passes_all(t)) { /* else nothing else is looked at */
        refuse_ranges(t, pool, stream);
        trial_expect(t, "an export of what is no memory", MEND_ERROR_FOREIGN_POINTER,
                     mend_export(pool, t, NULL, &(mend_export_token){{0}}, MEND_EXPORT_TOKEN_BYTES,
                                 NULL, NULL));
    }
    if (t->config.hooks) {
        refuse_devices(t, stream);
    }
}
