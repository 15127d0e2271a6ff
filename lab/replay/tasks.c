#include "lab/replay/tasks.h"

#include <pthread.h>

#include "base/align.h"
#include "base/error.h"

typedef struct task {
    mend_replay_rig *rig;
    mend_replay_row row;
    void *context;
    size_t next;
    size_t end;
    bool goes_on;
    mend_result result;
} task;

static void run_rows(task *t)
{
    for (; t->goes_on && t->next < t->end; t->next++) {
        t->goes_on = t->row(t->context, t->next);
    }
}

static void *run_task(void *context)
{
    task *t = context;
    t->result = mend_replay_rig_enter(t->rig);
    if (t->result != MEND_OK) {
        return NULL;
    }
    t->result = mend_replay_rig_follow(t->rig);
    if (t->result == MEND_OK) {
        run_rows(t);
        t->result = mend_replay_rig_pass_on(t->rig);
    }
    mend_replay_rig_leave(t->rig);
    return NULL;
}

mend_result mend_replay_rows(mend_replay_rig *rig, size_t count, mend_replay_row row, void *context)
{
    task t = {.rig = rig, .row = row, .context = context, .end = count, .goes_on = true};
    const size_t most = rig->options->task_events;
    if (most == 0) {
        run_rows(&t);
        return MEND_OK;
    }
    while (t.result == MEND_OK && t.goes_on && t.next < count) {
        pthread_t thread;
        t.end = mend_min_u64(count, t.next + most);
        if (pthread_create(&thread, NULL, run_task, &t) != 0) {
            return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "a thread cannot be started");
        }
        pthread_join(thread, NULL);
    }
    return t.result == MEND_OK ? mend_replay_rig_follow(rig) : t.result;
}
