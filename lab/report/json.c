#include "lab/report/json.h"

#include <string.h>

#include "lab/report/advice.h"
#include "lab/report/others.h"
#include "lab/support/json.h"

static const char *const trends[MEND_TREND_COUNT] = {"steady", "new", "grows", "leaks"};

/* ---- parts of both --------------------------------------------------------------------------- */

static void write_growth(mend_json *json, const mend_report_owner *owner)
{
    mend_json_string(json, "trend", trends[owner->trend]);
    mend_json_integer(json, "growth_bytes", owner->growth_bytes);
}

/* An allocator that is not known needs nothing that could be told. */
static void write_needs(mend_json *json, const mend_report_other *other)
{
    if (other->is_known) {
        mend_json_integer(json, "needs_bytes", other->needs_bytes);
        mend_json_bool(json, "is_least", other->is_close);
        mend_json_integer(json, "host_waits", other->waits);
        mend_json_number(json, "driver_ms", other->driver_ms, 3);
    }
    if (other->knows_here) {
        mend_json_bool(json, "completes_at_capacity", other->completes_here);
    }
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void write_failure(mend_json *json, const mend_report *report)
{
    if (!report->has_failed) {
        mend_json_null(json, "failure");
        return;
    }
    mend_json_begin_object(json, "failure");
    mend_json_integer(json, "event", report->failure.event);
    mend_json_integer(json, "size_bytes", report->failure.size_bytes);
    mend_json_integer(json, "failures", report->failures);
    if (report->trace->failure[0] != 0) {
        const mend_oom_report *oom_report = &report->detail.oom_report;
        mend_json_integer(json, "fitting_bytes", oom_report->fitting_bytes);
        mend_json_integer(json, "short_bytes", report->failure.short_bytes);
        mend_json_integer(json, "limit_bytes", oom_report->limit_bytes);
        mend_json_integer(json, "sufficient_limit_bytes", oom_report->sufficient_limit_bytes);
        mend_json_string(json, "message", report->trace->failure);
    }
    mend_json_end_object(json);
}

static void write_memory(mend_json *json, const mend_report *report)
{
    const mend_report_memory *memory = &report->memory;
    if (!report->knows_held && !report->knows_gaps) {
        mend_json_null(json, "memory");
        return;
    }
    mend_json_begin_object(json, "memory");
    mend_json_bool(json, "is_what_was_used", report->knows_gaps);
    mend_json_integer(json, "held_bytes", memory->held_bytes);
    mend_json_integer(json, "whole_segments_bytes", memory->whole_bytes);
    mend_json_integer(json, "beside_blocks_bytes", memory->beside_bytes);
    mend_json_integer(json, "other_streams_bytes", memory->others_bytes);
    mend_json_integer(json, "pending_bytes", report->failure.pending_bytes);
    mend_json_integer(json, "longest_piece_bytes", memory->longest_bytes);
    mend_json_integer(json, "pieces", memory->pieces);
    mend_json_end_object(json);
}

static void write_owners(mend_json *json, const mend_report *report)
{
    mend_json_begin_array(json, "owners");
    for (size_t i = 0; i < report->owner_count; i++) {
        const mend_report_owner *owner = &report->owners[report->order[i]];
        if (owner->bytes == 0 && owner->peak_bytes == 0 && owner->growth_bytes == 0) {
            continue;
        }
        mend_json_begin_object(json, NULL);
        mend_json_string(json, "name", owner->name);
        mend_json_integer(json, "live_bytes", owner->bytes);
        mend_json_integer(json, "blocks", owner->blocks);
        mend_json_integer(json, "oldest_event", owner->oldest_event);
        mend_json_integer(json, "waiting_bytes", owner->waiting_bytes);
        mend_json_integer(json, "at_peak_bytes", owner->peak_bytes);
        mend_json_integer(json, "keeps_free_bytes", owner->kept_free_bytes);
        write_growth(json, owner);
        if (owner->growth_bytes > 0) {
            mend_json_integer(json, "peak_without_bytes", owner->without_bytes);
        }
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
}

static void write_advice(mend_json *json, const mend_report *report)
{
    mend_advice advice[MEND_ADVICE_MOST];
    size_t count = mend_report_advise(report, advice);
    mend_json_begin_array(json, "advice");
    for (size_t i = 0; i < count; i++) {
        mend_json_begin_object(json, NULL);
        mend_json_integer(json, "saved_bytes", advice[i].saved_bytes);
        mend_json_string(json, "what", advice[i].what);
        mend_json_string(json, "evidence", advice[i].evidence);
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
}

static void write_others(mend_json *json, const mend_report *report)
{
    mend_json_begin_array(json, "others");
    for (size_t i = 0; i < report->other_count; i++) {
        const mend_report_other *other = &report->others[i];
        mend_json_begin_object(json, NULL);
        mend_json_string(json, "policy", other->policy);
        mend_json_bool(json, "simulated", other->is_known);
        write_needs(json, other);
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
}

static void write_figures(mend_json *json, const mend_report *report)
{
    char verdict[MEND_VERDICT_BYTES];
    mend_report_judge(report, verdict, sizeof(verdict));
    mend_json_string(json, "file", report->trace->name);
    mend_json_string(json, "verdict", verdict);
    mend_json_integer(json, "events", report->trace->event_count);
    mend_json_integer(json, "blocks", report->trace->block_count);
    mend_json_integer(json, "events_before_recording", report->detail.before_events);
    mend_json_integer(json, "capacity_bytes", report->capacity_bytes);
    mend_json_integer(json, "peak_live_bytes", report->peak_bytes);
    mend_json_integer(json, "peak_event", report->peak_event);
    mend_json_integer(json, "peak_held_bytes", report->peak_held_bytes);
    mend_json_integer(json, "peak_asleep_bytes", report->detail.most_asleep_bytes);
    mend_json_integer_if(json, "host_waits", report->detail.is_recording,
                         report->detail.wait_count);
    mend_json_integer(json, "moment_events", report->moment_events);
    mend_json_integer(json, "live_bytes", report->live_bytes);
    mend_json_integer(json, "suspects", report->suspects);
    mend_json_integer(json, "growth_bytes", report->growth_bytes);
    mend_json_bool(json, "grows_as_whole", report->grows_as_whole);
    mend_json_integer(json, "peak_without_growth_bytes", report->without_bytes);
}

void mend_report_print_json(FILE *out, const mend_report *report, const mend_report *against)
{
    mend_json json = {.out = out};
    mend_json_begin_object(&json, NULL);
    write_figures(&json, report);
    write_failure(&json, report);
    write_memory(&json, report);
    write_advice(&json, report);
    write_owners(&json, report);
    write_others(&json, report);
    if (against != NULL) {
        mend_json_begin_object(&json, "against");
        write_figures(&json, against);
        write_failure(&json, against);
        write_owners(&json, against);
        mend_json_end_object(&json);
    }
    mend_json_end_object(&json);
    fputc('\n', out);
}

/* ---- for the page ---------------------------------------------------------------------------- */

/* Fields of an owner in a recording of Mend, beside its name. */
static void write_parts(mend_json *json, const mend_trace_owner *owner)
{
    static const char *const keys[MEND_TRACE_PARTS] = {"scope", "tag", "line"};
    size_t at = 0;
    for (int part = 0; part < MEND_TRACE_PARTS; part++) {
        char text[MEND_TRACE_LABEL_BYTES];
        const int bytes = owner->part_bytes[part];
        if (bytes > 0) {
            snprintf(text, sizeof(text), "%.*s", bytes, owner->name + at);
            mend_json_string(json, keys[part], text);
            at += (size_t)bytes + strlen(", ");
        }
    }
}

/* In their own order: rows name an owner by its number. Thousands of them do not grow. */
static void write_page_owners(mend_json *json, const mend_report *report)
{
    mend_json_begin_array(json, "owners");
    for (size_t i = 0; i < report->owner_count; i++) {
        const mend_report_owner *owner = &report->owners[i];
        mend_json_begin_object(json, NULL);
        mend_json_string(json, "name", owner->name);
        if (i < report->detail.owner_count) {
            write_parts(json, &report->detail.owners[i]);
        }
        if (owner->trend != MEND_TREND_STEADY) {
            write_growth(json, owner);
        }
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
    mend_json_begin_array(json, "letters");
    for (size_t i = 0; i < report->owner_count; i++) {
        if (report->owners[report->order[i]].letter != 0) {
            mend_json_integer(json, NULL, report->order[i]);
        }
    }
    mend_json_end_array(json);
}

static void write_page_others(mend_json *json, const mend_report *report)
{
    const mend_report_other *recorded = mend_report_recorded(report);
    mend_json_begin_array(json, "others");
    for (size_t i = 0; i < report->other_count; i++) {
        mend_json_begin_object(json, NULL);
        mend_json_string(json, "name", report->others[i].name);
        mend_json_bool(json, "is_this", &report->others[i] == recorded);
        write_needs(json, &report->others[i]);
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
}

void mend_report_write_model(FILE *out, const mend_report *report, const mend_rows *rows)
{
    mend_json json = {.out = out, .is_in_page = true};
    mend_json_begin_object(&json, NULL);
    mend_json_integer(&json, "rows", rows->count);
    mend_json_integer(&json, "blocks", report->trace->block_count);
    mend_json_integer(&json, "moment", rows->moment);
    mend_json_integer(&json, "peak", rows->peak);
    mend_json_integer(&json, "capacity", report->capacity_bytes);
    mend_json_integer(&json, "growth_event", report->growth_event);
    mend_json_string(&json, "owner_kind", mend_report_owner_kind(report));
    mend_json_bool(&json, "knows_held", report->knows_held);
    mend_json_bool(&json, "knows_used", report->knows_gaps);
    mend_json_bool(&json, "has_places", report->detail.has_places);
    mend_json_bool(&json, "is_recording", report->detail.is_recording);
    mend_json_bool(&json, "joins", report->detail.is_expandable || report->knows_gaps);
    char away[128];
    mend_report_tell_away(report, away, sizeof(away));
    mend_json_string(&json, "away", away);
    mend_json_begin_array(&json, "streams");
    for (size_t i = 0; i < report->trace->stream_count; i++) {
        mend_json_integer(&json, NULL, report->trace->stream_names[i]);
    }
    mend_json_end_array(&json);
    mend_json_begin_array(&json, "stream_names");
    for (size_t i = 0; i < report->trace->stream_count; i++) {
        char name[MEND_NAME_BYTES];
        mend_trace_detail_tell_stream(&report->detail, report->trace->stream_names[i], name,
                                      sizeof(name));
        mend_json_string(&json, NULL, name);
    }
    mend_json_end_array(&json);
    write_page_owners(&json, report);
    write_page_others(&json, report);
    mend_json_end_object(&json);
}
