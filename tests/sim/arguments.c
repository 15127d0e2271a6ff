/*
 * Arguments that no call takes, amid a trial: missing ones, too large ones, and impossible sizes,
 * beside the table of pool_misuse. The answer has a name, and nothing changes. And pools whose
 * settings come as a text of the environment: they are the same pools.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mend/mend_frameworks.h"
#include "pool/pool.h"
#include "tests/sim/arguments.h"
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
    REFUSED(mend_trim(NULL, 0, MEND_TRIM_WAIT, NULL));
    REFUSED(mend_trim(NULL, 0, MEND_TRIM_BY_POLICY, NULL));
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

/* Fields of a configuration that are impossible, beside those of pool_misuse. */
#define WRONG_FIELDS(X)                                                                            \
    X(capture_checks, 2)                                                                           \
    X(capture_checks, -2)                                                                          \
    X(rdma, 2)                                                                                     \
    X(rdma, -2)                                                                                    \
    X(shareable, -2)                                                                               \
    X(shareable, 4)                                                                                \
    X(limit_percent, -1)                                                                           \
    X(limit_percent, 101)                                                                          \
    X(log_level, -2)                                                                               \
    X(log_level, 99)                                                                               \
    X(idle_ms, UINT64_MAX)                                                                         \
    X(address_reservation_bytes, UINT64_MAX)

static void refuse_pools(trial *t)
{
    mend_pool *pool = NULL;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = t->traced;
#define X(field, value)                                                                            \
    {                                                                                              \
        mend_pool_config wrong = config;                                                           \
        wrong.field = value;                                                                       \
        trial_expect(t, #field " is " #value, MEND_ERROR_INVALID_ARGUMENT,                         \
                     mend_pool_create(&wrong, &pool));                                             \
    }
    WRONG_FIELDS(X)
#undef X
    static const char *const texts[] = {"limit",          "limit:0%",
                                        "limit:1.5",      "strategy:9",
                                        "peers:1+",       "shareable:yes",
                                        "rdma:no",        "shared_limit_file:",
                                        "idle_ms:0",      "strategy:9,",
                                        "log_level:loud", "nothing:1",
                                        "limit:1EiB",     "address_reservation:",
                                        "peers:63"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        setenv("MEND_CONF", texts[i], 1);
        trial_expect(t, texts[i], MEND_ERROR_INVALID_ARGUMENT, mend_pool_create(&config, &pool));
    }
    unsetenv("MEND_CONF");
    trial_claim(t, TRIAL_RESULT, pool == NULL, "a refused call touched its output");
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
    refuse_pools(t);
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

/* ---- settings as a text ---------------------------------------------------------------------- */

typedef struct text {
    char bytes[512];
    size_t length;
} text;

static void say(text *to, const char *key, const char *value)
{
    const char *comma = to->length > 0 ? "," : "";
    to->length += (size_t)snprintf(to->bytes + to->length, sizeof(to->bytes) - to->length,
                                   "%s%s:%s", comma, key, value);
}

static void say_bytes(text *to, const char *key, uint64_t *bytes)
{
    char value[40];
    const bool is_round = *bytes % MEND_KIB == 0;
    snprintf(value, sizeof(value), "%" PRIu64 "%s", is_round ? *bytes / MEND_KIB : *bytes,
             is_round ? "KiB" : "");
    if (*bytes > 0) {
        say(to, key, value);
        *bytes = 0;
    }
}

static void say_switch(text *to, const char *key, int *value)
{
    if (*value != 0) {
        say(to, key, *value > 0 ? "on" : "off");
        *value = 0;
    }
}

void trial_configure_by_text(mend_pool_config *config)
{
    static const char *const sharing[] = {"off", "on", "fabric"};
    text to = {.length = 0};
    say_bytes(&to, "limit", &config->limit_bytes);
    if (config->growth_percent != 0) {
        char value[16];
        snprintf(value, sizeof(value), "%d%%", config->growth_percent);
        say(&to, "growth", value);
        config->growth_percent = 0;
    }
    say_bytes(&to, "soft_limit", &config->soft_limit_bytes);
    say_bytes(&to, "min_free", &config->min_free_bytes);
    say_bytes(&to, "address_reservation", &config->address_reservation_bytes);
    say_switch(&to, "allow_stream_waits", &config->allow_stream_waits);
    say_switch(&to, "detect_destroyed_streams", &config->detect_destroyed_streams);
    say(&to, "shareable", sharing[config->shareable]);
    config->shareable = 0;
    if (config->strategy != 0) {
        say(&to, "strategy", (const char[]){(char)('0' + config->strategy), '\0'});
        config->strategy = 0;
    }
    if (config->observe != NULL) {
        say(&to, "observe", config->observe);
        config->observe = NULL;
    }
    if (config->shared_limit_file != NULL) {
        say(&to, "shared_limit_file", config->shared_limit_file);
        config->shared_limit_file = NULL;
    }
    if (config->record != NULL) {
        say(&to, "record", config->record);
        config->record = NULL;
    }
    say(&to, "peers", config->peers == 0 ? "auto" : config->peers == 2 ? "1" : "1+2");
    config->peers = 0;
    setenv("MEND_CONF", to.bytes, 1);
}
