#define SCHEDULE_ITSELF
#include "tests/interleave/schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "tests/interleave/instead_of_pthread.h"

enum { MOST_HELD = 8, MOST_POINTS = 1 << 18, STAY_OF = 16, WAKE_FOR_NONE_OF = 32 };

typedef enum thread_state { CAN_GO_ON, WANTS_LOCK, AWAITS_CONDITION, HAS_ENDED } thread_state;

typedef struct run run;

typedef struct thread {
    run *run;
    int number;
    const schedule_thread *work;
    pthread_t handle;
    pthread_cond_t turn_came;
    thread_state state;
    pthread_mutex_t *wanted;       /* WANTS_LOCK. AWAITS_CONDITION: to be taken after it */
    const pthread_cond_t *awaited; /* AWAITS_CONDITION */
    pthread_mutex_t *held[MOST_HELD];
    int frozen_count;
    uint32_t priority;
    const char *what; /* where it is */
    const char *which;
} thread;

struct run {
    const schedule *schedule;
    schedule_outcome *outcome;
    mend_test_random random;
    thread threads[SCHEDULE_THREADS];
    int count;
    uint64_t changes[SCHEDULE_CHANGES];
    size_t prefix_used;
    pthread_mutex_t gate; /* guards `running`. The thread it names owns all else */
    const thread *running;
};

static _Thread_local thread *self;

int schedule_self(void)
{
    return self != NULL ? self->number : -1;
}

static const thread *owner_of(const run *r, const pthread_mutex_t *mutex)
{
    for (int i = 0; i < r->count; i++) {
        for (int j = 0; j < r->threads[i].frozen_count; j++) {
            if (r->threads[i].held[j] == mutex) {
                return &r->threads[i];
            }
        }
    }
    return NULL;
}

bool schedule_is_held(const pthread_mutex_t *mutex)
{
    return self != NULL && owner_of(self->run, mutex) != NULL;
}

static mend_lock_rank rank_of(const pthread_mutex_t *mutex)
{
    return ((const mend_mutex *)((const char *)mutex - offsetof(mend_mutex, mutex)))->rank;
}

static const char *name_of(const pthread_mutex_t *mutex)
{
    static const char *const names[] = {
        [MEND_RANK_PROCESS] = "process", [MEND_RANK_GROW] = "grow", [MEND_RANK_POOL] = "state",
        [MEND_RANK_DRIVER] = "driver",   [MEND_RANK_LOG] = "log",
    };
    return names[rank_of(mutex)];
}

/* ---- when nobody can go on ------------------------------------------------------------------- */

static void explain(const run *r, FILE *out)
{
    for (int i = 0; i < r->count; i++) {
        const thread *t = &r->threads[i];
        fprintf(out, "  thread %d, at %s %s", i, t->what, t->which);
        if (t->state == HAS_ENDED) {
            fprintf(out, ", has ended");
        } else if (t->state == WANTS_LOCK) {
            const thread *owner = owner_of(r, t->wanted);
            fprintf(out, ", wants `%s` %p", name_of(t->wanted), (const void *)t->wanted);
            if (owner != NULL) {
                fprintf(out, " of thread %d", owner->number);
            }
        } else if (t->state == AWAITS_CONDITION) {
            fprintf(out, ", waits to be woken");
        }
        for (int j = 0; j < t->frozen_count; j++) {
            fprintf(out, "%s `%s` %p", j == 0 ? ", holds" : " and", name_of(t->held[j]),
                    (const void *)t->held[j]);
        }
        fprintf(out, "\n");
    }
}

static _Noreturn void give_up(const run *r, const char *why)
{
    fprintf(stderr, "%s after %llu points\n", why, (unsigned long long)r->outcome->points);
    explain(r, stderr);
    fprintf(stderr, "%s\n", r->schedule->banner != NULL ? r->schedule->banner : "");
    abort();
}

/* ---- who goes on ----------------------------------------------------------------------------- */

static bool can_go_on(const run *r, const thread *t)
{
    return t->state == CAN_GO_ON || (t->state == WANTS_LOCK && owner_of(r, t->wanted) == NULL);
}

/* Threads that can go on, the running one first. */
static int collect(run *r, thread *current, thread *able[SCHEDULE_THREADS])
{
    int count = 0;
    if (current != NULL && can_go_on(r, current)) {
        able[count++] = current;
    }
    for (int i = 0; i < r->count; i++) {
        if (&r->threads[i] != current && can_go_on(r, &r->threads[i])) {
            able[count++] = &r->threads[i];
        }
    }
    return count;
}

static int choose_by_priority(run *r, thread *current, thread *const able[], int count)
{
    for (uint32_t i = 0; i < r->schedule->plan.changes; i++) {
        if (r->changes[i] == r->outcome->points && current != NULL) {
            current->priority = i;
        }
    }
    int best = 0;
    for (int i = 1; i < count; i++) {
        best = able[i]->priority > able[best]->priority ? i : best;
    }
    return best;
}

static int choose(run *r, thread *current, thread *const able[], int count)
{
    const schedule_plan *plan = &r->schedule->plan;
    bool is_current_able = able[0] == current;
    if (plan->policy == SCHEDULE_PRIORITIES) {
        return choose_by_priority(r, current, able, count);
    }
    if (count == 1) {
        return 0;
    }
    if (plan->policy == SCHEDULE_RANDOM) {
        const bool stays =
            is_current_able && mend_test_random_below(&r->random, STAY_OF) < plan->stay;
        return stays ? 0 : (int)mend_test_random_below(&r->random, (uint64_t)count);
    }
    size_t at = r->prefix_used++;
    return at < plan->prefix_count && plan->prefix[at] < count ? plan->prefix[at] : 0;
}

static void note(run *r, const thread *current, thread *const able[], int count, int chosen)
{
    schedule_outcome *o = r->outcome;
    const thread *next = able[chosen];
    o->points++;
    o->switches += next != current;
    o->hash = (o->hash ^ (uint64_t)next->number) * UINT64_C(0x100000001b3);
    for (const char *at = next->what; *at != '\0'; at++) {
        o->hash = (o->hash ^ (uint64_t)(unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    if (count > 1) {
        if (o->decision_count < SCHEDULE_DECISIONS) {
            o->decisions[o->decision_count] =
                (schedule_decision){(uint8_t)count, (uint8_t)chosen, able[0] == current};
        }
        o->decision_count++;
    }
    if (r->schedule->trace != NULL) {
        fprintf(r->schedule->trace, "%6llu  %d: %s %s\n", (unsigned long long)o->points,
                next->number, next->what, next->which);
    }
}

static thread *decide(run *r, thread *current)
{
    thread *able[SCHEDULE_THREADS];
    int count = collect(r, current, able);
    if (count == 0) {
        give_up(r, "Deadlock");
    }
    if (r->outcome->points >= MOST_POINTS) {
        give_up(r, "No end");
    }
    for (int i = 0; i < r->count && r->schedule->plan.wakes_for_none; i++) {
        if (r->threads[i].state == AWAITS_CONDITION &&
            mend_test_random_below(&r->random, WAKE_FOR_NONE_OF) == 0) {
            r->threads[i].state = WANTS_LOCK;
        }
    }
    int chosen = choose(r, current, able, count);
    note(r, current, able, count, chosen);
    return able[chosen];
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void pass_to(run *r, thread *next)
{
    pthread_mutex_lock(&r->gate);
    r->running = next;
    if (next != NULL) {
        pthread_cond_signal(&next->turn_came);
    }
    pthread_mutex_unlock(&r->gate);
}

static void await_turn(thread *t)
{
    pthread_mutex_lock(&t->run->gate);
    while (t->run->running != t) {
        pthread_cond_wait(&t->turn_came, &t->run->gate);
    }
    pthread_mutex_unlock(&t->run->gate);
}

static void come_to_point(const char *what, const char *which)
{
    thread *t = self;
    t->what = what;
    t->which = which;
    const schedule *s = t->run->schedule;
    if (s->watch != NULL) {
        s->watch(s->watch_context, t->number);
    }
    thread *next = decide(t->run, t);
    if (next != t) {
        pass_to(t->run, next);
        await_turn(t);
    }
}

void schedule_point(const char *what, const char *which)
{
    if (self != NULL) {
        come_to_point(what, which);
    }
}

static void *run_thread(void *argument)
{
    thread *t = argument;
    run *r = t->run;
    await_turn(t);
    self = t;
    t->work->run(t->work->context);
    self = NULL;
    t->state = HAS_ENDED;
    if (t->frozen_count > 0) {
        give_up(r, "A thread ended with a lock");
    }
    bool is_last = true;
    for (int i = 0; i < r->count; i++) {
        is_last = is_last && r->threads[i].state == HAS_ENDED;
    }
    pass_to(r, is_last ? NULL : decide(r, t));
    return NULL;
}

/* The changes count down to the last one, which leaves the lowest priority. */
static void draw_priorities(run *r)
{
    const schedule_plan *plan = &r->schedule->plan;
    for (int i = 0; i < r->count; i++) {
        uint32_t priority = SCHEDULE_CHANGES + (uint32_t)i;
        int other = (int)mend_test_random_below(&r->random, (uint64_t)i + 1);
        r->threads[i].priority = r->threads[other].priority;
        r->threads[other].priority = priority;
    }
    for (uint32_t i = 0; i < plan->changes; i++) {
        r->changes[i] = mend_test_random_below(&r->random, plan->horizon);
    }
}

void schedule_run(const schedule *s, const schedule_thread *threads, int count,
                  schedule_outcome *outcome)
{
    run r = {.schedule = s, .outcome = outcome, .count = count};
    outcome->points = outcome->switches = outcome->hash = outcome->decision_count = 0;
    mend_test_random_init(&r.random, s->plan.seed);
    pthread_mutex_init(&r.gate, NULL);
    for (int i = 0; i < count; i++) {
        thread *t = &r.threads[i];
        *t = (thread){.run = &r, .number = i, .work = &threads[i], .what = "start", .which = ""};
        pthread_cond_init(&t->turn_came, NULL);
    }
    if (s->plan.policy == SCHEDULE_PRIORITIES) {
        draw_priorities(&r);
    }
    for (int i = 0; i < count; i++) {
        if (pthread_create(&r.threads[i].handle, NULL, run_thread, &r.threads[i]) != 0) {
            give_up(&r, "No thread could be made");
        }
    }
    pass_to(&r, decide(&r, NULL));
    for (int i = 0; i < count; i++) {
        pthread_join(r.threads[i].handle, NULL);
    }
    for (int i = 0; i < count; i++) {
        pthread_cond_destroy(&r.threads[i].turn_came);
    }
    pthread_mutex_destroy(&r.gate);
}

/* ---- the locks ------------------------------------------------------------------------------- */

static bool is_point(const pthread_mutex_t *mutex)
{
    return rank_of(mutex) < MEND_RANK_DRIVER;
}

static bool holds_inner(void)
{
    bool holds = false;
    for (int i = 0; i < self->frozen_count; i++) {
        holds = holds || !is_point(self->held[i]);
    }
    return holds;
}

static void hold(pthread_mutex_t *mutex)
{
    if (self->frozen_count == MOST_HELD) {
        give_up(self->run, "Too many locks");
    }
    self->held[self->frozen_count++] = mutex;
}

static void let_go(const pthread_mutex_t *mutex)
{
    for (int i = self->frozen_count - 1; i >= 0; i--) {
        if (self->held[i] == mutex) {
            self->held[i] = self->held[--self->frozen_count];
            return;
        }
    }
    give_up(self->run, "A lock was let go that the thread does not hold");
}

/* When this thread's turn comes the lock is free. */
static void take(pthread_mutex_t *mutex, const char *what)
{
    self->state = WANTS_LOCK;
    self->wanted = mutex;
    come_to_point(what, name_of(mutex));
    self->state = CAN_GO_ON;
    pthread_mutex_lock(mutex);
    hold(mutex);
}

int schedule_mutex_destroy(pthread_mutex_t *mutex)
{
    for (int i = 0; self != NULL && i < self->run->count; i++) {
        const thread *t = &self->run->threads[i];
        if (t->state == WANTS_LOCK && t->wanted == mutex) {
            give_up(self->run, "A lock was destroyed that a thread wants");
        }
    }
    int status = pthread_mutex_destroy(mutex);
    if (status == EBUSY && self != NULL) {
        give_up(self->run, "A lock was destroyed that a thread holds");
    }
    return status;
}

int schedule_mutex_lock(pthread_mutex_t *mutex)
{
    if (self == NULL) {
        return pthread_mutex_lock(mutex);
    }
    if (is_point(mutex) || pthread_mutex_trylock(mutex) != 0) {
        take(mutex, "lock");
    } else {
        hold(mutex);
    }
    return 0;
}

int schedule_mutex_trylock(pthread_mutex_t *mutex)
{
    if (self == NULL) {
        return pthread_mutex_trylock(mutex);
    }
    come_to_point("try_lock", name_of(mutex));
    int status = pthread_mutex_trylock(mutex);
    if (status == 0) {
        hold(mutex);
    }
    return status;
}

int schedule_mutex_unlock(pthread_mutex_t *mutex)
{
    if (self == NULL) {
        return pthread_mutex_unlock(mutex);
    }
    bool is_one = is_point(mutex);
    const char *name = name_of(mutex);
    let_go(mutex);
    pthread_mutex_unlock(mutex);
    if (is_one) {
        come_to_point("unlock", name);
    }
    return 0;
}

int schedule_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (self == NULL) {
        return pthread_cond_wait(condition, mutex);
    }
    let_go(mutex);
    pthread_mutex_unlock(mutex);
    self->state = AWAITS_CONDITION;
    self->awaited = condition;
    self->wanted = mutex;
    come_to_point("wait", name_of(mutex));
    self->state = CAN_GO_ON;
    pthread_mutex_lock(mutex);
    hold(mutex);
    return 0;
}

int schedule_cond_broadcast(pthread_cond_t *condition)
{
    if (self == NULL) {
        return pthread_cond_broadcast(condition);
    }
    for (int i = 0; i < self->run->count; i++) {
        thread *t = &self->run->threads[i];
        if (t->state == AWAITS_CONDITION && t->awaited == condition) {
            t->state = WANTS_LOCK;
        }
    }
    if (!holds_inner()) {
        come_to_point("wake", "");
    }
    return 0;
}
