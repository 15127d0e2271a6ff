#include "lab/report/page.h"

#include <stdbool.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/report/advice.h"
#include "lab/report/json.h"
#include "lab/report/page_files.h"
#include "lab/report/rows.h"
#include "lab/report/words.h"
#include "lab/support/json.h"
#include "lab/support/page_text.h"

typedef struct page_writer {
    FILE *out;
    const mend_report *report;
    const mend_rows *rows;
    bool lacks_memory;
} page_writer;

static void write_title(page_writer *page)
{
    char name[256];
    mend_trace_short_name(page->report->trace, name, sizeof(name));
    mend_page_text(page->out, name);
}

static void write_source(page_writer *page)
{
    char source[256];
    mend_report_tell_source(page->report, source, sizeof(source));
    mend_page_text(page->out, source);
}

static void write_verdict(page_writer *page)
{
    char verdict[MEND_VERDICT_BYTES];
    mend_report_judge(page->report, verdict, sizeof(verdict));
    mend_page_text(page->out, verdict);
}

static void write_reason(page_writer *page)
{
    if (mend_report_reason(page->report) != NULL) {
        fputs("<p><b>Why it did not fit:</b> ", page->out);
        mend_page_text(page->out, mend_report_reason(page->report));
        fputs("</p>", page->out);
    }
    char text[512];
    if (mend_report_tell_new(page->report, text, sizeof(text))) {
        fputs("<p>", page->out);
        mend_page_text(page->out, text);
        fputs(".</p>", page->out);
    }
}

static void write_tile(page_writer *page, const char *kind, const char *name, const char *value,
                       const char *below)
{
    fprintf(page->out, "<div class=\"tile %s\"><span>%s</span><b>%s</b><i>%s</i></div>\n", kind,
            name, value, below);
}

static void write_tiles(page_writer *page)
{
    const mend_report *report = page->report;
    char text[256];
    char away[128];
    snprintf(text, sizeof(text), "event %s of %s", COUNT(report->moment_events),
             COUNT(report->trace->event_count));
    write_tile(page, report->has_failed ? "bad" : "good", "outcome",
               report->has_failed ? "out of memory" : "no request failed",
               report->has_failed ? text : "in the recording");
    snprintf(text, sizeof(text), "at event %s", COUNT(report->peak_event));
    write_tile(page, "", "most in use", SIZE(report->peak_bytes), text);
    if (report->knows_held) {
        const bool is_away = mend_report_tell_away(report, away, sizeof(away));
        snprintf(text, sizeof(text), "%.3f times the most in use%s%s",
                 (double)report->peak_held_bytes / (double)mend_max_u64(report->peak_bytes, 1),
                 is_away ? "; beside it " : "", away);
        write_tile(page, "", "most held", SIZE(report->peak_held_bytes), text);
        const bool has_waits = report->detail.wait_count > 0;
        snprintf(text, sizeof(text), "released %s times%s%s", COUNT(report->given),
                 has_waits ? "; CPU stalls " : "",
                 has_waits ? COUNT(report->detail.wait_count) : "");
        write_tile(page, "", "memory taken", COUNT(report->taken), text);
    }
    bool grows = report->suspects > 0 || report->grows_as_whole;
    snprintf(text, sizeof(text), "%s from event %s on",
             SIZE(report->grows_as_whole ? report->whole_growth_bytes : report->growth_bytes),
             COUNT(report->growth_event));
    write_tile(page, grows ? "bad" : "good", "owners that grow", COUNT(report->suspects),
               report->grows_as_whole ? "but all memory in use grows"
               : grows                ? text
                                      : "nothing keeps growing");
}

static void write_tips(page_writer *page)
{
    mend_advice advice[MEND_ADVICE_MOST];
    size_t count = mend_report_advise(page->report, advice);
    for (size_t i = 0; i < count; i++) {
        fputs("<li><b>", page->out);
        mend_page_text(page->out, advice[i].what);
        fputs("</b>", page->out);
        if (advice[i].saved_bytes > 0) {
            fprintf(page->out, " <em>−%s</em>", SIZE(advice[i].saved_bytes));
        }
        fputs("<br><span>", page->out);
        mend_page_text(page->out, advice[i].evidence);
        fputs("</span></li>\n", page->out);
    }
    if (count == 0) {
        fputs("<li>Nothing stands out: the memory that is held is in use.</li>\n", page->out);
    }
}

static void write_style(page_writer *page)
{
    fputs((const char *)mend_report_style, page->out);
}

static void write_script(page_writer *page)
{
    fputs((const char *)mend_report_script, page->out);
}

static void write_model(page_writer *page)
{
    mend_report_write_model(page->out, page->report, page->rows);
}

static void write_data(page_writer *page)
{
    mend_json json = {.out = page->out, .is_in_page = true};
    mend_json_begin_object(&json, NULL);
#define X(name)                                                                                    \
    FILE *const name = mend_json_begin_text(&json, #name);                                         \
    page->lacks_memory |= !mend_column_write(&page->rows->name, name);                             \
    mend_json_end_text(&json);
    MEND_ROW_COLUMNS(X)
#undef X
    mend_json_end_object(&json);
}

static const struct {
    const char *name;
    void (*write)(page_writer *page);
} parts[] = {
    {"TITLE", write_title},   {"SOURCE", write_source}, {"VERDICT", write_verdict},
    {"TILES", write_tiles},   {"TIPS", write_tips},     {"STYLE", write_style},
    {"MODEL", write_model},   {"DATA", write_data},     {"SCRIPT", write_script},
    {"REASON", write_reason},
};

static void write_part(page_writer *page, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (strlen(parts[i].name) == length && strncmp(parts[i].name, name, length) == 0) {
            parts[i].write(page);
        }
    }
}

mend_result mend_report_write_page(FILE *out, const mend_report *report)
{
    mend_rows rows;
    mend_result result = mend_rows_make(report, &rows);
    page_writer page = {.out = out, .report = report, .rows = &rows};
    const char *at = (const char *)mend_report_html;
    for (const char *part; result == MEND_OK && (part = strstr(at, "{{")) != NULL;) {
        fwrite(at, 1, (size_t)(part - at), out);
        size_t length = strcspn(part + 2, "}");
        write_part(&page, part + 2, length);
        at = part + 2 + length + 2;
    }
    fputs(at, out);
    mend_rows_clear(&rows);
    return result == MEND_OK && page.lacks_memory
               ? mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the page")
               : result;
}
