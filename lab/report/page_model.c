#include "lab/report/page_model.h"

#include "lab/report/others.h"
#include "lab/support/json.h"

enum { LETTERS = 8 };

static void write_holders(mend_json *json, const mend_report *report)
{
    static const char *const trends[MEND_TREND_COUNT] = {"", "grows", "leaks"};
    mend_json_begin_array(json, "holders");
    for (size_t i = 0; i < report->holder_count; i++) {
        const mend_report_holder *holder = &report->holders[i];
        mend_json_begin_object(json, NULL);
        mend_json_string(json, "name", holder->name);
        if (holder->growth_bytes > 0) {
            mend_json_string(json, "trend", trends[holder->trend]);
            mend_json_integer(json, "growth", holder->growth_bytes);
        }
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
    mend_json_begin_array(json, "letters");
    for (size_t i = 0; i < LETTERS && i < report->holder_count; i++) {
        mend_json_integer(json, NULL, report->order[i]);
    }
    mend_json_end_array(json);
}

static void write_others(mend_json *json, const mend_report *report)
{
    const mend_report_other *recorded = mend_report_recorded(report);
    mend_json_begin_array(json, "others");
    for (size_t i = 0; i < report->other_count; i++) {
        const mend_report_other *other = &report->others[i];
        mend_json_begin_object(json, NULL);
        mend_json_string(json, "name", other->name);
        mend_json_bool(json, "is_this", other == recorded);
        if (other->is_known) {
            mend_json_integer(json, "needs", other->needs_bytes);
            mend_json_bool(json, "is_least", other->is_close);
            mend_json_integer(json, "waits", other->waits);
            mend_json_number(json, "driver_ms", other->driver_ms, 1);
        }
        if (other->knows_here) {
            mend_json_bool(json, "completes", other->completes_here);
        }
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
}

void mend_report_write_model(FILE *out, const mend_report *report, const mend_rows *rows)
{
    mend_json json = {.out = out};
    mend_json_begin_object(&json, NULL);
    mend_json_integer(&json, "rows", rows->count);
    mend_json_integer(&json, "blocks", report->trace->block_count);
    mend_json_integer(&json, "moment", rows->moment);
    mend_json_integer(&json, "peak", rows->peak);
    mend_json_integer(&json, "capacity", report->capacity_bytes);
    mend_json_bool(&json, "names_lines", report->detail.is_snapshot);
    mend_json_bool(&json, "knows_held", report->knows_held);
    mend_json_bool(&json, "knows_used", report->knows_gaps);
    mend_json_bool(&json, "joins", report->detail.is_expandable || report->knows_gaps);
    mend_json_begin_array(&json, "streams");
    for (size_t i = 0; i < report->trace->stream_count; i++) {
        mend_json_integer(&json, NULL, report->trace->stream_names[i]);
    }
    mend_json_end_array(&json);
    write_holders(&json, report);
    write_others(&json, report);
    mend_json_end_object(&json);
}
