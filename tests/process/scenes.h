/*
 * Scenes: processes that fork, or that end, with pools in hand. A test runs each as a process of
 * its own, since a process can be forked and ended only once, and judges it from outside: it must
 * exit with 0 and print nothing. So a scene speaks only when something is wrong, and then ends.
 */
#ifndef MEND_TESTS_PROCESS_SCENES_H
#define MEND_TESTS_PROCESS_SCENES_H

#include "mend/mend.h"
#include "mend/mend_sim.h"

/* Each is a test, and a function scene_NAME of fork_scenes.c. */
#define FORK_SCENES(X)                                                                             \
    X(child_is_silent)                                                                             \
    X(grandchild_refuses_what_its_parent_made)                                                     \
    X(parent_goes_on_unharmed)                                                                     \
    X(forks_inside_a_pressure_callback)                                                            \
    X(forks_while_threads_hammer_the_pool)                                                         \
    X(forks_at_each_driver_call_of_another_thread)

/* Of share_scenes.c: processes that share memory. */
#define SHARE_SCENES(X)                                                                            \
    X(processes_exchange_bytes)                                                                    \
    X(the_exporter_is_killed)                                                                      \
    X(a_child_of_the_exporter_serves_nobody)                                                       \
    X(a_child_shares_with_its_parent)                                                              \
    X(exits_with_exports)

/* Of profiler_scenes.c. */
#define PROFILER_SCENES(X)                                                                         \
    X(a_profiler_sees_what_reaches_the_driver)                                                     \
    X(nothing_is_loaded_that_is_no_profiler)

/* Of exit_scenes.c: how a process ends. */
#define EXIT_SCENES(X)                                                                             \
    X(exits_with_live_blocks)                                                                      \
    X(exits_after_destroying_pools_with_live_blocks)                                               \
    X(exits_while_threads_call)                                                                    \
    X(exits_while_a_thread_is_inside_the_driver)                                                   \
    X(destroys_in_an_atexit_handler)                                                               \
    X(destroys_in_a_destructor)

/* The same, after the driver has shut down. */
#define STOP_SCENES(X)                                                                             \
    X(stops_and_exits)                                                                             \
    X(stops_and_allocates)                                                                         \
    X(stops_before_an_atexit_handler)                                                              \
    X(stops_before_a_destructor)                                                                   \
    X(stops_while_threads_call)

/* Of loaded_scenes.c, a program that is not linked with Mend but loads and unloads it. */
#define LOADED_SCENES(X)                                                                           \
    X(unloads_with_a_live_pool)                                                                    \
    X(unloads_with_an_export)                                                                      \
    X(loads_again)                                                                                 \
    X(forks_while_loaded)                                                                          \
    X(forks_after_unloading)                                                                       \
    X(exits_while_loaded)

typedef struct scene {
    const char *name;
    void (*play)(void);
} scene;

/* What the program can play, up to a name of NULL. */
extern const scene scenes[];

/* Ends the process with 1, and a line on standard error. */
_Noreturn void scene_fail(const char *file, int line, const char *what);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            scene_fail(__FILE__, __LINE__, #condition);                                            \
        }                                                                                          \
    } while (0)

/* Runs `body` in a child of fork, which then ends by exit. Fails unless it exits with 0. */
void scene_in_a_child(void (*body)(void));

/* The same, but the child ends by _exit: what other threads of the parent held in hand at the fork
 * is lost in the child, and its end must not look for it. */
void scene_in_a_child_of_threads(void (*body)(void));

#endif
