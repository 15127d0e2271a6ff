#include "lab/record/command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/report/words.h"
#include "lab/trace/read.h"
#include "lab/trace/recording.h"

enum { STATUS_GOOD = 0, STATUS_BAD_INPUT = 2 };

enum { OPTION_CSV, OPTION_FILE };

static const mend_option options[] = {
    [OPTION_CSV] = {"csv", NULL, "the allocations and frees as rows of RMM's log", NULL},
    [OPTION_FILE] = {"o", "FILE", "the file of the recording (mend.record)", NULL},
    MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

const mend_command mend_record_command = {
    .name = "record",
    .what = "record a program, or describe a recording",
    .arguments = "FILE | -- PROGRAM [ARGUMENT...]",
    .about =
        "With a FILE, describes that recording. libmend report, libmend replay and libmend "
        "replay --explain read it, too.\n\n"
        "With a PROGRAM, runs it with MEND_RECORD in its environment, which every pool of "
        "Mend in it follows: the first writes to the file, more of them to FILE.1, FILE.2, ... "
        "PyTorch takes its memory from Mend there (MEND_TORCH=1), unless MEND_TORCH is set. "
        "Here -o wins over record: of MEND_CONF.",
    .options = options,
    .status = "Exit status: the program's, or 2 if nothing was recorded; for a FILE 0, or 2 "
              "bad usage or input.",
};

typedef struct record_arguments {
    const char *file; /* NULL: it runs a program */
    char **program;
    const char *output;
    bool csv;
} record_arguments;

static int fail(const char *reason, const char *text)
{
    fprintf(stderr, "libmend record: %s%s%s; see libmend record --help\n", reason,
            *text == 0 ? "" : " ", text);
    return STATUS_BAD_INPUT;
}

/* ---- a program ------------------------------------------------------------------------------- */

/* Sets a variable to two texts, the first of which may be empty, with this between them. */
static bool set(const char *name, const char *first, const char *between, const char *second)
{
    char *text = NULL;
    bool is_set = asprintf(&text, "%s%s%s", first, *first == 0 ? "" : between, second) >= 0 &&
                  setenv(name, text, 1) == 0;
    free(text);
    return is_set;
}

/* MEND_CONF without items of such a key: the command's come last. */
static bool drop_setting(const char *key)
{
    const char *rest = getenv("MEND_CONF");
    char *left = rest != NULL ? calloc(1, strlen(rest) + 1) : NULL;
    size_t used = 0;
    for (bool goes_on = left != NULL; goes_on;) {
        const size_t length = strcspn(rest, ",");
        if (strncmp(rest, key, strlen(key)) != 0) {
            if (used > 0) {
                left[used++] = ',';
            }
            memcpy(left + used, rest, length);
            used += length;
        }
        goes_on = rest[length] != 0;
        rest += length + goes_on;
    }
    const bool is_set = rest == NULL || (left != NULL && setenv("MEND_CONF", left, 1) == 0);
    free(left);
    return is_set;
}

static volatile sig_atomic_t child;
/* Signals for the program: all except signals that the terminal sends to it as well. */
static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { PASSED = sizeof(passed) / sizeof(passed[0]) };

static void pass_on(int number)
{
    const int error = errno;
    if (child > 0) {
        kill((pid_t)child, number);
    }
    errno = error;
}

/* Signals wait until there is a program. */
static void share_signals(sigset_t *before)
{
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigset_t waiting;
    sigemptyset(&waiting);
    for (size_t i = 0; i < PASSED; i++) {
        sigaddset(&waiting, passed[i]);
        sigaction(passed[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &waiting, before);
    action.sa_handler = SIG_IGN;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
}

/* The state of the file, by which a recording that was there before is told from a new one. */
static struct stat state_of(const char *path)
{
    struct stat status = {0};
    if (stat(path, &status) != 0) {
        status = (struct stat){0};
    }
    return status;
}

/* The folder of the file can be written in. */
static bool can_write_beside(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    *(strrchr(folder, '/') + 1) = 0;
    return access(folder, W_OK | X_OK) == 0;
}

static int run_and_look(const record_arguments *arguments, const char *path)
{
    int status;
    sigset_t signals;
    const struct stat before = state_of(path);
    if (!can_write_beside(path)) {
        fprintf(stderr, "libmend record: %s: %s\n", path, strerror(errno));
        return STATUS_BAD_INPUT;
    }
    fflush(NULL);
    share_signals(&signals);
    child = (sig_atomic_t)fork();
    if (child < 0) {
        return fail(strerror(errno), "");
    }
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        for (size_t i = 0; i < PASSED; i++) {
            signal(passed[i], SIG_DFL);
        }
        sigprocmask(SIG_SETMASK, &signals, NULL);
        execvp(arguments->program[0], arguments->program);
        fprintf(stderr, "libmend record: %s: %s\n", arguments->program[0], strerror(errno));
        _exit(STATUS_BAD_INPUT);
    }
    sigprocmask(SIG_SETMASK, &signals, NULL);
    while (waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR) {
    }
    status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const struct stat after = state_of(path);
    if (after.st_ino == before.st_ino && after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
        after.st_mtim.tv_nsec == before.st_mtim.tv_nsec) {
        fprintf(stderr,
                "libmend record: nothing was recorded in %s: no pool of Mend was in the program\n",
                path);
        return status != STATUS_GOOD ? status : STATUS_BAD_INPUT;
    }
    return status;
}

static int run_program(const record_arguments *arguments)
{
    char folder[PATH_MAX] = "";
    const bool is_ready = drop_setting("record:");
    const bool is_whole = arguments->output[0] == '/';
    if (!is_ready || (!is_whole && getcwd(folder, sizeof(folder)) == NULL) ||
        !set("MEND_RECORD", folder, "/", arguments->output)) {
        return fail(strerror(errno), "");
    }
    /* PyTorch programs need no other word: their class for Mend is turned on by this. */
    if (setenv("MEND_TORCH", "1", 0) != 0) {
        return fail(strerror(errno), "");
    }
    return run_and_look(arguments, getenv("MEND_RECORD"));
}

/* ---- a recording ----------------------------------------------------------------------------- */

static const char *const kinds[MEND_EVENT_KINDS] = {
    [MEND_EVENT_ALLOC] = "alloc",
    [MEND_EVENT_FREE] = "free",
    [MEND_EVENT_MAP] = "map",
    [MEND_EVENT_UNMAP] = "unmap",
    [MEND_EVENT_CREATE] = "create",
    [MEND_EVENT_RELEASE] = "release",
    [MEND_EVENT_COMPACT] = "compact",
    [MEND_EVENT_OUT_OF_MEMORY] = "out of memory",
    [MEND_EVENT_HOST_WAIT] = "host wait",
    [MEND_EVENT_STREAM_WAIT] = "stream wait",
    [MEND_EVENT_TRIM] = "trim",
    [MEND_EVENT_LIMIT] = "limit",
    [MEND_EVENT_PIN] = "pin",
    [MEND_EVENT_UNPIN] = "unpin",
    [MEND_EVENT_GRAPH_POOL_DESTROY] = "graph pool release",
    [MEND_EVENT_SLEEP] = "sleep",
    [MEND_EVENT_WAKE] = "wake",
    [MEND_EVENT_COMMIT] = "commit",
    [MEND_EVENT_DECOMMIT] = "decommit",
    [MEND_EVENT_EXCHANGE] = "exchange",
};

static void print_facts(const char *file, const mend_recording_facts *facts)
{
    printf("%s: recording of process %" PRIu64 ", device %" PRIu64 " of %s, limit %s\n", file,
           facts->run.process, facts->run.device, SIZE(facts->run.memory_bytes),
           SIZE(facts->run.limit_bytes));
    printf("%s\n", facts->is_exit     ? "whole: the process ended, with the pool"
                   : facts->has_ended ? "whole: the pool was destroyed"
                                      : "cut: the process was killed, or still runs");
    printf("events %s to %s in %.3f s, %s lost\n", COUNT(facts->first), COUNT(facts->last),
           (double)(facts->ended_ns - facts->began_ns) / 1e9, COUNT(facts->lost));
    for (int i = 0; i < MEND_EVENT_KINDS; i++) {
        if (kinds[i] != NULL && facts->events[i] > 0) {
            printf("  %-14s %11s\n", kinds[i], COUNT(facts->events[i]));
        }
    }
}

/* Size and number of the blocks that are not freed. */
static void print_live(const mend_trace *trace, const mend_trace_detail *detail)
{
    uint64_t bytes = 0;
    uint64_t blocks = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const mend_trace_event *event = &trace->events[i];
        const uint64_t size_bytes = (event->size_bytes + 511) / 512 * 512;
        blocks += event->is_alloc ? 1 : UINT64_MAX;
        bytes += event->is_alloc ? size_bytes : 0 - size_bytes;
    }
    if (trace->failure[0] != 0) {
        mend_words_wrap(stdout, trace->failure, 0, 10);
    }
    printf("blocks from before its first event %s; live at its end %s in %s; peak %s\n",
           COUNT(detail->before_events), SIZE(bytes), COUNT(blocks), SIZE(trace->peak_live_bytes));
}

static void print_rows(const mend_trace *trace, const mend_trace_detail *detail)
{
    size_t refusal = 0;
    printf("Thread,Time,Action,Pointer,Size,Stream\n");
    for (size_t i = 0; i <= trace->event_count; i++) {
        for (; refusal < detail->refusal_count && detail->refusals[refusal].event <= i; refusal++) {
            printf("0,%zu,allocate failure,0x0,%" PRIu64 ",0x%" PRIx64 "\n", i,
                   detail->refusals[refusal].size_bytes, detail->refusals[refusal].stream);
        }
        if (i < trace->event_count) {
            const mend_trace_event *event = &trace->events[i];
            printf("0,%zu,%s,0x%" PRIx64 ",%" PRIu64 ",0x%" PRIx64 "\n", i,
                   event->is_alloc ? "allocate" : "free", detail->places[event->block].address,
                   event->size_bytes, trace->stream_names[event->stream]);
        }
    }
}

static int show(const record_arguments *arguments)
{
    mend_recording_facts facts;
    mend_trace *trace = NULL;
    mend_trace_detail detail;
    if (mend_recording_look(arguments->file, &facts) != MEND_OK) {
        return mend_command_fail(&mend_record_command, "");
    }
    const bool has_blocks = facts.events[MEND_EVENT_ALLOC] + facts.events[MEND_EVENT_FREE] > 0;
    int status = STATUS_GOOD;
    mend_trace_detail_init(&detail);
    if (!arguments->csv) {
        print_facts(arguments->file, &facts);
    }
    if ((has_blocks || arguments->csv) &&
        mend_trace_read_with(arguments->file, &detail, &trace) != MEND_OK) {
        status = mend_command_fail(&mend_record_command, "");
    } else if (arguments->csv) {
        print_rows(trace, &detail);
    } else if (has_blocks) {
        print_live(trace, &detail);
    }
    if (trace != NULL && trace->note[0] != 0) {
        fprintf(stderr, "libmend record: %s: %s\n", arguments->file, trace->note);
    }
    mend_trace_destroy(trace);
    mend_trace_detail_clear(&detail);
    return status;
}

/* ---- command line ---------------------------------------------------------------------------- */

static bool take_option(int option, char *value, void *context)
{
    record_arguments *arguments = context;
    if (option == OPTION_CSV) {
        arguments->csv = true;
    } else {
        arguments->output = value;
    }
    return true;
}

static bool names_program(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            return true;
        }
    }
    return false;
}

int mend_cli_record(int argc, char **argv)
{
    record_arguments arguments = {0};
    int status;
    if (!mend_command_read(&mend_record_command, argc, argv, take_option, &arguments, &status)) {
        if (status == STATUS_BAD_INPUT && !names_program(argc, argv)) {
            fputs("libmend record: a program comes after --: libmend record -- python3 train.py\n",
                  stderr);
        }
        return status;
    }
    if (optind == argc) {
        return fail("no file and no program", "");
    }
    if (strcmp(argv[optind - 1], "--") == 0) {
        arguments.program = argv + optind;
        arguments.output = arguments.output != NULL ? arguments.output : "mend.record";
        return arguments.csv ? fail("--csv is for a FILE", "") : run_program(&arguments);
    }
    arguments.file = argv[optind];
    if (argc - optind != 1 || arguments.output != NULL) {
        return fail("a FILE takes no other argument than --csv; a program comes after --, as in "
                    "libmend record -- python3 train.py",
                    "");
    }
    return show(&arguments);
}
