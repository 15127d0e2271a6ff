#include "tests/interleave/program.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/interleave/arena.h"

typedef struct worker {
    arena *arena;
    const program_list *list;
} worker;

static void work(void *context)
{
    const worker *w = context;
    arena_do_all(w->arena, w->list);
}

static void observe_call(void *context, const char *call, int is_after)
{
    (void)context;
    schedule_point(is_after ? "after" : "before", call);
}

/* A crash says how to repeat it, and goes on as it would have. Only functions for signal handlers.
 */
static const char *banner_of_crash;
static struct sigaction former_actions[2];
static const int crash_signals[2] = {SIGABRT, SIGSEGV};

static void write_banner(void)
{
    if (banner_of_crash != NULL) {
        ssize_t written = write(STDERR_FILENO, banner_of_crash, strlen(banner_of_crash));
        written += write(STDERR_FILENO, "\n", 1);
        (void)written;
    }
}

static void restore_actions(void)
{
    for (int i = 0; i < 2; i++) {
        sigaction(crash_signals[i], &former_actions[i], NULL);
    }
}

static void tell_crash(int signal_number)
{
    write_banner();
    restore_actions();
    raise(signal_number);
}

#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

static void catch_crashes(const char *banner)
{
    struct sigaction action = {.sa_handler = tell_crash};
    banner_of_crash = banner;
    for (int i = 0; i < 2; i++) {
        sigaction(crash_signals[i], &action, &former_actions[i]);
    }
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(write_banner);
#endif
}

static bool open_world(arena *a)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = a->program->memory_bytes;
    config.page_bytes = ARENA_PAGE_BYTES;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.has_no_context_events = a->program->lacks_events;
    if (mend_sim_create(&config, &a->sim) != MEND_OK) {
        arena_find(a, "no device could be made");
        return false;
    }
    bool is_fine = true;
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        is_fine = is_fine && mend_sim_stream_create(a->sim, NULL, &a->streams[i].handle) == MEND_OK;
    }
    for (int i = 0; i < a->program->pools; i++) {
        is_fine = is_fine && arena_open_pool(a, i);
    }
    for (int i = 0; i < PROGRAM_CALLBACKS; i++) {
        a->callbacks[i] = (arena_callback){.arena = a, .number = i};
    }
    for (int i = 0; i <= SCHEDULE_THREADS; i++) {
        a->threads[i].pool = -1;
    }
    return is_fine;
}

bool program_run(const program *p, const schedule_plan *plan, const char *banner, FILE *trace,
                 program_outcome *outcome)
{
    arena a = {.program = p, .outcome = outcome, .has_peer_pools = p->pools > 1};
    outcome->finding[0] = '\0';
    outcome->allocations = outcome->refused = outcome->skipped = 0;
    catch_crashes(banner);
    if (open_world(&a)) {
        arena_do_all(&a, &p->before);
        worker workers[SCHEDULE_THREADS];
        schedule_thread threads[SCHEDULE_THREADS];
        for (int i = 0; i < p->threads; i++) {
            workers[i] = (worker){&a, &p->work[i]};
            threads[i] = (schedule_thread){work, &workers[i]};
        }
        schedule s = {*plan, arena_watch, &a, trace, banner};
        mend_sim_set_call_observer(a.sim, observe_call, NULL);
        schedule_run(&s, threads, p->threads, &outcome->schedule);
        mend_sim_set_call_observer(a.sim, NULL, NULL);
        arena_end(&a);
        mend_sim_destroy(a.sim);
    }
    restore_actions();
    banner_of_crash = NULL;
    return outcome->finding[0] == '\0';
}

static void print_list(FILE *out, const char *title, int number, const program_list *list)
{
    static const char *const names[] = {
#define X(kind, act) #kind,
        PROGRAM_KINDS(X)
#undef X
    };
    for (int i = 0; i < list->count; i++) {
        const program_op *op = &list->ops[i];
        fprintf(out, "  %s %d: %s pool %d slot %d stream %d graph pool %d callback %d bytes %llu\n",
                title, number, names[op->kind], op->pool, op->slot, op->stream, op->graph_pool,
                op->callback, (unsigned long long)op->bytes);
    }
}

void program_print(FILE *out, const program *p)
{
    fprintf(out, "%d pools, %llu bytes of memory, limit %llu, unfenced %llu%s%s%s\n", p->pools,
            (unsigned long long)p->memory_bytes, (unsigned long long)p->limit_bytes,
            (unsigned long long)p->unfenced_bytes, p->lacks_events ? ", no context events" : "",
            p->may_vanish ? ", streams may vanish" : "", p->may_not_wait ? ", no waits" : "");
    print_list(out, "before", 0, &p->before);
    for (int i = 0; i < p->threads; i++) {
        print_list(out, "thread", i, &p->work[i]);
    }
    for (int i = 0; i < PROGRAM_CALLBACKS; i++) {
        print_list(out, "callback", i, &p->in_callback[i]);
    }
}
