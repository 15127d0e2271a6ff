#include "lab/replay/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/replay/explain.h"
#include "lab/replay/tasks.h"
#include "lab/support/histogram.h"

typedef struct replay_session {
    const mend_trace *trace;
    const mend_replay_options *options;
    const char *phase;
    bool is_probe;
    unsigned threads;
    mend_replay_rig rig;
    mend_peer *peer;
    mend_replay_use *uses;   /* by block. Address 0: not live */
    uint16_t *block_threads; /* the thread that allocated, by block. If there are several threads */
    pthread_mutex_t mutex;   /* guards `result` while threads run */
    mend_replay_result *result;
    mend_replay_traffic traffic_at_half;
    mend_replay_costs costs_at_half;
    mend_felt *felt;  /* NULL: not of this run */
    uint64_t felt_ns; /* of the rows so far */
    uint64_t felt_syncs;
    mend_histogram alloc_ns; /* of all threads, after they have ended */
    mend_histogram free_ns;
    uint64_t sample_every;
    uint64_t progress_every;
    _Atomic uint64_t live_bytes;
    _Atomic uint64_t started; /* events begun by any thread */
    atomic_bool stopped;
} replay_session;

/* State of one thread. */
typedef struct replay_worker {
    replay_session *session;
    unsigned number;
    pthread_t thread;
    mend_histogram alloc_ns;
    mend_histogram free_ns;
} replay_worker;

static uint64_t host_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- how a run ends early -------------------------------------------------------------------- */

static void stop_at(replay_session *session, size_t event)
{
    mend_replay_result *result = session->result;
    if (result->completed || event < result->failed_at_event) {
        result->completed = false;
        result->failed_at_event = event;
    }
    atomic_store(&session->stopped, true);
}

/* False: the run ends. */
static bool out_of_memory(replay_session *session, size_t event)
{
    const bool goes_on = mend_trace_may_fail(session->trace, event);
    pthread_mutex_lock(&session->mutex);
    if (goes_on) {
        session->result->failed_again++;
    } else {
        stop_at(session, event);
    }
    pthread_mutex_unlock(&session->mutex);
    return goes_on;
}

static void broken(replay_session *session, size_t event, const char *what, mend_result why)
{
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    const char *detail = error.result == why ? error.message : "";
    pthread_mutex_lock(&session->mutex);
    mend_replay_note_problem(session->result, "event %zu: %s gave %s %s", event, what,
                             mend_result_name(why), detail);
    stop_at(session, event);
    pthread_mutex_unlock(&session->mutex);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool replay_alloc(replay_worker *worker, size_t index, const mend_trace_event *event)
{
    replay_session *session = worker->session;
    mend_replay_use *use = &session->uses[event->block];
    uint64_t address = 0;
    bool timed = !session->is_probe;
    uint64_t start_ns = timed ? host_ns() : 0;
    mend_result result = session->peer->operations->alloc(
        session->peer, event->size_bytes, session->rig.streams[event->stream], &address);
    if (timed) {
        mend_histogram_add(&worker->alloc_ns, host_ns() - start_ns);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        return out_of_memory(session, index);
    }
    if (result != MEND_OK) {
        broken(session, index, "alloc", result);
        return false;
    }
    *use = (mend_replay_use){.address = address,
                             .size_bytes = event->size_bytes,
                             .tag = (uint64_t)event->block + 1,
                             .stream = event->stream};
    atomic_fetch_add(&session->live_bytes, mend_align_up(event->size_bytes, MEND_GRANULE_BYTES));
    result = mend_replay_rig_first_use(&session->rig, use);
    if (result != MEND_OK) {
        broken(session, index, "the block's first use", result);
    }
    return result == MEND_OK;
}

static bool replay_free(replay_worker *worker, size_t index, uint16_t stream, mend_replay_use *use)
{
    replay_session *session = worker->session;
    mend_result result = mend_replay_rig_last_use(&session->rig, use, stream);
    if (result != MEND_OK) {
        broken(session, index, "the block's last use", result);
        return false;
    }
    bool timed = !session->is_probe;
    uint64_t start_ns = timed ? host_ns() : 0;
    result =
        session->peer->operations->free(session->peer, use->address, session->rig.streams[stream]);
    if (timed) {
        mend_histogram_add(&worker->free_ns, host_ns() - start_ns);
    }
    if (result != MEND_OK) {
        broken(session, index, "free", result);
        return false;
    }
    atomic_fetch_sub(&session->live_bytes, mend_align_up(use->size_bytes, MEND_GRANULE_BYTES));
    use->address = 0;
    return true;
}

/* A free of a block that was never allocated does nothing: of size 0, or of a request that failed.
 */
static bool replay_event(replay_worker *worker, size_t index)
{
    replay_session *session = worker->session;
    const mend_trace_event *event = &session->trace->events[index];
    mend_replay_rig_tick(&session->rig);
    const bool is_absent = event->has_failed && session->uses[event->block].address == 0;
    if (event->size_bytes == 0 || (!event->is_alloc && is_absent)) {
        return true;
    }
    return event->is_alloc
               ? replay_alloc(worker, index, event)
               : replay_free(worker, index, event->stream, &session->uses[event->block]);
}

/* ---- what is observed while it runs ---------------------------------------------------------- */

static void take_sample(replay_session *session, uint64_t event)
{
    mend_replay_result *result = session->result;
    if (result->sample_count == session->options->sample_limit) {
        return;
    }
    mend_peer_usage usage;
    session->peer->operations->get_usage(session->peer, &usage);
    result->samples[result->sample_count++] =
        (mend_replay_sample){event, atomic_load(&session->live_bytes), usage.reserved_bytes};
}

static void begin_event(replay_session *session, uint64_t started)
{
    const mend_replay_options *options = session->options;
    if (started == session->trace->event_count / 2) {
        mend_replay_rig_read(&session->rig, &session->traffic_at_half);
        mend_replay_rig_read_costs(&session->rig, &session->costs_at_half);
    }
    if (options->progress != NULL && started % session->progress_every == 0) {
        options->progress(options->progress_context, session->phase, started,
                          session->trace->event_count);
    }
}

static mend_replay_view view_of(const replay_session *session)
{
    return (mend_replay_view){.trace = session->trace,
                              .options = session->options,
                              .peer = session->peer,
                              .streams = session->rig.streams,
                              .uses = session->uses,
                              .is_probe = session->is_probe};
}

/* Called just after an event. */
static void look(const replay_session *session, uint64_t event)
{
    if (session->options->explain) {
        mend_replay_view view = view_of(session);
        mend_replay_look(&view, event, atomic_load(&session->live_bytes), session->result);
    }
}

/* The cost of the row. */
static void feel(replay_session *session, size_t event)
{
    if (session->felt == NULL) {
        return;
    }
    uint64_t driver_ns;
    uint64_t host_syncs;
    mend_replay_rig_read_felt(&session->rig, &driver_ns, &host_syncs);
    mend_felt_row(session->felt, session->trace->events[event].is_alloc,
                  driver_ns - session->felt_ns, host_syncs > session->felt_syncs);
    session->felt_ns = driver_ns;
    session->felt_syncs = host_syncs;
}

/* The thread for an event: all events of a block belong to the thread of its allocation. If the
 * trace has fewer threads than the run, its blocks are dealt out to all threads of the run. */
static unsigned owner_of(const replay_session *session, const mend_trace_event *event)
{
    if (session->trace->thread_count < session->threads) {
        return event->block % session->threads;
    }
    return session->block_threads[event->block] % session->threads;
}

static bool replay_row(void *context, size_t i)
{
    replay_worker *worker = context;
    replay_session *session = worker->session;
    begin_event(session, i);
    if (!replay_event(worker, i)) {
        return false;
    }
    feel(session, i);
    look(session, i);
    if (session->sample_every != 0 &&
        (i % session->sample_every == 0 || i + 1 == session->trace->event_count)) {
        take_sample(session, i);
    }
    return true;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *replay_share(void *context)
{
    replay_worker *worker = context;
    replay_session *session = worker->session;
    mend_result result = mend_replay_rig_enter(&session->rig);
    if (result != MEND_OK) {
        broken(session, 0, "entering a thread", result);
        return NULL;
    }
    const mend_trace *trace = session->trace;
    for (size_t i = 0; i < trace->event_count && !atomic_load(&session->stopped); i++) {
        if (owner_of(session, &trace->events[i]) != worker->number) {
            continue;
        }
        uint64_t started = atomic_fetch_add(&session->started, 1);
        pthread_mutex_lock(&session->mutex);
        begin_event(session, started);
        pthread_mutex_unlock(&session->mutex);
        if (!replay_event(worker, i)) {
            break;
        }
    }
    mend_replay_rig_leave(&session->rig);
    return NULL;
}

static void merge_times(replay_session *session, const replay_worker *worker)
{
    mend_histogram_merge(&session->alloc_ns, &worker->alloc_ns);
    mend_histogram_merge(&session->free_ns, &worker->free_ns);
}

static mend_result run_threads(replay_session *session)
{
    replay_worker *workers = calloc(session->threads, sizeof(replay_worker));
    if (workers == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for threads");
    }
    unsigned begun = 0;
    for (; begun < session->threads; begun++) {
        workers[begun].session = session;
        workers[begun].number = begun;
        if (pthread_create(&workers[begun].thread, NULL, replay_share, &workers[begun]) != 0) {
            atomic_store(&session->stopped, true);
            break;
        }
    }
    for (unsigned i = 0; i < begun; i++) {
        pthread_join(workers[i].thread, NULL);
        merge_times(session, &workers[i]);
    }
    free(workers);
    return begun == session->threads
               ? MEND_OK
               : mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "a thread cannot be started");
}

static mend_result replay_together(replay_session *session)
{
    const mend_trace *trace = session->trace;
    session->block_threads = calloc(trace->block_count + 1, sizeof(uint16_t));
    if (session->block_threads == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the replay");
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].is_alloc) {
            session->block_threads[trace->events[i].block] = trace->events[i].thread;
        }
    }
    return run_threads(session);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static mend_result replay_all(replay_session *session)
{
    if (session->threads > 1) {
        return replay_together(session);
    }
    replay_worker *alone = calloc(1, sizeof(replay_worker));
    if (alone == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the replay");
    }
    alone->session = session;
    mend_result result =
        mend_replay_rows(&session->rig, session->trace->event_count, replay_row, alone);
    merge_times(session, alone);
    free(alone);
    return result;
}

static mend_replay_latency latency_of(const mend_histogram *histogram)
{
    uint64_t count = histogram->count;
    return (mend_replay_latency){.calls = count,
                                 .mean_ns = count == 0 ? 0 : histogram->sum / count,
                                 .p50_ns = mend_histogram_quantile(histogram, 0.50),
                                 .p99_ns = mend_histogram_quantile(histogram, 0.99),
                                 .p999_ns = mend_histogram_quantile(histogram, 0.999),
                                 .max_ns = histogram->max};
}

static void subtract_calls(mend_replay_calls *from, const mend_replay_calls *calls)
{
#define X(call) from->call##_calls -= calls->call##_calls;
    MEND_REPLAY_CALLS(X)
#undef X
}

/* Takes the figures. Nothing after this is measured. */
static void take_figures(replay_session *session)
{
    mend_replay_result *result = session->result;
    mend_replay_traffic traffic;
    mend_replay_rig_read(&session->rig, &traffic);
    mend_peer_usage usage;
    session->peer->operations->get_usage(session->peer, &usage);
    bool reached_half =
        result->completed || result->failed_at_event >= session->trace->event_count / 2;
    if (!reached_half) {
        session->traffic_at_half = traffic;
        mend_replay_rig_read_costs(&session->rig, &session->costs_at_half);
    }
    result->peak_reserved_bytes = usage.peak_reserved_bytes;
    result->bytes_copied = usage.copied_bytes;
    result->placed = usage.placed;
    result->host_syncs = traffic.host_syncs;
    result->creates_refused = traffic.creates_refused;
    result->driver_time_us = traffic.time_us;
    result->driver_time_second_half_us = traffic.time_us - session->traffic_at_half.time_us;
    size_t compared = mend_replay_compared_list(session->options);
    result->time_us = traffic.by_list;
    for (size_t i = 0; i < MEND_REPLAY_LISTS; i++) {
        result->time_second_half_us.us[i] =
            traffic.by_list.us[i] - session->traffic_at_half.by_list.us[i];
    }
    result->compared_time_us = result->time_us.us[compared];
    result->compared_time_second_half_us = result->time_second_half_us.us[compared];
    result->calls = traffic.calls;
    result->calls_second_half = traffic.calls;
    subtract_calls(&result->calls_second_half, &session->traffic_at_half.calls);
    result->is_felt = session->felt != NULL && result->completed;
    if (result->is_felt) {
        result->felt = mend_felt_result(session->felt);
    }
    result->alloc_ns = latency_of(&session->alloc_ns);
    result->free_ns = latency_of(&session->free_ns);
    if (result->explanation != NULL) {
        mend_replay_view view = view_of(session);
        mend_replay_costs costs;
        mend_replay_rig_read_costs(&session->rig, &costs);
        mend_replay_look_at_end(&view, &costs, &session->costs_at_half, result);
    }
}

/* Frees live blocks, so that their content is checked and nothing is leaked. */
static void free_living(replay_session *session)
{
    replay_worker *worker = calloc(1, sizeof(replay_worker));
    if (worker == NULL) {
        mend_replay_note_problem(session->result, "no host memory to end the run");
        return;
    }
    worker->session = session;
    for (size_t i = 0; i < session->trace->block_count; i++) {
        mend_replay_use *use = &session->uses[i];
        if (use->address != 0 &&
            !replay_free(worker, session->trace->event_count, use->stream, use)) {
            break;
        }
    }
    free(worker);
}

static void end_run(replay_session *session)
{
    bool completed = session->result->completed;
    uint64_t failed_at_event = session->result->failed_at_event;
    free_living(session);
    session->result->completed = completed;
    session->result->failed_at_event = failed_at_event;
    mend_result result = mend_replay_rig_finish(&session->rig);
    mend_result destroyed = session->peer->operations->destroy(session->peer);
    if (result != MEND_OK || destroyed != MEND_OK) {
        mend_replay_note_problem(session->result, "the end of the run gave %s",
                                 mend_result_name(result != MEND_OK ? result : destroyed));
    }
}

static mend_result prepare(replay_session *session)
{
    const mend_trace *trace = session->trace;
    bool explains = session->options->explain && !session->is_probe;
    size_t samples = session->is_probe || session->threads > 1 ? 0 : session->options->sample_limit;
    session->result->explanation = explains ? calloc(1, sizeof(mend_replay_explanation)) : NULL;
    const bool feels =
        session->options->device == MEND_REPLAY_SIM && session->threads == 1 && !session->is_probe;
    session->felt = feels ? mend_felt_create(trace->event_count) : NULL;
    session->uses = calloc(trace->block_count + 1, sizeof(mend_replay_use));
    session->result->samples = samples > 0 ? calloc(samples, sizeof(mend_replay_sample)) : NULL;
    if (session->uses == NULL || (feels && session->felt == NULL) ||
        (samples > 0 && session->result->samples == NULL) ||
        (explains && session->result->explanation == NULL)) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the replay");
    }
    if (samples > 0) {
        /* One sample is kept for the last event. */
        uint64_t spread = samples > 1 ? samples - 1 : 1;
        session->sample_every = (trace->event_count + spread - 1) / spread;
    }
    session->progress_every = trace->event_count / 100 + 1;
    return MEND_OK;
}

/* The policy's limit. A model that releases memory only when the device refuses gets none. So it
 * makes the refused calls, and undoes earlier creations. A GPU has more memory than the capacity,
 * so the allocator must keep the limit. If ballast fills the device there is no limit, as for
 * programs with a whole device. */
static uint64_t limit_of(const mend_replay_rig *rig, const mend_peer_policy *policy)
{
    bool device_refuses = rig->ballast.size_bytes > 0;
    return device_refuses || (rig->sim != NULL && policy->limit_only_refuses) ? 0
                                                                              : rig->limit_bytes;
}

static mend_result run(replay_session *session, const mend_peer_policy *policy,
                       uint64_t capacity_bytes)
{
    mend_result result = prepare(session);
    if (result != MEND_OK) {
        return result;
    }
    result = mend_replay_rig_open(&session->rig, session->trace, session->options, capacity_bytes);
    if (result != MEND_OK) {
        return result;
    }
    mend_replay_result *figures = session->result;
    figures->completed = true;
    figures->limited = capacity_bytes != 0;
    figures->capacity_bytes = session->rig.capacity_bytes;
    figures->page_bytes = session->rig.page_bytes;
    figures->ballast_bytes = session->rig.ballast.size_bytes;
    figures->events = session->trace->event_count;
    figures->peak_live_bytes = session->trace->peak_live_bytes;
    mend_peer_config config = {.driver = session->rig.driver,
                               .limit_bytes = limit_of(&session->rig, policy)};
    result = policy->create(&config, &session->peer);
    if (result == MEND_OK) {
        result = replay_all(session);
        take_figures(session);
        end_run(session);
    }
    mend_replay_rig_close(&session->rig, figures);
    return result;
}

mend_result mend_replay_session(const mend_trace *trace, const mend_peer_policy *policy,
                                uint64_t capacity_bytes, const mend_replay_options *options,
                                bool is_probe, const char *phase, mend_replay_result *result)
{
    *result = (mend_replay_result){0};
    replay_session *session = calloc(1, sizeof(replay_session));
    if (session == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the replay");
    }
    session->trace = trace;
    session->options = options;
    session->phase = phase;
    session->is_probe = is_probe;
    session->threads = options->threads > 1 ? options->threads : 1;
    session->result = result;
    pthread_mutex_init(&session->mutex, NULL);
    mend_result outcome = run(session, policy, capacity_bytes);
    pthread_mutex_destroy(&session->mutex);
    free(session->uses);
    free(session->felt);
    free(session->block_threads);
    free(session);
    if (outcome != MEND_OK) {
        mend_replay_result_clear(result);
    }
    return outcome;
}
