#include "lab/trace/rmm.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/trace/builder.h"

enum { COLUMN_THREAD, COLUMN_TIME, COLUMN_ACTION, COLUMN_POINTER, COLUMN_SIZE, COLUMN_STREAM };
enum { COLUMN_COUNT = 6 };
static const char *const column_names[COLUMN_COUNT] = {"Thread",  "Time", "Action",
                                                       "Pointer", "Size", "Stream"};

typedef struct log_row {
    char *fields[COLUMN_COUNT]; /* parts of `text`, without spaces around them */
    char text[MEND_LINE_BYTES + 1];
} log_row;

/* Splits the line at its commas. False if the number of fields is wrong. */
static bool split(const mend_line_source *source, log_row *row)
{
    memcpy(row->text, source->line, source->line_length + 1);
    char *rest = row->text;
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        char *comma = strchr(rest, ',');
        if ((comma != NULL) != (i + 1 < COLUMN_COUNT)) {
            return false;
        }
        char *end = comma != NULL ? comma : rest + strlen(rest);
        while (isspace((unsigned char)*rest) && rest < end) {
            rest++;
        }
        row->fields[i] = rest;
        rest = end + 1;
        while (end > row->fields[i] && isspace((unsigned char)end[-1])) {
            end--;
        }
        *end = 0;
    }
    return true;
}

bool mend_trace_is_rmm_log(const mend_line_source *source)
{
    log_row row;
    if (!split(source, &row)) {
        return false;
    }
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        if (strcasecmp(row.fields[i], column_names[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Digits, or 0x and hexadecimal digits; nothing before or after, and no overflow. */
static bool parse_number(const char *text, uint64_t *number)
{
    bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = is_hex ? text + 2 : text;
    if (is_hex ? !isxdigit((unsigned char)*digits) : !isdigit((unsigned char)*digits)) {
        return false;
    }
    char *end;
    errno = 0;
    uintmax_t value = strtoumax(digits, &end, is_hex ? 16 : 10);
    /* The tables cannot have the largest number; no pointer is that large. */
    if (*end != 0 || errno != 0 || value >= UINT64_MAX) {
        return false;
    }
    *number = value;
    return true;
}

/* A name for the text in the column Thread: its number, or a hash of the text. */
static uint64_t thread_name(const char *text)
{
    uint64_t name;
    if (parse_number(text, &name)) {
        return name;
    }
    name = UINT64_C(14695981039346656037);
    for (; *text != 0; text++) {
        name = (name ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return name >> 1;
}

static mend_result fail_field(const mend_line_source *source, int column, const char *text)
{
    return mend_line_source_fail(source, "%s \"%.40s\" is not a number", column_names[column],
                                 text);
}

/* Refuses with the line what the builder refuses. */
static mend_result judge_builder(const mend_line_source *source, const mend_trace_builder *builder)
{
    if (builder->failure != MEND_ERROR_INVALID_ARGUMENT) {
        return builder->failure;
    }
    char reason[128];
    mend_error error = MEND_ERROR_INIT;
    mend_last_error(&error);
    snprintf(reason, sizeof(reason), "%s", error.message);
    return mend_line_source_fail(source, "%s", reason);
}

/* `live` maps the key of a pointer to its block + 1. */
static mend_result take_event(const mend_line_source *source, mend_trace_builder *builder,
                              mend_pointer_map *live, const log_row *row)
{
    const char *action = row->fields[COLUMN_ACTION];
    bool is_alloc = strcmp(action, "allocate") == 0;
    if (!is_alloc && strcmp(action, "free") != 0) {
        return mend_line_source_fail(source, "unknown action \"%.40s\"", action);
    }
    static const int numbers[] = {COLUMN_POINTER, COLUMN_SIZE, COLUMN_STREAM};
    uint64_t values[COLUMN_COUNT] = {0};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        int column = numbers[i];
        if (!parse_number(row->fields[column], &values[column])) {
            return fail_field(source, column, row->fields[column]);
        }
    }
    mend_trace_actor actor = {values[COLUMN_STREAM], thread_name(row->fields[COLUMN_THREAD])};
    uint64_t key = mend_trace_key(builder, values[COLUMN_POINTER]);
    if (!is_alloc) {
        void *found = mend_pointer_map_remove(live, key);
        if (found == NULL) {
            return mend_line_source_fail(source, "free of %s, which is not allocated",
                                         row->fields[COLUMN_POINTER]);
        }
        mend_trace_builder_free(builder, (uint32_t)((uintptr_t)found - 1), actor);
        return judge_builder(source, builder);
    }
    if (values[COLUMN_SIZE] > MEND_TRACE_MAX_SIZE_BYTES) {
        return mend_line_source_fail(source, "size %s is above 2^60 bytes",
                                     row->fields[COLUMN_SIZE]);
    }
    if (mend_pointer_map_find(live, key) != NULL) {
        return mend_line_source_fail(source, "%s is allocated again before it is freed",
                                     row->fields[COLUMN_POINTER]);
    }
    if (!mend_pointer_map_reserve(live)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint32_t block = mend_trace_builder_alloc(builder, values[COLUMN_SIZE], actor);
    mend_pointer_map_insert(live, key, (void *)((uintptr_t)block + 1));
    return judge_builder(source, builder);
}

static mend_result take_line(const mend_line_source *source, mend_trace_builder *builder,
                             mend_pointer_map *live)
{
    if (source->line[strspn(source->line, " \t")] == 0) {
        return MEND_OK;
    }
    log_row row;
    if (!split(source, &row)) {
        return mend_line_source_fail(source, "not %d fields: \"%.60s\"", COLUMN_COUNT,
                                     source->line);
    }
    if (strcmp(row.fields[COLUMN_ACTION], "allocate failure") == 0) {
        return MEND_OK;
    }
    return take_event(source, builder, live, &row);
}

mend_result mend_trace_read_rmm_log(mend_line_source *source, mend_trace **trace)
{
    mend_trace_builder builder;
    mend_trace_builder_init(&builder, source->path);
    mend_pointer_map live;
    mend_pointer_map_init(&live);
    mend_result result = builder.failure;
    while (result == MEND_OK) {
        result = mend_line_source_next(source);
        if (result != MEND_OK || source->ended) {
            break;
        }
        result = take_line(source, &builder, &live);
    }
    if (result == MEND_OK && builder.trace->event_count == 0) {
        result = mend_line_source_fail(source, "the trace has no events");
    }
    if (result == MEND_OK) {
        result = mend_trace_builder_finish(&builder, trace);
    }
    mend_pointer_map_clear(&live);
    mend_trace_builder_clear(&builder);
    return result;
}
