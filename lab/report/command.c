#include "lab/report/command.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "lab/report/change.h"
#include "lab/report/json.h"
#include "lab/report/others.h"
#include "lab/report/page.h"
#include "lab/report/report.h"
#include "lab/report/text.h"
#include "lab/support/capacity.h"
#include "lab/support/output.h"

enum { STATUS_GOOD = 0, STATUS_FINDINGS = 1, STATUS_BAD_INPUT = 2 };

typedef struct report_arguments {
    const char *file;
    const char *against;
    const char *page;
    uint64_t capacity_bytes; /* 0: not given */
    bool what_if;
    bool no_what_if;
    bool json;
} report_arguments;

enum {
    OPTION_AGAINST,
    OPTION_WHAT_IF,
    OPTION_NO_WHAT_IF,
    OPTION_CAPACITY,
    OPTION_JSON,
    OPTION_PAGE,
    OPTION_HELP
};

static const mend_option options[] = {
    [OPTION_AGAINST] = {"against", "FILE", "changes since that run", NULL},
    [OPTION_WHAT_IF] = {"what-if", NULL, "more allocators and settings, and a longer search", NULL},
    [OPTION_NO_WHAT_IF] = {"no-what-if", NULL, "no other allocators: the fastest", NULL},
    [OPTION_CAPACITY] = {"capacity", "SIZE",
                         "the memory of the device, where the file does not say: bytes, or a "
                         "number with KiB, MiB, GiB or TiB",
                         NULL},
    [OPTION_JSON] = {"json", NULL, "one JSON object", NULL},
    [OPTION_PAGE] = {"o", "PAGE",
                     "writes a page with all of it beside: one HTML file that loads nothing", NULL},
    [OPTION_HELP] = MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

const mend_command mend_report_command = {
    .name = "report",
    .what = "show the owners of memory in a recording, leaks, and fixes",
    .arguments = "FILE",
    .about =
        "Shows the memory of a recorded program: the failed request and its reason, owners, "
        "growth, the best fixes, and the needs of other allocators for the same requests. FILE "
        "is a recording of Mend, a memory snapshot of PyTorch (pickle or JSON) "
        "or a log of RMM, plain or .gz.",
    .options = options,
    .status = "Exit status: 0 nothing was found, 1 a request failed or something keeps growing, 2 "
              "bad usage or input.",
};

static bool fail(const char *reason, const char *text)
{
    fprintf(stderr, "libmend report: %s%s%s%s; see libmend report --help\n", reason,
            *text == 0 ? "" : " \"", text, *text == 0 ? "" : "\"");
    return false;
}

static bool take_option(int option, char *text, void *into)
{
    report_arguments *arguments = into;
    const char *wrong;
    switch (option) {
    case OPTION_AGAINST:
        arguments->against = text;
        return true;
    case OPTION_WHAT_IF:
        arguments->what_if = true;
        return true;
    case OPTION_NO_WHAT_IF:
        arguments->no_what_if = true;
        return true;
    case OPTION_CAPACITY:
        wrong = mend_parse_device_bytes(text, &arguments->capacity_bytes);
        return wrong == NULL || fail(wrong, text);
    case OPTION_JSON:
        arguments->json = true;
        return true;
    case OPTION_PAGE:
        arguments->page = text;
        return true;
    default:
        return false;
    }
}

static bool read_file(int argc, char **argv, report_arguments *arguments)
{
    if (argc - optind != 1) {
        return fail(argc == optind ? "no file" : "more than one file:",
                    argc == optind ? "" : argv[optind + 1]);
    }
    if (arguments->what_if && arguments->no_what_if) {
        return fail("only one of --what-if and --no-what-if", "");
    }
    if (arguments->what_if && arguments->against != NULL) {
        return fail("only one of --what-if and --against", "");
    }
    if (arguments->page != NULL && arguments->against != NULL) {
        return fail("only one of -o and --against", "");
    }
    arguments->file = argv[optind];
    return true;
}

static bool load(const report_arguments *arguments, const char *file, mend_report **report)
{
    if (mend_report_create(file, arguments->capacity_bytes, report) != MEND_OK) {
        mend_command_fail(&mend_report_command, "");
        return false;
    }
    if ((*report)->trace->note[0] != 0) {
        fprintf(stderr, "libmend report: %s: %s\n", file, (*report)->trace->note);
    }
    return true;
}

static void print(const report_arguments *arguments, const mend_report *report,
                  const mend_report *against)
{
    if (arguments->json) {
        mend_report_print_json(stdout, report, against);
    } else if (against != NULL) {
        mend_report_print_change(stdout, against, report);
    } else if (arguments->what_if) {
        mend_report_print_others(stdout, report);
    } else {
        mend_report_print(stdout, report);
    }
}

/* A page that cannot be made leaves its file as it was. */
static bool write_page(mend_output *page, const mend_report *report)
{
    if (page->stream != NULL && mend_report_write_page(page->stream, report) != MEND_OK) {
        fprintf(stderr, "libmend report: no host memory for the page\n");
        return false;
    }
    return mend_output_close(page);
}

static int report_on(const report_arguments *arguments, mend_output *page)
{
    mend_report *report = NULL;
    mend_report *against = NULL;
    uint64_t budget = arguments->what_if ? MEND_REPORT_MORE_BUDGET : MEND_REPORT_BUDGET;
    bool simulates = !arguments->no_what_if && arguments->against == NULL;
    int status = STATUS_BAD_INPUT;
    if (load(arguments, arguments->file, &report) &&
        (arguments->against == NULL || load(arguments, arguments->against, &against))) {
        simulates = simulates && mend_report_has_history(report);
        if (simulates && mend_report_find_others(report, arguments->what_if, budget) != MEND_OK) {
            fprintf(stderr, "libmend report: no host memory for the simulation\n");
        }
        print(arguments, report, against);
        status = !write_page(page, report)          ? STATUS_BAD_INPUT
                 : mend_report_has_findings(report) ? STATUS_FINDINGS
                                                    : STATUS_GOOD;
    }
    mend_report_destroy(against);
    mend_report_destroy(report);
    return status;
}

int mend_cli_report(int argc, char **argv)
{
    report_arguments arguments = {0};
    int status;
    if (!mend_command_read(&mend_report_command, argc, argv, take_option, &arguments, &status)) {
        return status;
    }
    mend_output page;
    if (!read_file(argc, argv, &arguments) || !mend_output_open(&page, "report", arguments.page)) {
        return STATUS_BAD_INPUT;
    }
    status = mend_output_is_apart(&page, arguments.file) ? report_on(&arguments, &page)
                                                         : STATUS_BAD_INPUT;
    mend_output_discard(&page);
    return status;
}
