/* The frame of both programs of scenes: plays the scene named by the first argument. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/process/scenes.h"

/* Of wall time, for deadlocks: a machine may be busy. */
enum { HUNG_AFTER_S = 1200, CHILD_HUNG_AFTER_S = 900 };

void scene_fail(const char *file, int line, const char *what)
{
    char text[1024];
    int length = snprintf(text, sizeof(text), "%s:%d: false: %s\n", file, line, what);
    ssize_t written = write(STDERR_FILENO, text, (size_t)length); /* needs no lock */
    _exit(written == length ? 1 : 2);
}

static void fork_and_wait(void (*body)(void), void (*end)(int))
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(CHILD_HUNG_AFTER_S);
        body();
        end(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

void scene_in_a_child(void (*body)(void))
{
    fork_and_wait(body, exit);
}

void scene_in_a_child_of_threads(void (*body)(void))
{
    fork_and_wait(body, _exit);
}

int main(int argc, char **argv)
{
    alarm(HUNG_AFTER_S);
    for (const scene *at = scenes; argc == 2 && at->name != NULL; at++) {
        if (strcmp(at->name, argv[1]) == 0) {
            at->play();
            return 0;
        }
    }
    fprintf(stderr, "usage: %s SCENE\n", argv[0]);
    return 2;
}
