/* The command: options, the runs, the table and the page. */
#include "cli/demo.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/demo_run.h"
#include "cli/page.h"
#include "lab/support/output.h"

enum { STATUS_COMPLETED = 0, STATUS_OUT_OF_MEMORY = 1, STATUS_BAD_INPUT = 2, STATUS_BROKEN = 3 };

enum { OPTION_DEVICE, OPTION_TRACES, OPTION_OUTPUT, OPTION_HELP };

static const mend_option options_of_demo[] = {
    [OPTION_DEVICE] = {"device", "auto|sim|cuda",
                       "auto (default): the GPU where there is one with room, else simulated",
                       NULL},
    [OPTION_TRACES] = {"traces", "DIR",
                       "where the recordings are (default: those that came with this program)",
                       NULL},
    [OPTION_OUTPUT] = {"o", "FILE", "the page to write (mend-demo.html)", NULL},
    [OPTION_HELP] = MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

const mend_command mend_demo_command = {
    .name = "demo",
    .what = "run a one-minute demonstration and write an HTML page",
    .arguments = "",
    .about = "Runs recorded workloads on a device with barely more memory than they need, through "
             "models of PyTorch's allocators and through Mend; prints a table and writes a page.",
    .options = options_of_demo,
    .status = "Exit status: 0 Mend completed every workload, 1 it ran out of memory, 2 bad usage "
              "or input, or an output cannot be written, 3 a rule of the driver was broken.",
};

typedef struct demo_options {
    mend_demo_device device;
    char folder[PATH_MAX]; /* "": search for it */
    const char *page_path;
    bool help;
} demo_options;

static bool read_option(int option, const char *value, demo_options *options)
{
    int length;
    switch (option) {
    case OPTION_DEVICE:
        options->device = strcmp(value, "sim") == 0    ? MEND_DEMO_SIM
                          : strcmp(value, "cuda") == 0 ? MEND_DEMO_CUDA
                                                       : MEND_DEMO_AUTO;
        return true;
    case OPTION_TRACES:
        length = snprintf(options->folder, sizeof(options->folder), "%s", value);
        if (length <= 0 || (size_t)length >= sizeof(options->folder)) {
            fputs("mend demo: --traces: the path is empty or too long\n", stderr);
            return false;
        }
        return true;
    case OPTION_OUTPUT:
        options->page_path = value;
        return true;
    case OPTION_HELP:
        options->help = true;
        return true;
    default:
        return false;
    }
}

static bool read_options(int argc, char **argv, demo_options *options)
{
    *options = (demo_options){.page_path = "mend-demo.html"};
    mend_command_start();
    char *value;
    for (int option;
         (option = mend_command_next(&mend_demo_command, argc, argv, &value)) != MEND_OPTION_END;) {
        if (!read_option(option, value, options)) {
            return false;
        }
    }
    return mend_command_has_none(&mend_demo_command, argc, argv);
}

static int tell_failure(void)
{
    mend_error error = MEND_ERROR_INIT;
    mend_last_error(&error);
    fprintf(stderr, "mend demo: %s\n",
            error.message[0] != '\0' ? error.message : mend_result_name(error.result));
    return STATUS_BAD_INPUT;
}

/* Prints every broken rule. */
static bool all_is_well(const mend_demo_report *report)
{
    bool is_well = true;
    for (size_t i = 0; i < report->act_count; i++) {
        for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
            const char *problem = report->acts[i].runs[a].result.problem;
            if (problem[0] != '\0') {
                fprintf(stderr, "mend demo: %s, %s: %s\n", report->acts[i].scene->title,
                        mend_demo_allocators[a].title, problem);
                is_well = false;
            }
        }
    }
    return is_well;
}

/* The page must not overwrite what the demo reads. */
static bool recordings_are_apart(const char *folder, const mend_output *page)
{
    for (size_t i = 0; i < MEND_DEMO_SCENES; i++) {
        char path[PATH_MAX];
        if (mend_demo_source_is_recording(&mend_demo_scenes[i]) &&
            mend_demo_recording_path(&mend_demo_scenes[i], folder, path) &&
            !mend_output_is_apart(page, path)) {
            return false;
        }
    }
    return true;
}

static int show(const demo_options *options, mend_output *page, mend_demo_report *report)
{
    if (mend_demo_run_all(options->device, options->folder, report) != MEND_OK) {
        return tell_failure();
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
    demo_options options;
    if (!read_options(argc, argv, &options)) {
        return STATUS_BAD_INPUT;
    }
    if (options.help) {
        mend_command_help(&mend_demo_command, stdout);
        return STATUS_COMPLETED;
    }
    if (options.folder[0] == '\0' &&
        !mend_demo_find_traces(options.folder, sizeof(options.folder))) {
        fputs("mend demo: the recordings were not found; name their folder with --traces\n",
              stderr);
        return STATUS_BAD_INPUT;
    }
    mend_output page;
    if (!mend_output_open(&page, "demo", options.page_path)) {
        return STATUS_BAD_INPUT;
    }
    int status = STATUS_BAD_INPUT;
    if (recordings_are_apart(options.folder, &page)) {
        mend_demo_report report = {0};
        status = show(&options, &page, &report);
        mend_demo_report_clear(&report);
    }
    mend_output_discard(&page);
    return status;
}
