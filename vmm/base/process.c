#include "base/process.h"

#include "base/mutex.h"

static _Thread_local mend_thread_error thread_error;
static _Thread_local unsigned thread_held_ranks;

static mend_mutex log_mutex = MEND_MUTEX_INITIALIZER(MEND_RANK_LOG);
static mend_log_sink log_sink;
static void *log_context;

static mend_mutex driver_mutex = MEND_MUTEX_INITIALIZER(MEND_RANK_PROCESS);
static const mend_driver *cuda_driver;

mend_thread_error *mend_process_error(void)
{
    return &thread_error;
}

unsigned *mend_process_held_ranks(void)
{
    return &thread_held_ranks;
}

void mend_process_get_log_sink(mend_log_sink *sink, void **context)
{
    mend_mutex_lock(&log_mutex);
    *sink = log_sink;
    *context = log_context;
    mend_mutex_unlock(&log_mutex);
}

void mend_process_set_log_sink(mend_log_sink sink, void *context)
{
    mend_mutex_lock(&log_mutex);
    log_sink = sink;
    log_context = context;
    mend_mutex_unlock(&log_mutex);
}

mend_result mend_process_cuda_driver(mend_result (*load)(const mend_driver **driver),
                                     const mend_driver **driver)
{
    mend_mutex_lock(&driver_mutex);
    mend_result result = cuda_driver != NULL ? MEND_OK : load(&cuda_driver);
    if (result == MEND_OK) {
        *driver = cuda_driver;
    }
    mend_mutex_unlock(&driver_mutex);
    return result;
}
