#include "cli/demo_run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "base/error.h"
#include "driver/driver.h"
#include "lab/support/capacity.h"

/* The part of a GPU's free memory that a workload may use: programs need some besides their
 * blocks. */
enum { USABLE_PERCENT = 90 };

typedef struct progress_line {
    const char *title;
    bool is_terminal;
} progress_line;

static void show_progress(void *context, const char *phase, uint64_t done_events,
                          uint64_t all_events)
{
    static const char bar[] = "##############################";
    enum { WIDTH = sizeof(bar) - 1 };
    const progress_line *line = context;
    if (line->is_terminal) {
        int filled = (int)(done_events * WIDTH / mend_max_u64(all_events, 1));
        fprintf(stderr, "\r  %-18s [%-*.*s] %s\033[K", line->title, WIDTH, filled, bar, phase);
    }
}

static void tell_outcome(const progress_line *line, const mend_demo_run *run)
{
    if (line->is_terminal) {
        fputs("\r\033[K", stderr);
    }
    if (run->result.completed && run->result.failed_again > 0) {
        fprintf(stderr, "  %-18s completed, %llu failed again\n", line->title,
                (unsigned long long)run->result.failed_again);
    } else if (run->result.completed) {
        fprintf(stderr, "  %-18s completed\n", line->title);
    } else {
        fprintf(stderr, "  %-18s out of memory at %.0f %%\n", line->title,
                mend_replay_reached_percent(&run->result));
    }
}

/* Notes the request at which the run ended, and the unused memory then. */
static void explain_failure(const mend_trace *trace, mend_demo_run *run)
{
    const mend_replay_result *result = &run->result;
    if (result->completed) {
        return;
    }
    uint64_t live_bytes = 0;
    if (result->sample_count > 0) {
        live_bytes = result->samples[result->sample_count - 1].live_bytes;
    }
    run->wanted_bytes = trace->events[result->failed_at_event].size_bytes;
    run->unused_bytes = result->capacity_bytes - mend_min_u64(live_bytes, result->capacity_bytes);
}

/* The smallest sufficient size for an allocator. It is searched for on the simulated device, which
 * is quick and can be larger than any GPU. */
static mend_result find_fit(const mend_trace *trace, const char *policy, progress_line *line,
                            double *fit_factor)
{
    mend_capacity fit = {.kind = MEND_CAPACITY_FIT};
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    options.progress = show_progress;
    options.progress_context = line;
    mend_replay_result result;
    mend_result outcome = mend_replay_run(trace, policy, &fit, &options, &result);
    if (outcome == MEND_OK) {
        *fit_factor = result.fitted ? result.fit_factor : 0;
        mend_replay_result_clear(&result);
    }
    return outcome;
}

/* The result of an earlier act for the same program. NULL: none. */
static const mend_demo_act *act_of_same(const mend_demo_report *report, const mend_demo_act *act)
{
    for (const mend_demo_act *before = report->acts; before < act; before++) {
        if (strcmp(before->scene->source, act->scene->source) == 0) {
            return before;
        }
    }
    return NULL;
}

/* `known_fit`: the smallest sufficient size, where an act before found it. 0: search for it. */
static mend_result run_one(const mend_trace *trace, mend_demo_act *act, size_t allocator,
                           double known_fit, bool is_searched)
{
    progress_line line = {mend_demo_allocators[allocator].title, isatty(STDERR_FILENO) != 0};
    const char *policy = mend_demo_allocators[allocator].policy;
    mend_capacity capacity = {.kind = act->scene->memory_bytes != 0 ? MEND_CAPACITY_BYTES
                                                                    : MEND_CAPACITY_FACTOR,
                              .bytes = act->scene->memory_bytes,
                              .factor = act->scene->factor};
    mend_replay_options options = MEND_REPLAY_OPTIONS_INIT;
    options.device = act->on_gpu ? MEND_REPLAY_CUDA : MEND_REPLAY_SIM;
    options.sample_limit = trace->event_count + 1; /* every event, because peaks are short */
    options.progress = show_progress;
    options.progress_context = &line;
    mend_demo_run *run = &act->runs[allocator];
    mend_result result = mend_replay_run(trace, policy, &capacity, &options, &run->result);
    if (result != MEND_OK) {
        return result;
    }
    act->capacity_bytes = run->result.capacity_bytes;
    explain_failure(trace, run);
    if (known_fit != 0) {
        run->fit_factor = known_fit;
    } else if (is_searched) {
        result = find_fit(trace, policy, &line, &run->fit_factor);
    }
    tell_outcome(&line, run);
    return result;
}

/* Device 0 of the CUDA driver: its name and its free memory. 0: there is none. */
static uint64_t find_gpu(char *name, size_t size)
{
    const mend_driver *driver;
    int count = 0;
    mend_device_info info = {0};
    if (mend_cuda_driver(&driver) != MEND_OK ||
        driver->device_count(driver, &count) != MEND_DRIVER_OK || count == 0 ||
        driver->device_open(driver, 0, &info) != MEND_DRIVER_OK) {
        return 0;
    }
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    if (info.virtual_memory && driver->context_push(driver, info.context) == MEND_DRIVER_OK) {
        if (driver->memory_info(driver, &free_bytes, &total_bytes) != MEND_DRIVER_OK) {
            free_bytes = 0;
        }
        driver->context_pop(driver);
        snprintf(name, size, "%s", info.name);
    }
    driver->device_close(driver, 0);
    return free_bytes;
}

/* The GPU, or the text if there is none. */
typedef struct demo_gpu {
    mend_demo_device device;
    uint64_t free_bytes;
    char name[128];
} demo_gpu;

static demo_gpu choose_device(mend_demo_device device)
{
    demo_gpu chosen = {.device = device};
    chosen.free_bytes = device == MEND_DEMO_SIM ? 0 : find_gpu(chosen.name, sizeof(chosen.name));
    return chosen;
}

/* Why the GPU cannot be used. */
static mend_result refuse_gpu(const demo_gpu *gpu, uint64_t needed_bytes)
{
    const mend_driver *driver;
    const mend_result result = mend_cuda_driver(&driver);
    char needed[32];
    char free_text[32];
    if (result != MEND_OK) {
        return result; /* mend_get_last_error says why there is no driver */
    }
    mend_format_bytes(needed_bytes / USABLE_PERCENT * 100, needed, sizeof(needed));
    mend_format_bytes(gpu->free_bytes, free_text, sizeof(free_text));
    return gpu->name[0] == '\0'
               ? mend_fail(MEND_ERROR_NO_DEVICE,
                           "the CUDA driver has no device 0 with virtual memory")
               : mend_fail(MEND_ERROR_NO_DEVICE,
                           "%s has %s free, and the workload needs %s: use --device sim", gpu->name,
                           free_text, needed);
}

static mend_result run_act(const mend_demo_scene *scene, const mend_trace *trace,
                           const demo_gpu *gpu, mend_demo_report *report)
{
    mend_demo_act *act = &report->acts[report->act_count++];
    act->scene = scene;
    act->event_count = trace->event_count;
    act->peak_live_bytes = trace->peak_live_bytes;
    uint64_t needed_bytes = scene->memory_bytes != 0
                                ? scene->memory_bytes
                                : (uint64_t)((double)trace->peak_live_bytes * scene->factor);
    act->on_gpu = needed_bytes <= gpu->free_bytes / 100 * USABLE_PERCENT;
    fprintf(stderr, "%s, %zu events, on %s\n", scene->title, trace->event_count,
            act->on_gpu ? "the GPU" : "the simulated device");
    mend_result result = MEND_OK;
    if (act->on_gpu) {
        snprintf(report->gpu, sizeof(report->gpu), "%s", gpu->name);
    } else if (gpu->device == MEND_DEMO_CUDA) {
        result = refuse_gpu(gpu, needed_bytes);
    }
    for (size_t i = 0; i < MEND_DEMO_ALLOCATORS && result == MEND_OK; i++) {
        const mend_demo_act *same = act_of_same(report, act);
        /* Of a made-up program on a large device the search would take minutes. */
        bool is_searched = report->own != NULL || mend_demo_source_is_recording(scene);
        result = run_one(trace, act, i, same != NULL ? same->runs[i].fit_factor : 0, is_searched);
    }
    return result;
}

mend_result mend_demo_run_all(mend_demo_device device, const char *folder, mend_demo_report *report)
{
    *report = (mend_demo_report){0};
    demo_gpu gpu = choose_device(device);
    mend_result result = MEND_OK;
    for (size_t i = 0; i < MEND_DEMO_SCENES && result == MEND_OK; i++) {
        mend_trace *trace;
        result = mend_demo_load(&mend_demo_scenes[i], folder, &trace);
        if (result == MEND_OK) {
            result = run_act(&mend_demo_scenes[i], trace, &gpu, report);
            mend_trace_destroy(trace);
        }
    }
    return result;
}

mend_result mend_demo_run_own(mend_demo_device device, const char *source, uint64_t capacity_bytes,
                              mend_demo_report *report)
{
    *report = (mend_demo_report){0};
    demo_gpu gpu = choose_device(device);
    mend_demo_scene scene = {.source = source};
    mend_result result = mend_demo_load(&scene, NULL, &report->own);
    if (result != MEND_OK) {
        return result;
    }
    if (report->own->note[0] != '\0') {
        fprintf(stderr, "libmend demo: %s: %s\n", source, report->own->note);
    }
    mend_demo_own_scenes(report->own, capacity_bytes, report->own_scenes);
    for (size_t i = 0; i < MEND_DEMO_OWN_SCENES && result == MEND_OK; i++) {
        result = run_act(&report->own_scenes[i], report->own, &gpu, report);
    }
    return result;
}
