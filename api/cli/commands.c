#include "cli/commands.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>

#include "cli/completion.h"
#include "cli/demo.h"
#include "cli/fit.h"
#include "cli/info.h"
#include "cli/manual.h"
#include "lab/live/command.h"
#include "lab/record/command.h"
#include "lab/replay/arguments.h"
#include "lab/replay/command.h"
#include "lab/report/command.h"
#include "mend/mend.h"

static const mend_option only_help[] = {MEND_OPTION_HELP, {NULL, NULL, NULL, NULL}};

static void print_usage(FILE *out)
{
    fputs("usage: libmend COMMAND [options]\n\n", out);
    for (size_t i = 0; mend_commands[i] != NULL; i++) {
        fprintf(out, "  %-10s %s\n", mend_commands[i]->name, mend_commands[i]->what);
    }
    fputs("\nlibmend COMMAND --help explains a command.\n", out);
}

/* ---- commands -------------------------------------------------------------------------------- */

static const char status_of_prints[] = "Exit status: 0; 2 bad usage, or not all was written.";

static const mend_command completion_command = {
    .name = "completion",
    .what = "print shell completion",
    .arguments = "bash|zsh",
    .about = "Prints completions for command lines of libmend. For bash: source <(libmend "
             "completion bash). For zsh: libmend completion zsh >_mend in a folder of $fpath.",
    .options = only_help,
    .status = status_of_prints,
};
static const mend_command manual_command = {
    .name = "manual",
    .what = "print the manual page, for man",
    .arguments = "",
    .about = "Prints the manual page: libmend manual | man -l -",
    .options = only_help,
    .status = status_of_prints,
};
static const mend_command version_command = {
    .name = "version",
    .what = "print the version",
    .arguments = "",
    .about = "Prints the version.",
    .options = only_help,
    .status = status_of_prints,
};
static const mend_command help_command = {
    .name = "help",
    .what = "print this, or explain COMMAND",
    .arguments = "[COMMAND]",
    .about = "Prints the commands, or the help of one.",
    .options = only_help,
    .status = status_of_prints,
};

const mend_command *const mend_commands[] = {
    &mend_demo_command,   &mend_fit_command,    &mend_info_command, &mend_record_command,
    &mend_replay_command, &mend_report_command, &mend_top_command,  &completion_command,
    &manual_command,      &version_command,     &help_command,      NULL,
};

/* The exit status of a command that prints one thing. */
static int print_with(const mend_command *command, void (*print)(FILE *out), int argc, char **argv)
{
    int status;
    if (mend_command_read(command, argc, argv, NULL, NULL, &status)) {
        print(stdout);
        status = 0;
    }
    return status;
}

static void write_version(FILE *out)
{
    int version = mend_version();
    fprintf(out, "libmend %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
}

static int print_version(int argc, char **argv)
{
    return print_with(&version_command, write_version, argc, argv);
}

static void write_manual(FILE *out)
{
    mend_manual_write(out, mend_commands);
}

static int print_manual(int argc, char **argv)
{
    return print_with(&manual_command, write_manual, argc, argv);
}

static int print_completion(int argc, char **argv)
{
    int status;
    if (!mend_command_read(&completion_command, argc, argv, NULL, NULL, &status)) {
        return status;
    }
    const char *shell = argc - optind == 1 ? argv[optind] : "";
    if (strcmp(shell, "bash") == 0) {
        mend_completion_bash(stdout, mend_commands);
        return 0;
    }
    if (strcmp(shell, "zsh") == 0) {
        mend_completion_zsh(stdout, mend_commands);
        return 0;
    }
    fprintf(stderr, "libmend completion: no shell \"%s\"; there are: bash, zsh\n", shell);
    return MEND_STATUS_BAD_USAGE;
}

static int print_help(int argc, char **argv);

/* In the order of the commands. */
static int (*const runs[])(int argc, char **argv) = {
    mend_cli_demo,   mend_cli_fit,    mend_cli_info, mend_cli_record,
    mend_cli_replay, mend_cli_report, mend_cli_top,  print_completion,
    print_manual,    print_version,   print_help,
};
static_assert(sizeof(runs) + sizeof(*runs) == sizeof(mend_commands), /* pointers, and a NULL */
              "each command runs");

/* -1: there is none of this name, and it says so. */
static int find_command(const char *name)
{
    for (int i = 0; mend_commands[i] != NULL; i++) {
        if (strcmp(name, mend_commands[i]->name) == 0) {
            return i;
        }
    }
    fprintf(stderr, "libmend: no command \"%s\"\n", name);
    print_usage(stderr);
    return -1;
}

static int print_help(int argc, char **argv)
{
    int status;
    if (!mend_command_read(&help_command, argc, argv, NULL, NULL, &status)) {
        return status;
    }
    if (optind == argc) {
        print_usage(stdout);
        return 0;
    }
    static char help[] = "--help";
    const int command = find_command(argv[optind]);
    char *explained[] = {argv[optind], help, NULL};
    return command < 0 ? MEND_STATUS_BAD_USAGE : runs[command](2, explained);
}

int mend_commands_run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return MEND_STATUS_BAD_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    } else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        name = "version";
    }
    const int command = find_command(name);
    return command < 0 ? MEND_STATUS_BAD_USAGE : runs[command](argc - 1, argv + 1);
}
