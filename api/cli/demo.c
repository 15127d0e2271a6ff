/* The command: options, the runs, the table and the page. */
#include "cli/demo.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/align.h"
#include "cli/demo_run.h"
#include "cli/page.h"
#include "lab/support/capacity.h"
#include "lab/support/output.h"
#include "lab/workloads/workload.h"

enum { STATUS_COMPLETED = 0, STATUS_OUT_OF_MEMORY = 1, STATUS_BAD_INPUT = 2, STATUS_BROKEN = 3 };

enum { OPTION_DEVICE, OPTION_CAPACITY, OPTION_TRACES, OPTION_OUTPUT, OPTION_HELP };

static const mend_option options_of_demo[] = {
    [OPTION_DEVICE] = {"device", "auto|sim|cuda",
                       "auto (default): the GPU if it has enough memory, otherwise simulated",
                       NULL},
    [OPTION_CAPACITY] = {"capacity", "SIZE",
                         "with a FILE: the memory of its device: bytes, or a number with KiB, MiB, "
                         "GiB or TiB (default: the smallest that is sold and large enough)",
                         NULL},
    [OPTION_TRACES] = {"traces", "DIR", "where the recordings are (default: with this program)",
                       NULL},
    [OPTION_OUTPUT] = {"o", "FILE", "the page to write (mend-demo.html)", NULL},
    [OPTION_HELP] = MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

const mend_command mend_demo_command = {
    .name = "demo",
    .what = "run a one-minute demonstration and write an HTML page",
    .arguments = "[FILE|WORKLOAD]",
    .about =
        "Runs recorded workloads on devices that are sold and on one with barely more memory than "
        "the program needs, through models of PyTorch's allocators and through Mend; prints a "
        "table and writes a page. "
        "With a FILE it does that with a program of yours, on a device that is sold and on one "
        "with hardly more memory than it uses: a memory snapshot of PyTorch (pickle or JSON), "
        "a log of RMM or a recording, plain or .gz.",
    .options = options_of_demo,
    .status = "Exit status: 0 Mend completed every workload, 1 it ran out of memory, 2 bad usage "
              "or input, or an output cannot be written, 3 a rule of the driver was broken.",
};

typedef struct demo_options {
    mend_demo_device device;
    char folder[PATH_MAX]; /* "": search for it */
    const char *page_path;
    const char *own;         /* the user's program. NULL: the demo's programs */
    uint64_t capacity_bytes; /* of its device. 0: not given */
} demo_options;

static bool take_option(int option, char *value, void *arguments)
{
    demo_options *options = arguments;
    const char *wrong;
    int length;
    switch (option) {
    case OPTION_DEVICE:
        options->device = strcmp(value, "sim") == 0    ? MEND_DEMO_SIM
                          : strcmp(value, "cuda") == 0 ? MEND_DEMO_CUDA
                                                       : MEND_DEMO_AUTO;
        return true;
    case OPTION_CAPACITY:
        wrong = mend_parse_device_bytes(value, &options->capacity_bytes);
        if (wrong != NULL) {
            fprintf(stderr, "libmend demo: --capacity: %s \"%s\"\n", wrong, value);
        }
        return wrong == NULL;
    case OPTION_TRACES:
        length = snprintf(options->folder, sizeof(options->folder), "%s", value);
        if (length <= 0 || (size_t)length >= sizeof(options->folder)) {
            fputs("libmend demo: --traces: the path is empty or too long\n", stderr);
            return false;
        }
        return true;
    case OPTION_OUTPUT:
        options->page_path = value;
        return true;
    default:
        return false;
    }
}

/* Prints every broken rule. */
static bool all_is_well(const mend_demo_report *report)
{
    bool is_well = true;
    for (size_t i = 0; i < report->act_count; i++) {
        for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
            const char *problem = report->acts[i].runs[a].result.problem;
            if (problem[0] != '\0') {
                fprintf(stderr, "libmend demo: %s, %s: %s\n", report->acts[i].scene->title,
                        mend_demo_allocators[a].title, problem);
                is_well = false;
            }
        }
    }
    return is_well;
}

static bool take_file(int argc, char **argv, demo_options *options)
{
    options->own = optind < argc ? argv[optind] : NULL;
    if (argc - optind > 1) {
        fprintf(stderr, "libmend demo: more than one file: \"%s\"; see libmend demo --help\n",
                argv[optind + 1]);
        return false;
    }
    if (options->own == NULL && options->capacity_bytes != 0) {
        fputs("libmend demo: --capacity needs a FILE\n", stderr);
        return false;
    }
    if (options->own == NULL && options->folder[0] == '\0' &&
        !mend_demo_find_traces(options->folder, sizeof(options->folder))) {
        fputs("libmend demo: the recordings were not found; name their folder with --traces\n",
              stderr);
        return false;
    }
    return true;
}

/* The page must not overwrite an input of the demo. */
static bool recordings_are_apart(const demo_options *options, const mend_output *page)
{
    if (options->own != NULL) {
        return mend_workload_is_spec(options->own) || mend_output_is_apart(page, options->own);
    }
    for (size_t i = 0; i < MEND_DEMO_SCENES; i++) {
        char path[PATH_MAX];
        if (mend_demo_source_is_recording(&mend_demo_scenes[i]) &&
            mend_demo_recording_path(&mend_demo_scenes[i], options->folder, path) &&
            !mend_output_is_apart(page, path)) {
            return false;
        }
    }
    return true;
}

static int show(const demo_options *options, mend_output *page, mend_demo_report *report)
{
    mend_result result =
        options->own != NULL
            ? mend_demo_run_own(options->device, options->own, options->capacity_bytes, report)
            : mend_demo_run_all(options->device, options->folder, report);
    if (result != MEND_OK) {
        return mend_command_fail(&mend_demo_command, "");
    }
    mend_demo_print(stdout, report);
    mend_page_write(page->stream, report);
    if (!mend_output_close(page)) {
        return STATUS_BAD_INPUT;
    }
    printf("\nThe picture: %s\n", options->page_path);
    if (!all_is_well(report)) {
        return STATUS_BROKEN;
    }
    return mend_demo_completed(report, MEND_DEMO_MEND) == report->act_count ? STATUS_COMPLETED
                                                                            : STATUS_OUT_OF_MEMORY;
}

int mend_cli_demo(int argc, char **argv)
{
    demo_options options = {.page_path = "mend-demo.html"};
    int status;
    if (!mend_command_read(&mend_demo_command, argc, argv, take_option, &options, &status)) {
        return status;
    }
    mend_output page;
    if (!take_file(argc, argv, &options) || !mend_output_open(&page, "demo", options.page_path)) {
        return STATUS_BAD_INPUT;
    }
    status = STATUS_BAD_INPUT;
    if (recordings_are_apart(&options, &page)) {
        mend_demo_report report = {0};
        status = show(&options, &page, &report);
        mend_demo_report_clear(&report);
    }
    mend_output_discard(&page);
    return status;
}
