#include "tests/support/child.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HUNG_AFTER_S = 60, DEADLOCK_AFTER_S = 900 };

#ifdef MEND_COVERAGE
void __gcov_dump(void);
#endif

void mend_test_limit(unsigned processor_s)
{
    const struct itimerval limit = {.it_value.tv_sec = processor_s};
    setitimer(ITIMER_PROF, &limit, NULL);
    alarm(DEADLOCK_AFTER_S);
}

bool mend_test_is_late(int signal_number)
{
    return signal_number == SIGPROF || signal_number == SIGALRM;
}

_Noreturn void mend_test_end_child(bool holds)
{
#ifdef MEND_COVERAGE
    __gcov_dump(); /* _exit does not */
#endif
    _exit(holds ? 0 : 1);
}

bool mend_test_holds_in_a_child(bool (*body)(void *), void *argument)
{
    pid_t child = fork();
    if (child == 0) {
        mend_test_limit(HUNG_AFTER_S);
        mend_test_end_child(body(argument));
    }
    int status = 0;
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
