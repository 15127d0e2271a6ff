#include "cli/fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As api/python/libmend/fit/__init__.py reads them: a test of the package compares. */
static const mend_option options[] = {
    {"gpu", "NAME,...", "does it fit on these: T4, A100-40GB and more", NULL},
    {"memory", "SIZE", "does it fit on a GPU with so much: 24GiB", NULL},
    {"largest", "NAME=LOW..HIGH[:STEP]",
     "the largest number in place of {NAME} in the program's arguments that fits", NULL},
    {"fail-above", "SIZE", "exit status 1 if it may need more", NULL},
    {"allocator", "NAME,...",
     "of default, expandable, mend; the exit status is of the first (all three)", NULL},
    {"value", "FILE:LINE=VALUE",
     "the value that a line reads, which only a GPU computes: a number, a fraction of a mask, or "
     "balanced",
     NULL},
    {"world-size", "N", "rank 0 of N runs (as torchrun)", NULL},
    {"steps", "N|all",
     "end a run after N steps of the optimizer, or with the program (when peaks repeat)", NULL},
    {"seconds", "N", "the most for a run (60)", NULL},
    {"o", "PAGE", "a page of it, one file of HTML", NULL},
    {"json", NULL, "one JSON object", NULL},
    MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

const mend_command mend_fit_command = {
    .name = "fit",
    .what = "say whether a PyTorch program fits into a GPU, without a GPU",
    .arguments = "-- python train.py [arguments]",
    .about =
        "Says whether a PyTorch program fits into a GPU's memory, without a GPU: the memory that "
        "it uses and holds under each allocator, the lines that hold it, the smallest card that "
        "is enough. The program runs over a simulated GPU, several times, and really writes its "
        "files. A part of the Python package: it runs python3 -m libmend fit.",
    .options = options,
    .status = "Exit status: 0 it fits, or nothing was asked; 1 it does not fit, or needs more than "
              "--fail-above; 2 bad usage, or the program fails; 3 not sure, or not known.",
};

/* As `python3 -m libmend`, but where that is not there, it says what is missing. */
#define START                                                                                      \
    "import sys\n"                                                                                 \
    "try:\n"                                                                                       \
    "    from libmend.__main__ import main\n"                                                      \
    "except ModuleNotFoundError as error:\n"                                                       \
    "    if error.name != 'libmend': raise\n"                                                      \
    "    print('libmend fit: needs Mend for Python, which this python3 does not have: run pip '\n" \
    "          'install . in a clone of Mend, or set PYTHONPATH to the folder with it',\n"         \
    "          file=sys.stderr)\n"                                                                 \
    "    sys.exit(2)\n"                                                                            \
    "sys.exit(main())"

/* Where the package lies beside this program, as CMake installs it, Python looks there first. */
static void look_beside_program(void)
{
    char path[4096];
    char first[2 * sizeof(path)];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    for (int up = 0; up < 2 && length > 0; up++) {
        while (length > 0 && path[--length] != '/') {
        }
    }
    if (length <= 0) {
        return;
    }
    path[length] = '\0';
    snprintf(first, sizeof(first), "%s/share/mend/python/libmend/__main__.py", path);
    if (access(first, R_OK) != 0) {
        return;
    }
    const char *others = getenv("PYTHONPATH");
    snprintf(first, sizeof(first), "%s/share/mend/python%s%.4000s", path,
             others != NULL && others[0] != '\0' ? ":" : "", others != NULL ? others : "");
    setenv("PYTHONPATH", first, 1);
}

int mend_cli_fit(int argc, char **argv)
{
    int status = 0;
    char **words = calloc((size_t)argc + 4, sizeof(*words));
    if (words == NULL || (argc == 2 && strcmp(argv[1], "--help") == 0 &&
                          !mend_command_read(&mend_fit_command, argc, argv, NULL, NULL, &status))) {
        free(words);
        return words == NULL ? MEND_STATUS_BAD_USAGE : status;
    }
    char *const python[] = {"python3", "-c", START};
    memcpy(words, python, sizeof(python));
    memcpy(words + 3, argv, (size_t)argc * sizeof(*words));
    look_beside_program();
    execvp(words[0], words);
    fprintf(stderr, "libmend fit: a part of the Python package: python3: %s\n", strerror(errno));
    free(words);
    return MEND_STATUS_BAD_USAGE;
}
