#include "tests/process/refused.h"
#include "tests/support/forked.h"

#include <string.h>

/* Puts another failure in the thread's last error, to see that the refused call replaces it. */
static void forget_last_error(void)
{
    CHECK(mend_pool_create(NULL, NULL) == MEND_ERROR_INVALID_ARGUMENT);
}

static void check_refusal(const char *file, int line, const char *call, mend_result result)
{
    mend_error error = MEND_ERROR_INIT;
    if (result != MEND_ERROR_FORKED || mend_get_last_error(&error) != MEND_OK ||
        error.result != MEND_ERROR_FORKED || strstr(error.message, "fork") == NULL) {
        scene_fail(file, line, call);
    }
    forget_last_error();
}

#define REFUSED(call) check_refusal(__FILE__, __LINE__, #call " is refused", call);

static int release_nothing(void *context, mend_pool *pool, uint64_t needed_bytes)
{
    (void)context;
    (void)pool;
    (void)needed_bytes;
    return 0;
}

void refused_check(const rig *inherited)
{
    forked of_parent = {.pool = inherited->pool,
                        .stream = inherited->streams[0],
                        .block = inherited->kept,
                        .callback = release_nothing,
                        FORKED_INIT};
    forked *f = &of_parent;
    forget_last_error();
    for (int i = 0; i < 2; i++) { /* a refused destroy frees nothing: all can be asked again */
        FORKED_CALLS(REFUSED)
        REFUSED(mend_graph_pool_begin(inherited->graph_pool, f->stream))
        REFUSED(mend_graph_pool_end(inherited->graph_pool))
        REFUSED(mend_graph_pool_destroy(inherited->graph_pool, f->stream))
        CHECK(mend_free(f->pool, NULL, f->stream) == MEND_OK);
        CHECK(forked_is_untouched(f));
    }
    CHECK(mend_pool_destroy(NULL) == MEND_OK);
}
