#include "tests/process/refused.h"
#include "tests/support/options.h"

#include <string.h>

/* Puts another failure in the thread's last error, to see that the refused call replaces it. */
static void forget_last_error(void)
{
    CHECK(mend_pool_create(NULL, NULL) == MEND_ERROR_INVALID_ARGUMENT);
}

static void check_refusal(const char *file, int line, const char *call, mend_result result)
{
    mend_error error = MEND_ERROR_INIT;
    if (result != MEND_ERROR_FORKED || mend_last_error(&error) != MEND_OK ||
        error.result != MEND_ERROR_FORKED || strstr(error.message, "fork") == NULL) {
        scene_fail(file, line, call);
    }
    forget_last_error();
}

#define REFUSED(call) check_refusal(__FILE__, __LINE__, #call " is refused", call)

static int release_nothing(void *context, mend_pool *pool, uint64_t needed_bytes,
                           uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)context;
    (void)pool;
    (void)needed_bytes;
    return 0;
}

static void check_blocks(const rig *inherited)
{
    mend_pool *pool = inherited->pool;
    mend_stream stream = inherited->streams[0];
    void *block = inherited->kept;
    char mark;
    void *pointer = &mark;
    REFUSED(mend_alloc(pool, 4096, stream, &pointer));
    REFUSED(mend_alloc_with(pool, 4096, stream,
                            KIT_OPTIONS(mend_alloc_options, .alignment_bytes = 4096), &pointer));
    CHECK(pointer == &mark);
    CHECK(mend_free(pool, NULL, stream) == MEND_OK);
    REFUSED(mend_free(pool, block, stream));
    REFUSED(mend_free(pool, block, MEND_NO_STREAM));
    REFUSED(mend_free(pool, &mark, stream));
    REFUSED(mend_record_stream(pool, block, inherited->streams[1]));
    REFUSED(mend_forget_stream(pool, stream));
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    REFUSED(mend_get_block_info(pool, block, &info));
    CHECK(info.base == NULL);
}

static void check_pool(mend_pool *pool)
{
    uint64_t released = 7;
    REFUSED(mend_trim(pool, 0, MEND_TRIM_IDLE, &released));
    CHECK(released == 7);
    REFUSED(mend_set_limit(pool, 1 << 20));
    REFUSED(mend_add_pressure_callback(pool, release_nothing, NULL));
    REFUSED(mend_remove_pressure_callback(pool, release_nothing, NULL));
    mend_stats stats = MEND_STATS_INIT;
    REFUSED(mend_get_stats(pool, &stats));
    CHECK(stats.limit_bytes == 0);
    REFUSED(mend_reset_peak_stats(pool));
    REFUSED(mend_audit(pool));
}

static void check_groups(const rig *inherited)
{
    mend_group *group = NULL;
    REFUSED(mend_group_create(inherited->pool, &group));
    CHECK(group == NULL);
    REFUSED(mend_group_begin(inherited->group, inherited->streams[0]));
    REFUSED(mend_group_end(inherited->group));
    REFUSED(mend_group_destroy(inherited->group, inherited->streams[0]));
}

void refused_check(const rig *inherited)
{
    forget_last_error();
    for (int i = 0; i < 2; i++) { /* a refused destroy frees nothing: all can be asked again */
        check_blocks(inherited);
        check_pool(inherited->pool);
        check_groups(inherited);
        REFUSED(mend_pool_destroy(inherited->pool));
    }
    CHECK(mend_pool_destroy(NULL) == MEND_OK);
}
