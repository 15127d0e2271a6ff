/* The handler of SIGUSR2: set above the program's own, which it calls, and taken away again. */
#include "base/signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"

/* Runs in any thread of the program, anywhere in it: it takes no lock, and calls write alone. */
static void ring(int number, siginfo_t *info, void *context)
{
    mend_process_signal *process = &mend_process_own_signal;
    const uint64_t one = 1;
    const int kept = errno;
    struct sigaction next = {.sa_handler = SIG_DFL};
    atomic_fetch_add(&process->handling, 1);
    atomic_fetch_add(&process->count, 1);
    for (int i = 0; i < MEND_BELLS; i++) {
        const int bell = atomic_load(&process->bells[i]);
        if (bell != 0) {
            (void)!write(bell - 1, &one, sizeof(one));
        }
    }
    if (atomic_load(&process->is_known)) {
        next = *process->over;
    }
    atomic_fetch_sub(&process->handling, 1);
    errno = kept;
    if ((next.sa_flags & SA_SIGINFO) != 0) {
        next.sa_sigaction(number, info, context);
    } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
        next.sa_handler(number);
    }
}

static bool is_on_top(void)
{
    struct sigaction now;
    return sigaction(SIGUSR2, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
           now.sa_sigaction == ring;
}

/* False: another handler has come above Mend's. That one may call it, so it stays. Also in a child
 * of fork. */
static bool unhook(mend_process_signal *process)
{
    return is_on_top() && sigaction(SIGUSR2, process->over, NULL) == 0;
}

/* Handlers that began before this have finished. */
static void await_handlers(mend_process_signal *process)
{
    while (atomic_load(&process->handling) != 0) {
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    }
}

/* With the flags and the mask of the program's own handler, which it calls. */
static bool hook(mend_process_signal *process)
{
    struct sigaction own = {.sa_flags = SA_RESTART};
    atomic_store(&process->is_known, false);
    await_handlers(process);
    if (sigaction(SIGUSR2, NULL, process->over) != 0) {
        return false;
    }
    atomic_store(&process->is_known, true);
    process->unhook = unhook;
    if ((process->over->sa_flags & SA_SIGINFO) != 0 ||
        (process->over->sa_handler != SIG_DFL && process->over->sa_handler != SIG_IGN)) {
        own = *process->over;
    }
    own.sa_flags &= (int)~(unsigned)SA_RESETHAND;
    own.sa_flags |= SA_SIGINFO | SA_ONSTACK;
    own.sa_sigaction = ring;
    return sigaction(SIGUSR2, &own, NULL) == 0;
}

bool mend_signals_hear(int bell)
{
    mend_process_signal *process = &mend_process_own_signal;
    int at = 0;
    mend_mutex_lock(&process->mutex);
    while (at < MEND_BELLS && atomic_load(&process->bells[at]) != 0) {
        at++;
    }
    bool hears = at < MEND_BELLS;
    if (hears) {
        process->is_hooked = process->is_hooked || hook(process);
        hears = process->is_hooked && is_on_top();
        atomic_store(&process->bells[at], hears ? bell + 1 : 0);
    }
    mend_mutex_unlock(&process->mutex);
    return hears;
}

void mend_signals_miss(int bell)
{
    mend_process_signal *process = &mend_process_own_signal;
    bool are_left = false;
    mend_mutex_lock(&process->mutex);
    for (int i = 0; i < MEND_BELLS; i++) {
        int its = bell + 1;
        atomic_compare_exchange_strong(&process->bells[i], &its, 0);
        are_left = are_left || atomic_load(&process->bells[i]) != 0;
    }
    process->is_hooked = process->is_hooked && (are_left || !unhook(process));
    mend_mutex_unlock(&process->mutex);
    await_handlers(process);
}

unsigned mend_signals_count(void)
{
    return atomic_load(&mend_process_own_signal.count);
}

typedef struct beginning {
    const char *name;
    void *(*run)(void *);
    void *context;
    sem_t has_begun;
} beginning;

static void *begin(void *argument)
{
    beginning *own = argument;
    void *(*run)(void *) = own->run;
    void *context = own->context;
    (void)pthread_setname_np(pthread_self(), own->name);
    sem_post(&own->has_begun);
    return run(context);
}

bool mend_signals_start_thread(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *context)
{
    beginning own = {.name = name, .run = run, .context = context};
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return false;
    }
    sem_init(&own.has_begun, 0, 0);
    bool is_started = pthread_create(thread, NULL, begin, &own) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (is_started && sem_wait(&own.has_begun) != 0) {
    }
    sem_destroy(&own.has_begun);
    return is_started;
}

/* In a program that is linked statically there is nothing to hold. */
void mend_hold_library(void)
{
    Dl_info found;
    if (dladdr((const void *)(uintptr_t)mend_hold_library, &found) != 0 &&
        found.dli_fname != NULL) {
        (void)dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

bool mend_start_service(pthread_t *thread, const char *name, void *(*run)(void *), void *context)
{
    mend_hold_library();
    return mend_signals_start_thread(thread, name, run, context);
}

uint64_t mend_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
