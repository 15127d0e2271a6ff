/*
 * Programs as PyTorch runs them, drawn from a seed: threads with a stream each make tensors, fill
 * them, use some on side streams behind an event, and drop them, their own and each other's, while
 * work is in flight. Memory that is given too early, or twice, spoils contents that another still
 * reads, and the device sees it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/hooks/rig.h"
#include "tests/support/test.h"
#include "tests/support/threads.h"

/* Two threads seldom meet in a short window: one test in threads has all seeds there, too. */
#if defined(__SANITIZE_THREAD__)
enum { SEEDS = 3 };
#else
enum { SEEDS = 12 };
#endif

enum { SEEDS_IN_THREADS = 12, STEPS = 500, MEMORY_BYTES = 256 << 10, REPLACEMENTS = 100 };
enum { OWN = 6, SHARED = 6, LARGEST_BYTES = 40 << 10, LONG_NS = 2000, SHORT_NS = 20 };

/* What a program does wrong: uses on other streams are not declared, or freed memory is taken for
 * idle on another stream. */
typedef enum mistake { NO_MISTAKE, FORGETS_STREAMS, FREES_ELSEWHERE } mistake;

/* A tensor that others may drop. Its uses are queued or declared by then. */
typedef struct tensor {
    void *pointer;
    size_t bytes;
    uint64_t tag;
    int stream; /* that was current when it was made */
} tensor;

/* A program. All its threads share it. */
typedef struct program {
    hooks_rig rig;
    mistake mistake;
    uint64_t seed;
    pthread_mutex_t mutex;
    tensor shared[SHARED];
    atomic_uint_fast64_t tags; /* of the tensors made */
    atomic_uint_fast64_t out_of_memory;
    atomic_bool is_over; /* the device is lost: a thread has touched foreign memory */
} program;

typedef struct worker {
    program *p;
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
    return w->p->rig.streams[(t->stream + beside) % HOOKS_STREAMS];
}

static void note(worker *w, mend_result result)
{
    if (result != MEND_OK) {
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, result);
        atomic_store(&w->p->is_over, true);
    }
}

static void drop(worker *w, tensor *t)
{
    if (t->pointer != NULL) {
        mend_torch_block block = torch_found(&w->p->rig, t->pointer);
        EXPECT_TRUE(block.stream == stream_of(w, t, 0) || block.stream == MEND_NO_STREAM);
        if (w->p->mistake == FREES_ELSEWHERE) {
            block.stream = w->p->rig.streams[1];
        }
        note(w, w->p->rig.f->mend_torch_block_free(&block));
        t->pointer = NULL;
    }
}

static void launch(worker *w, mend_stream stream, mend_sim_work_kind kind, const tensor *t)
{
    uint64_t duration_ns = draw(w, 3) == 0 ? LONG_NS : SHORT_NS;
    note(w, hooks_launch(&w->p->rig, stream, kind, t->pointer, t->bytes, t->tag, duration_ns));
}

static void make(worker *w, tensor *t)
{
    int is_foreign = 0;
    t->bytes = 1 + draw(w, LARGEST_BYTES);
    t->tag = atomic_fetch_add(&w->p->tags, 1) + 1;
    t->stream = w->number + (draw(w, 4) == 0);
    mend_result result = w->p->rig.f->mend_torch_block_alloc(0, t->bytes, stream_of(w, t, 0),
                                                             &t->pointer, &is_foreign);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        atomic_fetch_add(&w->p->out_of_memory, 1);
        return;
    }
    note(w, result);
    EXPECT_TRUE((t->pointer != NULL) == (result == MEND_OK));
    if (t->pointer != NULL) {
        launch(w, stream_of(w, t, 0), MEND_SIM_WORK_WRITE, t);
    }
}

/* As `side.wait_stream(own); with stream(side): use(t); t.record_stream(side)`. */
static void use_aside(worker *w, const tensor *t)
{
    mend_stream side = stream_of(w, t, 1 + (int)draw(w, HOOKS_STREAMS - 1));
    note(w, mend_sim_stream_wait(w->p->rig.sim, side, stream_of(w, t, 0)));
    launch(w, side, MEND_SIM_WORK_VERIFY, t);
    if (w->p->mistake != FORGETS_STREAMS) {
        (void)w->p->rig.f->mend_device_record_stream(MEND_ALL_DEVICES, t->pointer, side);
    }
}

/* Hands a tensor to the next thread, and drops the one before. */
static void share(worker *w, tensor *t)
{
    tensor *place = &w->p->shared[draw(w, SHARED)];
    pthread_mutex_lock(&w->p->mutex);
    tensor before = *place;
    *place = *t;
    pthread_mutex_unlock(&w->p->mutex);
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
        mend_sim_advance(w->p->rig.sim, SHORT_NS);
        break;
    case 4:
        use_aside(w, t);
        drop(w, t);
        break;
    case 5:
        if (draw(w, 16) == 0) {
            (void)w->p->rig.f->mend_torch_empty_cache();
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
    for (int i = 0; i < STEPS && !atomic_load(&w->p->is_over); i++) {
        step(w);
    }
    for (int i = 0; i < OWN; i++) {
        drop(w, &w->own[i]);
    }
    return NULL;
}

/* Runs a program to its end, with all tensors dropped and all work done. Whether nothing was wrong.
 */
static bool is_clean(program *p, int threads)
{
    worker workers[HOOKS_STREAMS];
    for (int i = 0; i < threads; i++) {
        workers[i] = (worker){.p = p, .number = i};
        mend_test_random_init(&workers[i].random, p->seed + (uint64_t)i);
    }
    mend_test_run_threads(work, workers, (size_t)threads);
    for (int i = 0; i < SHARED; i++) {
        drop(&workers[0], &p->shared[i]);
    }
    mend_sim_advance(p->rig.sim, UINT64_C(1) << 40);
    return !atomic_load(&p->is_over) && hooks_device_is_well(&p->rig);
}

static bool open_program(program *p, mistake made, uint64_t seed)
{
    *p = (program){.mistake = made, .seed = seed, .mutex = PTHREAD_MUTEX_INITIALIZER};
    return hooks_open(&p->rig, MEMORY_BYTES);
}

static void close_program(program *p)
{
    hooks_close(&p->rig);
    pthread_mutex_destroy(&p->mutex);
}

/* Programs in which nothing is wrong. `beside`: what another thread does meanwhile. */
static void expect_clean(int threads, uint64_t seeds, void *(*beside)(void *rig))
{
    uint64_t failures = hooks_get()->mend_torch_failures();
    uint64_t out_of_memory = 0;
    for (uint64_t i = 0; i < seeds; i++) {
        program p;
        pthread_t other;
        ASSERT_TRUE(open_program(&p, NO_MISTAKE, mend_test_seed() + i));
        EXPECT_INT_EQ(0, beside ? pthread_create(&other, NULL, beside, &p.rig) : 0);
        EXPECT_TRUE(is_clean(&p, threads));
        EXPECT_INT_EQ(0, beside ? pthread_join(other, NULL) : 0);
        EXPECT_TRUE(p.tags > 50);
        out_of_memory += p.out_of_memory;
        close_program(&p);
    }
    EXPECT_U64_EQ(failures, hooks_get()->mend_torch_failures());
    EXPECT_TRUE(out_of_memory > 0); /* and the program goes on */
}

MEND_TEST(torch_programs, find_nothing_wrong)
{
    expect_clean(1, SEEDS, NULL);
}

MEND_TEST(torch_programs, find_nothing_wrong_in_threads)
{
    expect_clean(HOOKS_STREAMS, SEEDS_IN_THREADS, NULL);
}

static atomic_int retired;

static void retire(void *below)
{
    atomic_fetch_add(&retired, 1);
    free(below);
}

/* Each allocator wraps Mend's own. Its memory goes when it retires, so that a call that comes later
 * is a use after free for the sanitizers. */
static void *replace_allocators(void *argument)
{
    hooks_rig *rig = argument;
    for (int i = 0; i < REPLACEMENTS; i++) {
        mend_allocator allocator = hooks_below_allocator(rig, malloc(sizeof(hooks_below)));
        allocator.block_info = NULL;
        allocator.retired = retire;
        HOOKS_OK(mend_set_allocator(i % 2 == 0 ? MEND_ALL_DEVICES : 0, &allocator));
        HOOKS_OK(mend_set_allocator(0, NULL));
    }
    return NULL;
}

MEND_TEST(torch_programs, find_nothing_wrong_while_allocators_are_replaced)
{
    atomic_store(&retired, 0);
    expect_clean(3, SEEDS, replace_allocators);
    EXPECT_INT_EQ(REPLACEMENTS * SEEDS, atomic_load(&retired));
}

/* Each in many programs: so that they would see such a mistake of Mend's. */
MEND_TEST(torch_programs, see_deliberate_mistakes)
{
    for (mistake m = FORGETS_STREAMS; m <= FREES_ELSEWHERE; m++) {
        int seen = 0;
        for (uint64_t i = 0; i < SEEDS; i++) {
            program p;
            ASSERT_TRUE(open_program(&p, m, 1000 + i));
            seen += !is_clean(&p, 1);
            close_program(&p);
        }
        MEND_TEST_CHECK(seen >= SEEDS / 2, (void)0, "mistake %d is seen %d times", m, seen);
    }
}
