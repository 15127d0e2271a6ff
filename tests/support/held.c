#include "tests/support/held.h"

#include <string.h>

/* Calls around which a pool lets others go on, but for those that a begin of graph pools awaits. */
static bool may_take_long(const char *call)
{
    static const char *const calls[] = {"memory_info",
                                        "context_synchronize",
                                        "event_synchronize",
                                        "reserve",
                                        "address_free",
                                        "create",
                                        "release",
                                        "map",
                                        "unmap",
                                        "set_access",
                                        "event_record",
                                        "stream_wait",
                                        "plain_free",
                                        "async_free"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(call, calls[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void observe(void *context, const char *call, int is_after)
{
    mend_held *held = context;
    if (is_after || !may_take_long(call)) {
        return;
    }
    pthread_mutex_lock(&held->mutex);
    if (pthread_equal(held->self, pthread_self()) && ++held->calls == held->position) {
        strncpy(held->call, call, sizeof(held->call) - 1);
        held->is_inside = true;
        pthread_cond_broadcast(&held->changed);
        while (!held->may_go_on) {
            pthread_cond_wait(&held->changed, &held->mutex);
        }
    }
    pthread_mutex_unlock(&held->mutex);
}

static void *run(void *argument)
{
    mend_held *held = argument;
    pthread_mutex_lock(&held->mutex);
    held->self = pthread_self();
    pthread_mutex_unlock(&held->mutex);
    mend_sim_set_call_observer(held->sim, observe, held);
    held->act(held->argument);
    pthread_mutex_lock(&held->mutex);
    held->is_done = true;
    pthread_cond_broadcast(&held->changed);
    pthread_mutex_unlock(&held->mutex);
    return NULL;
}

bool mend_held_begin(mend_held *held, mend_sim *sim, uint64_t position, void (*act)(void *argument),
                     void *argument)
{
    *held = (mend_held){.sim = sim, .act = act, .argument = argument, .position = position};
    pthread_mutex_init(&held->mutex, NULL);
    pthread_cond_init(&held->changed, NULL);
    if (pthread_create(&held->thread, NULL, run, held) != 0) {
        return false;
    }
    pthread_mutex_lock(&held->mutex);
    while (!held->is_inside && !held->is_done) {
        pthread_cond_wait(&held->changed, &held->mutex);
    }
    bool is_inside = held->is_inside;
    pthread_mutex_unlock(&held->mutex);
    return is_inside;
}

void mend_held_let_go(mend_held *held)
{
    pthread_mutex_lock(&held->mutex);
    bool is_joined = held->may_go_on;
    held->may_go_on = true;
    pthread_cond_broadcast(&held->changed);
    pthread_mutex_unlock(&held->mutex);
    if (!is_joined) {
        pthread_join(held->thread, NULL);
    }
}

void mend_held_end(mend_held *held)
{
    mend_held_let_go(held);
    mend_sim_set_call_observer(held->sim, NULL, NULL);
    pthread_mutex_destroy(&held->mutex);
    pthread_cond_destroy(&held->changed);
}
