#include "tests/hooks/torch_program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/threads.h"

enum { OWN = 6, SHARED = 6, LARGEST_BYTES = 40 << 10, LONG_NS = 2000, SHORT_NS = 20 };

/* A tensor that others may drop. Its uses are queued or declared by then. */
typedef struct tensor {
    void *pointer;
    size_t bytes;
    uint64_t tag;
    int stream; /* that was current when it was made */
} tensor;

/* All threads of a program share these. */
typedef struct commons {
    torch_program *program;
    pthread_mutex_t mutex;
    tensor shared[SHARED];
    atomic_uint_fast64_t tags;
    atomic_uint_fast64_t tensors;
    atomic_uint_fast64_t out_of_memory;
    atomic_uint_fast64_t other_raises;
    atomic_bool is_over; /* the device is lost: a thread has touched foreign memory */
} commons;

typedef struct worker {
    commons *all;
    mend_test_random random;
    int number;
    tensor own[OWN];
} worker;

static uint64_t draw(worker *w, uint64_t bound)
{
    return mend_test_random_below(&w->random, bound);
}

static mend_stream stream_of(worker *w, const tensor *t, int beside)
{
    return w->all->program->rig->streams[(t->stream + beside) % HOOKS_STREAMS];
}

static void drop(worker *w, tensor *t)
{
    if (t->pointer != NULL) {
        torch_contract_delete(w->all->program->contract, t->pointer);
        t->pointer = NULL;
    }
}

static void note(worker *w, mend_result result)
{
    if (result != MEND_OK) {
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, result);
        atomic_store(&w->all->is_over, true);
    }
}

static void launch(worker *w, mend_stream stream, mend_sim_work_kind kind, const tensor *t)
{
    uint64_t duration_ns = draw(w, 3) == 0 ? LONG_NS : SHORT_NS;
    note(w, hooks_launch(w->all->program->rig, stream, kind, t->pointer, t->bytes, t->tag,
                         duration_ns));
}

static void count_raise(commons *all, const char *raised)
{
    bool is_usual = strncmp(raised, "CUDA out of memory.", 19) == 0;
    atomic_fetch_add(is_usual ? &all->out_of_memory : &all->other_raises, raised[0] != '\0');
}

static void make(worker *w, tensor *t)
{
    commons *all = w->all;
    char raised[TORCH_RAISED_BYTES];
    t->bytes = 1 + draw(w, LARGEST_BYTES);
    t->tag = atomic_fetch_add(&all->tags, 1) + 1;
    t->stream = w->number + (draw(w, 4) == 0);
    t->pointer =
        torch_contract_malloc(all->program->contract, t->bytes, 0, stream_of(w, t, 0), raised);
    count_raise(all, raised);
    if (t->pointer != NULL) {
        atomic_fetch_add(&all->tensors, 1);
        launch(w, stream_of(w, t, 0), MEND_SIM_WORK_WRITE, t);
    }
}

/* As `side.wait_stream(own); with stream(side): use(t); t.record_stream(side)`. */
static void use_aside(worker *w, const tensor *t)
{
    mend_stream own = stream_of(w, t, 0);
    mend_stream side = stream_of(w, t, 1 + (int)draw(w, HOOKS_STREAMS - 1));
    hooks_rig *rig = w->all->program->rig;
    note(w, mend_sim_stream_wait(rig->sim, side, own));
    launch(w, side, MEND_SIM_WORK_VERIFY, t);
    torch_contract_record_stream(w->all->program->contract, t->pointer, side);
}

/* Hands a tensor to the next thread, and drops the one before. */
static void share(worker *w, tensor *t)
{
    commons *all = w->all;
    tensor *place = &all->shared[draw(w, SHARED)];
    pthread_mutex_lock(&all->mutex);
    tensor before = *place;
    *place = *t;
    pthread_mutex_unlock(&all->mutex);
    t->pointer = NULL;
    drop(w, &before);
}

static void step(worker *w)
{
    tensor *t = &w->own[draw(w, OWN)];
    if (t->pointer == NULL) {
        make(w, t);
        return;
    }
    switch (draw(w, 8)) {
    case 0:
        use_aside(w, t);
        break;
    case 1:
        launch(w, stream_of(w, t, 0), MEND_SIM_WORK_VERIFY, t);
        break;
    case 2:
        share(w, t);
        break;
    case 3:
        mend_sim_advance(w->all->program->rig->sim, SHORT_NS);
        break;
    case 4:
        use_aside(w, t);
        drop(w, t);
        break;
    case 5:
        if (draw(w, 16) == 0) {
            torch_contract_empty_cache(w->all->program->contract);
        }
        break;
    default:
        drop(w, t);
        break;
    }
}

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < w->all->program->steps && !atomic_load(&w->all->is_over); i++) {
        step(w);
    }
    for (int i = 0; i < OWN; i++) {
        drop(w, &w->own[i]);
    }
    return NULL;
}

static void run_threads(commons *all, worker *workers)
{
    int threads = all->program->threads;
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){.all = all, .number = i};
        mend_test_random_init(&workers[i].random, all->program->seed + (uint64_t)i);
    }
    if (threads == 1) {
        work(&workers[0]);
    } else {
        mend_test_run_threads(work, workers, (size_t)threads);
    }
    for (int i = 0; i < SHARED; i++) {
        drop(&workers[0], &all->shared[i]);
    }
}

torch_verdict torch_program_run(torch_program *program)
{
    worker workers[HOOKS_STREAMS];
    commons all = {.program = program, .mutex = PTHREAD_MUTEX_INITIALIZER};
    run_threads(&all, workers);
    mend_sim_advance(program->rig->sim, UINT64_C(1) << 40);
    pthread_mutex_destroy(&all.mutex);
    return (torch_verdict){.finding = torch_contract_finding(program->contract),
                           .device_is_well = hooks_device_is_well(program->rig),
                           .tensors = atomic_load(&all.tensors),
                           .out_of_memory = atomic_load(&all.out_of_memory),
                           .other_raises = atomic_load(&all.other_raises)};
}

bool torch_verdict_is_clean(const torch_verdict *verdict)
{
    return verdict->finding[0] == '\0' && verdict->device_is_well && verdict->other_raises == 0;
}
