/* mend: the program. Each subcommand is a function with its own argv. */
#include <stdio.h>
#include <string.h>

#include "cli/demo.h"
#include "cli/info.h"
#include "lab/replay/command.h"
#include "lab/support/output.h"
#include "mend/mend.h"

static int print_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int version = mend_version();
    printf("mend %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    return 0;
}

static int print_help(int argc, char **argv);

static const struct {
    const char *name;
    const char *what;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"demo", "run a one-minute demonstration and write an HTML page", mend_cli_demo},
    {"info", "show the device and measure what driver calls cost", mend_cli_info},
    {"replay", "run recorded allocations through allocators", mend_cli_replay},
    {"version", "print the version", print_version},
    {"help", "print this", print_help},
};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(*commands) };

static void print_usage(FILE *out)
{
    fputs("usage: mend COMMAND [options]\n\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].what);
    }
    fputs("\nmend COMMAND --help explains a command.\n", out);
}

static int print_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    print_usage(stdout);
    return 0;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    } else if (strcmp(name, "--version") == 0) {
        name = "version";
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "mend: no command \"%s\"\n", name);
    print_usage(stderr);
    return 2;
}

/* Commands print without checks; mend_output_end checks that everything was written. */
int main(int argc, char **argv)
{
    mend_output_begin();
    return mend_output_end(run(argc, argv));
}
