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

/* A crash says how to repeat it. Only what a signal handler may call. */
static const char *banner_of_crash;

static void tell_banner(int signal_number)
{
    if (banner_of_crash != NULL) {
        ssize_t written = write(STDERR_FILENO, banner_of_crash, strlen(banner_of_crash));
        written += write(STDERR_FILENO, "\n", 1);
        (void)written;
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static bool open_world(arena *a)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = a->program->memory_bytes;
    config.page_bytes = ARENA_PAGE_BYTES;
    config.content = MEND_SIM_CONTENT_BYTES;
    if (mend_sim_create(&config, &a->sim) != MEND_OK) {
        arena_find(a, "no device could be made");
        return false;
    }
    bool is_fine = true;
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        is_fine = is_fine && mend_sim_stream_create(a->sim, &a->streams[i].handle) == MEND_OK;
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
    arena a = {.program = p, .outcome = outcome, .has_siblings = p->pools > 1};
    outcome->finding[0] = '\0';
    outcome->allocations = outcome->refused = outcome->skipped = 0;
    banner_of_crash = banner;
    signal(SIGABRT, tell_banner);
    signal(SIGSEGV, tell_banner);
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
    signal(SIGABRT, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    banner_of_crash = NULL;
    return outcome->finding[0] == '\0';
}

static void print_list(FILE *out, const char *title, int number, const program_list *list)
{
    static const char *const names[] = {
#define X(kind, name) name,
        PROGRAM_KINDS(X)
#undef X
    };
    for (int i = 0; i < list->count; i++) {
        const program_op *op = &list->ops[i];
        fprintf(out, "  %s %d: %s pool %d slot %d stream %d group %d callback %d bytes %llu\n",
                title, number, names[op->kind], op->pool, op->slot, op->stream, op->group,
                op->callback, (unsigned long long)op->bytes);
    }
}

void program_print(FILE *out, const program *p)
{
    fprintf(out, "%d pools, %llu bytes of memory, limit %llu%s%s%s\n", p->pools,
            (unsigned long long)p->memory_bytes, (unsigned long long)p->limit_bytes,
            p->may_vanish ? ", streams may vanish" : "", p->knows_all ? ", knows all streams" : "",
            p->may_not_wait ? ", no waits" : "");
    print_list(out, "before", 0, &p->before);
    for (int i = 0; i < p->threads; i++) {
        print_list(out, "thread", i, &p->work[i]);
    }
    for (int i = 0; i < PROGRAM_CALLBACKS; i++) {
        print_list(out, "callback", i, &p->in_callback[i]);
    }
}
