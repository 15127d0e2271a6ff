/* Runs every scene as a process of its own: it must exit with 0, and without a word. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/process/scenes.h"
#include "tests/support/test.h"

enum { OUTPUT_BYTES = 1024 };

/* Reads up to the end of the output, of all processes that have it, and keeps its beginning. */
static void read_all(int descriptor, char output[OUTPUT_BYTES])
{
    size_t length = 0;
    char buffer[512];
    ssize_t got;
    while ((got = read(descriptor, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < got && length < OUTPUT_BYTES - 1; i++) {
            output[length++] = buffer[i];
        }
    }
    output[length] = 0;
}

static pid_t start(const char *program, const char *name, int output[2])
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO);
    char *arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)name, NULL};
    pid_t process = -1;
    int error = posix_spawn(&process, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? process : -1;
}

static void play(const char *program, const char *name)
{
    int output[2];
    ASSERT_INT_EQ(0, pipe2(output, O_CLOEXEC));
    pid_t process = start(program, name, output);
    close(output[1]);
    char text[OUTPUT_BYTES];
    read_all(output[0], text);
    close(output[0]);
    ASSERT_TRUE(process > 0);
    int status = 0;
    ASSERT_TRUE(waitpid(process, &status, 0) == process);
    EXPECT_STR_EQ("", text);
    EXPECT_TRUE(WIFEXITED(status)); /* else a signal ended it */
    EXPECT_INT_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

#define SCENE_TEST(suite, program, name)                                                           \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        play(program, #name);                                                                      \
    }
#define X(name) SCENE_TEST(process_fork, LINKED_PROGRAM, name)
FORK_SCENES(X)
#undef X
#define X(name) SCENE_TEST(process_share, LINKED_PROGRAM, name)
SHARE_SCENES(X)
#undef X
#define X(name) SCENE_TEST(process_profiler, LINKED_PROGRAM, name)
PROFILER_SCENES(X)
#undef X
#define X(name) SCENE_TEST(process_exit, LINKED_PROGRAM, name)
EXIT_SCENES(X)
STOP_SCENES(X)
#undef X
#define X(name) SCENE_TEST(process_load, LOADED_PROGRAM, name)
LOADED_SCENES(X)
#undef X
