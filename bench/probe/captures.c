/*
 * The capture matrix: each call, made beside a capture of each mode, in a thread of each mode, the
 * capturing one and another. Calls of streams are made for the captured stream, another one, the
 * legacy stream, and the legacy stream beside a captured blocking one. The result of the call, and
 * whether the capture survives. Each cell has a capture of its own.
 */
#include <pthread.h>
#include <string.h>

#include "probe/capture_calls.h"
#include "probe/questions.h"

static const char *const modes[] = {"global", "thread-local", "relaxed"};
enum { MODE_COUNT = 3 };

/* The stream of the call, and the kind of the captured stream. */
typedef struct variant {
    const char *name;
    capture_target target;
    bool captures_blocking;
    bool has_stream; /* for calls with a stream, else for calls without one */
} variant;

static const variant variants[] = {
    {"captured", TARGET_CAPTURED, false, true},
    {"other", TARGET_OTHER, false, true},
    {"legacy", TARGET_LEGACY, false, true},
    {"legacy beside blocking", TARGET_LEGACY, true, true},
    {"-", TARGET_OTHER, false, false},
    {"- beside blocking", TARGET_OTHER, true, false},
};
enum { VARIANT_COUNT = sizeof(variants) / sizeof(variants[0]) };

typedef struct cell {
    probe *p;
    const capture_call *call;
    capture_setting setting;
    int thread_mode;
    mend_status answer;
    mend_status end; /* of the capture */
    bool has_graph;
} cell;

/* The number of captures, and their ends. */
typedef struct tally {
    unsigned kept;
    unsigned spoilt;
    unsigned never_begun;
} tally;

/* The call itself, in a thread of the cell's mode. */
static void make_call(cell *c)
{
    mend_capture_mode mode = (mend_capture_mode)c->thread_mode;
    c->p->driver->exchange_capture_mode(c->p->driver, &mode);
    c->answer = c->call->make(c->p, &c->setting);
    c->p->driver->exchange_capture_mode(c->p->driver, &mode);
}

static void *make_call_elsewhere(void *argument)
{
    cell *c = argument;
    c->p->driver->context_push(c->p->driver, c->p->info.context);
    make_call(c);
    c->p->driver->context_pop(c->p->driver);
    return NULL;
}

/* False: the capture could not even begin. */
static bool run_cell(cell *c, int capture_mode, bool elsewhere)
{
    const probe_program *program = &c->p->program;
    pthread_t thread;
    void *graph = NULL;
    c->answer = program->begin_capture(c->setting.captured, capture_mode);
    if (c->answer != MEND_DRIVER_OK) {
        return false;
    }
    if (!elsewhere) {
        make_call(c);
    } else if (pthread_create(&thread, NULL, make_call_elsewhere, c) == 0) {
        pthread_join(thread, NULL);
    }
    c->end = program->end_capture(c->setting.captured, &graph);
    c->has_graph = graph != NULL;
    if (graph != NULL) {
        program->graph_destroy(graph);
    }
    return true;
}

static void record_cell(cell *c, const char *capture_mode, const variant *which, bool elsewhere,
                        bool began, tally *sum)
{
    bool survived = began && c->end == MEND_DRIVER_OK && c->has_graph;
    mend_json record = probe_record(c->p, "capture");
    mend_json_string(&record, "call", c->call->name);
    mend_json_string(&record, "capture_mode", capture_mode);
    mend_json_string(&record, "thread_mode", modes[c->thread_mode]);
    mend_json_string(&record, "thread", elsewhere ? "other" : "same");
    mend_json_string(&record, "stream", which->name);
    mend_json_bool(&record, "began", began);
    mend_json_integer(&record, "answer", (uint64_t)c->answer);
    mend_json_string(&record, "name", probe_name(c->p, c->answer));
    mend_json_bool(&record, "survived", survived);
    mend_json_integer(&record, "end", (uint64_t)c->end);
    probe_record_end(c->p, &record);
    unsigned *which_sum = !began ? &sum->never_begun : survived ? &sum->kept : &sum->spoilt;
    ++*which_sum;
    printf("  %4d %-7s", c->answer, !began ? "never" : survived ? "kept" : "SPOILT");
}

/* A line of the table: one cell for each mode of the thread. False: the device is lost. */
static bool probe_row(probe *p, const capture_call *call, int capture_mode, const variant *which,
                      bool elsewhere, tally *sum)
{
    bool lost = false;
    printf("%-20s %-13s %-23s %-6s", call->name, modes[capture_mode], which->name,
           elsewhere ? "other" : "same");
    for (int thread_mode = 0; thread_mode < MODE_COUNT && !lost; thread_mode++) {
        cell c = {.p = p, .call = call, .thread_mode = thread_mode};
        mend_status status =
            capture_setting_open(p, &c.setting, call, which->target, which->captures_blocking);
        if (status == MEND_DRIVER_OK) {
            bool began = run_cell(&c, capture_mode, elsewhere);
            record_cell(&c, modes[capture_mode], which, elsewhere, began, sum);
        } else {
            probe_expect(p, call->name, status);
        }
        capture_setting_close(p, &c.setting);
        lost = mend_status_is_fatal(status) || mend_status_is_fatal(c.answer) ||
               mend_status_is_fatal(c.end);
    }
    putchar('\n');
    return !lost;
}

void probe_captures(probe *p)
{
    size_t count = 0;
    tally sum = {0};
    const capture_call *calls = capture_calls(&count);
    /* The first launch loads a module, which is no call for a capture. */
    probe_expect(p, "a first kernel", p->driver->launch(p->driver, NULL, &(mend_kernel){0}));
    probe_expect(p, "a first kernel", p->driver->context_synchronize(p->driver));
    printf("%-20s %-13s %-23s %-6s  in a thread whose mode is\n%-65s  %-12s  %-12s  %-12s\n",
           "call", "capture", "stream", "thread", "", modes[0], modes[1], modes[2]);
    for (size_t i = 0; i < count; i++) {
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            for (size_t v = 0; v < VARIANT_COUNT; v++) {
                for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
                    if (variants[v].has_stream != calls[i].has_stream) {
                        continue;
                    }
                    if (probe_is_over(p) ||
                        !probe_row(p, &calls[i], mode, &variants[v], elsewhere == 1, &sum)) {
                        printf("stopped: time is over, or the device is lost\n");
                        return;
                    }
                }
            }
        }
    }
    printf("%u captures kept, %u spoilt, %u never begun\n", sum.kept, sum.spoilt, sum.never_begun);
}
