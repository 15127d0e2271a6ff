/* The command: options, the runs, the table and the page. */
#include "cli/demo.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/demo_run.h"
#include "cli/page.h"
#include "lab/support/output.h"

enum { STATUS_COMPLETED = 0, STATUS_OUT_OF_MEMORY = 1, STATUS_BAD_INPUT = 2, STATUS_BROKEN = 3 };

static const char usage[] =
    "usage: mend demo [--device auto|sim|cuda] [--traces DIR] [-o PAGE]\n\n"
    "Runs recorded workloads on a device with barely more memory than they need, through\n"
    "models of PyTorch's allocators and through Mend; prints a table and writes a page.\n\n"
    "  --device     auto (default): the GPU where there is one with room, else simulated\n"
    "  --traces DIR where the recordings are (default: those that came with this program)\n"
    "  -o PAGE      the page to write (mend-demo.html)\n\n"
    "Exit status: 0 Mend completed every workload, 1 it ran out of memory, 2 bad usage or\n"
    "input, or an output cannot be written, 3 a rule of the driver was broken.\n";

typedef struct demo_options {
    mend_demo_device device;
    char folder[PATH_MAX]; /* "": search for it */
    const char *page_path;
} demo_options;

static bool read_device(const char *text, mend_demo_device *device)
{
    static const struct {
        const char *name;
        mend_demo_device device;
    } devices[] = {{"auto", MEND_DEMO_AUTO}, {"sim", MEND_DEMO_SIM}, {"cuda", MEND_DEMO_CUDA}};
    for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
        if (strcmp(text, devices[i].name) == 0) {
            *device = devices[i].device;
            return true;
        }
    }
    return false;
}

static bool read_options(int argc, char **argv, demo_options *options)
{
    *options = (demo_options){.page_path = "mend-demo.html"};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool is_good = false;
        if (value != NULL && strcmp(argv[i], "--device") == 0) {
            is_good = read_device(value, &options->device);
        } else if (value != NULL && strcmp(argv[i], "--traces") == 0) {
            int length = snprintf(options->folder, sizeof(options->folder), "%s", value);
            is_good = length > 0 && (size_t)length < sizeof(options->folder);
        } else if (value != NULL && strcmp(argv[i], "-o") == 0) {
            options->page_path = value;
            is_good = true;
        }
        if (!is_good) {
            fprintf(stderr, "mend demo: %s: unknown, or its value is missing or bad\n", argv[i]);
            return false;
        }
    }
    return true;
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
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return STATUS_COMPLETED;
    }
    demo_options options;
    if (!read_options(argc, argv, &options)) {
        fputs(usage, stderr);
        return STATUS_BAD_INPUT;
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
