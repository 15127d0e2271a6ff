#include "lab/support/costs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lab/support/lines.h"

enum { FIELDS = 4 };
static const uint64_t most_ns = UINT64_C(1000000000000);

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define X(call) {#call, offsetof(mend_sim_prices, call)},
    MEND_SIM_PRICED_CALLS(X)
#undef X
};
enum { CALL_COUNT = sizeof(calls) / sizeof(*calls) };

static bool parse_ns(const char *text, uint64_t *value)
{
    *value = 0;
    for (; *text >= '0' && *text <= '9' && *value < most_ns; text++) {
        *value = *value * 10 + (uint64_t)(*text - '0');
    }
    return *text == 0 && *value < most_ns;
}

/* Splits a line at its blanks. Returns the number of fields. At most one too many. */
static size_t split(char *line, char *fields[FIELDS + 1])
{
    size_t count = 0;
    char *rest = NULL;
    for (char *part = strtok_r(line, " \t", &rest); part != NULL && count <= FIELDS;
         part = strtok_r(NULL, " \t", &rest)) {
        fields[count++] = part;
    }
    return count;
}

static mend_result take_line(mend_line_source *source, mend_sim_prices *prices,
                             bool seen[CALL_COUNT])
{
    source->line[strcspn(source->line, "#")] = 0;
    char *fields[FIELDS + 1];
    size_t count = split(source->line, fields);
    if (count == 0) {
        return MEND_OK;
    }
    if (count != FIELDS) {
        return mend_line_source_fail(source, "not a name and three numbers");
    }
    size_t call = 0;
    while (call < CALL_COUNT && strcmp(calls[call].name, fields[0]) != 0) {
        call++;
    }
    if (call == CALL_COUNT) {
        return mend_line_source_fail(source, "no call \"%.40s\" has a cost", fields[0]);
    }
    if (seen[call]) {
        return mend_line_source_fail(source, "a second cost for %s", fields[0]);
    }
    seen[call] = true;
    uint64_t values[FIELDS];
    for (size_t i = 1; i < FIELDS; i++) {
        if (!parse_ns(fields[i], &values[i])) {
            return mend_line_source_fail(source, "\"%.40s\" is not a cost in nanoseconds",
                                         fields[i]);
        }
    }
    mend_sim_price price = {values[1], values[2], values[3]};
    memcpy((char *)prices + calls[call].offset, &price, sizeof(price));
    return MEND_OK;
}

mend_result mend_costs_read(const char *path, mend_sim_prices *prices)
{
    mend_line_source source;
    mend_result result = mend_line_source_open(&source, path);
    if (result != MEND_OK) {
        return result;
    }
    mend_sim_prices read = MEND_SIM_PRICES_INIT;
    bool seen[CALL_COUNT] = {false};
    while (result == MEND_OK) {
        result = mend_line_source_next(&source);
        if (result != MEND_OK || source.ended) {
            break;
        }
        result = take_line(&source, &read, seen);
    }
    mend_line_source_close(&source);
    if (result == MEND_OK) {
        *prices = read;
    }
    return result;
}
