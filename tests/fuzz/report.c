/*
 * Bytes as the file of a report: refused with the reason, or its sums hold, and its text is a page
 * of printable characters.
 */
#include "lab/report/report.h"

#include <string.h>

#include "lab/report/change.h"
#include "lab/report/json.h"
#include "lab/report/page.h"
#include "lab/report/text.h"
#include "lab/report/words.h"
#include "tests/fuzz/fuzz.h"

static void check_sums(const mend_report *report)
{
    const mend_report_memory *memory = &report->memory;
    uint64_t live_bytes = 0;
    uint64_t peak_bytes = 0;
    uint64_t kept_bytes = 0;
    for (size_t h = 0; h < report->owner_count; h++) {
        live_bytes += report->owners[h].bytes;
        peak_bytes += report->owners[h].peak_bytes;
        kept_bytes += report->owners[h].kept_free_bytes;
        FUZZ_CHECK(report->owners[h].without_bytes <= report->peak_bytes, "%zu", h);
    }
    FUZZ_CHECK(live_bytes == report->live_bytes, "what owners hold");
    FUZZ_CHECK(peak_bytes == report->peak_bytes, "what owners hold at the peak");
    FUZZ_CHECK(report->peak_bytes == report->trace->peak_live_bytes, "the peak");
    FUZZ_CHECK(report->without_bytes <= report->peak_bytes, "the peak without growth");
    FUZZ_CHECK(kept_bytes == (report->knows_held ? memory->beside_bytes : 0),
               "what keeps free memory in place");
    FUZZ_CHECK(memory->whole_bytes + memory->beside_bytes <= memory->held_bytes, "free memory");
    FUZZ_CHECK(memory->longest_bytes <= memory->whole_bytes + memory->beside_bytes, "a piece");
    FUZZ_CHECK(report->moment_events <= report->trace->event_count, "the moment");
}

static char *printed(void (*print)(FILE *out, const mend_report *report), const mend_report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    FUZZ_CHECK(out != NULL, "no memory");
    print(out, report);
    fclose(out);
    return text;
}

static void check_page(const char *text)
{
    size_t lines = 0;
    size_t columns = 0;
    for (; *text != 0; text++) {
        unsigned char byte = (unsigned char)*text;
        FUZZ_CHECK(byte == '\n' || (byte >= 0x20 && byte != 0x7f), "byte %u", byte);
        columns = byte == '\n' ? 0 : columns + ((byte & 0xc0) != 0x80);
        lines += byte == '\n';
        FUZZ_CHECK(columns <= MEND_WORDS_WIDTH && lines <= MEND_TEXT_LINES, "%zu lines", lines);
    }
}

static void print_json(FILE *out, const mend_report *report)
{
    mend_report_print_json(out, report, report);
}

static void print_no_change(FILE *out, const mend_report *report)
{
    mend_report_print_change(out, report, report);
}

static void print_page(FILE *out, const mend_report *report)
{
    FUZZ_CHECK(mend_report_write_page(out, report) == MEND_OK, "no page");
}

/* Three scripts and the end: no name of the file ends one. */
static void check_html(const char *text)
{
    size_t ends = 0;
    for (const char *at = text; (at = strstr(at, "</script")) != NULL; at++) {
        ends++;
    }
    FUZZ_CHECK(ends == 3, "%zu scripts end", ends);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    mend_report *report = NULL;
    mend_result result = mend_report_create(path, 0, &report);
    FUZZ_CHECK((result == MEND_OK) == (report != NULL), "%s", mend_result_name(result));
    if (result != MEND_OK) {
        fuzz_check_refusal(result, path);
        return 0;
    }
    check_sums(report);
    char *texts[] = {printed(mend_report_print, report), printed(print_no_change, report),
                     printed(print_json, report), printed(print_page, report)};
    check_page(texts[0]);
    check_page(texts[1]);
    FUZZ_CHECK(strchr(texts[2], '\n') == strrchr(texts[2], '\n'), "more than one line of JSON");
    check_html(texts[3]);
    for (size_t i = 0; i < 4; i++) {
        free(texts[i]);
    }
    mend_report_destroy(report);
    return 0;
}
