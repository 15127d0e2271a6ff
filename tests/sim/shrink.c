#include "tests/sim/shrink.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/child.h"

/* Of processor time. A trial takes milliseconds, under a sanitizer a second. */
enum { LONGEST_TRIAL_S = 60 };

/* ---- a process of its own -------------------------------------------------------------------- */

_Noreturn static void run_as_child(const trial_config *config, const operation *ops, size_t count,
                                   trial_outcome *shared)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        dup2(nowhere, STDERR_FILENO);
    }
    mend_test_limit(LONGEST_TRIAL_S);
    trial_run(config, ops, count, shared);
    mend_test_end_child(true);
}

static void check_child(int status, size_t count, trial_outcome *outcome)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return;
    }
    bool is_late = WIFSIGNALED(status) && mend_test_is_late(WTERMSIG(status));
    outcome->verdict = is_late ? TRIAL_HANG : TRIAL_CRASH;
    outcome->step = outcome->tally.steps < count ? (size_t)outcome->tally.steps : count;
    snprintf(outcome->finding, sizeof(outcome->finding), "the process %s %d",
             WIFSIGNALED(status) ? "died of signal" : "ended with status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

bool trial_run_apart(const trial_config *config, const operation *ops, size_t count,
                     trial_outcome *outcome)
{
    trial_outcome *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return false;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        run_as_child(config, ops, count, shared);
    }
    int status = 0;
    pid_t ended;
    do {
        ended = child > 0 ? waitpid(child, &status, 0) : -1;
    } while (ended < 0 && child > 0 && errno == EINTR);
    bool is_done = ended == child && child > 0;
    if (is_done) {
        *outcome = *shared;
        check_child(status, count, outcome);
    }
    munmap(shared, sizeof(*shared));
    return is_done;
}

/* ---- shrinking ------------------------------------------------------------------------------- */

typedef struct shrinking {
    trial_config *config;
    operation *ops;
    size_t count;
    trial_outcome *outcome; /* of these */
    operation *tried;
    uint64_t trials;
} shrinking;

static bool is_number(char c)
{
    return isdigit((unsigned char)c) || c == 'x' || (c >= 'a' && c <= 'f');
}

/* Equal but for numbers, in whatever base. */
static bool is_same(const trial_outcome *a, const trial_outcome *b)
{
    const char *x = a->finding;
    const char *y = b->finding;
    if (a->verdict != b->verdict) {
        return false;
    }
    while (*x != '\0' || *y != '\0') {
        while (is_number(*x)) {
            x++;
        }
        while (is_number(*y)) {
            y++;
        }
        if (*x != *y) {
            return false;
        }
        x += *x != '\0';
        y += *y != '\0';
    }
    return true;
}

static bool still_finds(shrinking *s, const trial_config *config, const operation *ops,
                        size_t count)
{
    trial_outcome outcome;
    s->trials++;
    if (!trial_run_apart(config, ops, count, &outcome) || !is_same(&outcome, s->outcome)) {
        return false;
    }
    *s->outcome = outcome;
    return true;
}

static bool try_without(shrinking *s, size_t at, size_t length)
{
    memcpy(s->tried, s->ops, at * sizeof(operation));
    memcpy(s->tried + at, s->ops + at + length, (s->count - at - length) * sizeof(operation));
    if (!still_finds(s, s->config, s->tried, s->count - length)) {
        return false;
    }
    s->count -= length;
    memcpy(s->ops, s->tried, s->count * sizeof(operation));
    return true;
}

/* Stretches of half the length, a quarter, and so on, are left out where that is possible. */
static bool drop_operations(shrinking *s)
{
    size_t before = s->count;
    for (size_t length = (s->count + 1) / 2; length > 0; length /= 2) {
        for (size_t at = s->count; at >= length && at > 0;) {
            at = at > length ? at - length : 0;
            if (at + length <= s->count) {
                try_without(s, at, length);
            }
            if (at == 0) {
                break;
            }
        }
    }
    return s->count < before;
}

static bool try_value(shrinking *s, size_t at, size_t field, uint8_t value)
{
    memcpy(s->tried, s->ops, s->count * sizeof(operation));
    memcpy((char *)&s->tried[at] + field, &value, 1);
    if (!still_finds(s, s->config, s->tried, s->count)) {
        return false;
    }
    s->ops[at] = s->tried[at];
    return true;
}

/* Smaller numbers are simpler. 0 is not even printed. */
static bool simplify_fields(shrinking *s)
{
    bool any = false;
    for (size_t at = 0; at < s->count; at++) {
        for (size_t field = 1; field < OPERATION_FIELDS; field++) {
            uint8_t value;
            memcpy(&value, (const char *)&s->ops[at] + field, 1);
            const uint8_t simpler[] = {0, (uint8_t)(value % 8), (uint8_t)(value / 2),
                                       (uint8_t)(value - 1)};
            for (size_t i = 0; i < sizeof(simpler); i++) {
                if (simpler[i] < value && try_value(s, at, field, simpler[i])) {
                    any = true;
                    break;
                }
            }
        }
    }
    return any;
}

static bool try_config(shrinking *s, const trial_config *config)
{
    if (memcmp(config, s->config, sizeof(*config)) == 0 ||
        !still_finds(s, config, s->ops, s->count)) {
        return false;
    }
    *s->config = *config;
    return true;
}

static bool simplify_config(shrinking *s)
{
    bool any = false;
    trial_config tried;
#define X(field, usual, meaning)                                                                   \
    tried = *s->config;                                                                            \
    tried.field = (usual);                                                                         \
    any = try_config(s, &tried) || any;
    TRIAL_CONFIG(X)
#undef X
    return any;
}

uint64_t trial_shrink(trial_config *config, operation *ops, size_t *count, trial_outcome *outcome)
{
    shrinking s = {.config = config, .ops = ops, .count = *count, .outcome = outcome};
    s.tried = malloc(*count * sizeof(operation) + 1);
    if (s.tried == NULL) {
        return 0;
    }
    if (outcome->step + 1 < s.count && still_finds(&s, config, ops, outcome->step + 1)) {
        s.count = s.outcome->step + 1 < s.count ? s.outcome->step + 1 : s.count;
    }
    bool any = true;
    for (int round = 0; any && round < 8; round++) {
        any = drop_operations(&s);
        any = simplify_config(&s) || any;
        any = simplify_fields(&s) || any;
    }
    free(s.tried);
    *count = s.count;
    return s.trials;
}
