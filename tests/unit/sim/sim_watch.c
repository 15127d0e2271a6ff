/* The observer of calls: what it hears, and that it may hold a thread inside one of them. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/sim/sim_fixture.h"

typedef struct diary {
    char text[256];
} diary;

static void write_down(void *context, const char *call, int is_after)
{
    diary *d = context;
    size_t used = strlen(d->text);
    snprintf(d->text + used, sizeof(d->text) - used, "%c%s ", is_after ? '/' : '+', call);
}

SIM_TEST(sim_watch, hears_the_beginning_and_the_end_of_each_call)
{
    diary first = {""};
    diary second = {""};
    mend_event event = NULL;
    mend_sim_set_call_observer(f->sim, write_down, &first);
    PASS(event_create, &event);
    PASS(event_query, event);
    mend_sim_set_call_observer(f->sim, write_down, &second);
    ANSWER(INVALID_VALUE, unmap, 0, f->page);
    mend_sim_set_call_observer(f->sim, NULL, NULL);
    PASS(event_destroy, event);
    EXPECT_STR_EQ("+event_create /event_create +event_query /event_query ", first.text);
    EXPECT_STR_EQ("+unmap /unmap ", second.text);
}

typedef struct teller {
    const mend_driver *driver;
    uint64_t free_bytes;
} teller;

static void ask_for_free_bytes(void *context, const char *call, int is_after)
{
    teller *t = context;
    uint64_t total_bytes = 0;
    if (is_after && strcmp(call, "create") == 0) {
        EXPECT_PASS(t->driver->memory_info(t->driver, &t->free_bytes, &total_bytes));
    }
}

SIM_TEST(sim_watch, may_call_the_device)
{
    teller t = {.driver = f->driver};
    mend_sim_set_call_observer(f->sim, ask_for_free_bytes, &t);
    mend_chunk_handle chunk = sim_fixture_chunk(f, f->page);
    EXPECT_U64_EQ(64 * MEND_MIB - f->page, t.free_bytes);
    PASS(release, chunk);
}

typedef struct gate {
    sim_fixture *f;
    uint64_t address;
    sem_t inside; /* a thread has begun its set_access */
    sem_t go_on;
} gate;

static void stop_at_the_gate(void *context, const char *call, int is_after)
{
    gate *g = context;
    if (!is_after && strcmp(call, "set_access") == 0) {
        sem_post(&g->inside);
        sem_wait(&g->go_on);
    }
}

static void *give_access(void *argument)
{
    gate *g = argument;
    sim_fixture_allow(g->f, g->address, g->f->page);
    return NULL;
}

SIM_TEST(sim_watch, may_hold_a_thread_inside_a_call_while_others_go_on)
{
    gate g = {.f = f, .address = sim_fixture_map(f, f->page, f->page)};
    pthread_t held;
    ASSERT_INT_EQ(0, sem_init(&g.inside, 0, 0));
    ASSERT_INT_EQ(0, sem_init(&g.go_on, 0, 0));
    mend_sim_set_call_observer(f->sim, stop_at_the_gate, &g);
    ASSERT_INT_EQ(0, pthread_create(&held, NULL, give_access, &g));
    sem_wait(&g.inside);
    mend_chunk_handle chunk = sim_fixture_chunk(f, f->page);
    PASS(release, chunk);
    EXPECT_U64_EQ(0, f->heard);
    sem_post(&g.go_on);
    pthread_join(held, NULL);
    sem_destroy(&g.inside);
    sem_destroy(&g.go_on);
}
