#include "lab/workloads/workload.h"

#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/support/capacity.h"
#include "lab/workloads/generators.h"

enum { MAX_PARAMETERS = 8, MAX_SPEC_BYTES = 512 };

typedef struct stress_parameter {
    const char *name; /* NULL ends the list */
    uint64_t value;   /* the default */
    uint64_t most;
    uint64_t drawn_least, drawn_most; /* the range from which `draw` takes it */
    bool is_size;                     /* bytes. Otherwise a plain number */
} stress_parameter;

typedef struct stress_workload {
    const char *name;
    const char *what;
    void (*generate)(const uint64_t *parameters, mend_random *random, mend_population *population);
    stress_parameter parameters[MAX_PARAMETERS];
} stress_workload;

static const char prefix[] = "stress:";

#define SEED                                                                                       \
    {                                                                                              \
        "seed", 7, UINT64_MAX, 1, UINT32_MAX, false                                                \
    }
#define SIZE(name, value, drawn_least, drawn_most)                                                 \
    {                                                                                              \
        name, value, MEND_TIB, drawn_least, drawn_most, true                                       \
    }
#define COUNT(name, value, most, drawn_least, drawn_most)                                          \
    {                                                                                              \
        name, value, most, drawn_least, drawn_most, false                                          \
    }

/* The first parameter of each is the seed. The second is the size of the population, if it has
 * one. */
static const stress_workload workloads[] = {
    {"checkerboard",
     "fills with blocks of lo..hi, frees one of every so many, asks for more than any hole",
     mend_stress_checkerboard,
     {SEED, SIZE("live", 4 * MEND_GIB, 2 * MEND_GIB, 16 * MEND_GIB),
      SIZE("lo", 6 * MEND_MIB, MEND_MIB / 2, 8 * MEND_MIB),
      SIZE("hi", 30 * MEND_MIB, 8 * MEND_MIB, 96 * MEND_MIB), COUNT("every", 3, 1000, 2, 6),
      COUNT("rounds", 2, 1000, 1, 4)}},
    {"small-pins",
     "phases of large blocks, each leaving a few small ones for ever",
     mend_stress_small_pins,
     {SEED, SIZE("live", 6 * MEND_GIB, 2 * MEND_GIB, 24 * MEND_GIB),
      SIZE("pin", 3 * MEND_MIB / 2, MEND_MIB / 4, 4 * MEND_MIB), COUNT("pins", 24, 10000, 8, 64),
      COUNT("phases", 10, 1000, 4, 16)}},
    {"phase-shift",
     "sizes change from phase to phase while a random part of each phase survives",
     mend_stress_phase_shift,
     {SEED, SIZE("live", 8 * MEND_GIB, 4 * MEND_GIB, 24 * MEND_GIB),
      COUNT("phases", 12, 1000, 6, 20), COUNT("survivors", 15, 90, 5, 35)}},
    {"many-streams",
     "demand wanders from stream to stream",
     mend_stress_many_streams,
     {SEED, SIZE("live", 4 * MEND_GIB, 2 * MEND_GIB, 16 * MEND_GIB),
      COUNT("streams", 12, 1000, 3, 24), COUNT("turns", 36, 10000, 18, 72)}},
    {"staircase",
     "buffers grow: each is allocated again, a little larger, over a fixed base",
     mend_stress_staircase,
     {SEED, SIZE("base", MEND_GIB, MEND_GIB / 2, 4 * MEND_GIB),
      SIZE("top", MEND_GIB, MEND_GIB / 2, 4 * MEND_GIB),
      SIZE("step", 14 * MEND_MIB, 6 * MEND_MIB, 48 * MEND_MIB)}},
    {"random-mix",
     "sizes from 512 B to hi, each power of two as likely, with random lifetimes",
     mend_stress_random_mix,
     {SEED, SIZE("live", 8 * MEND_GIB, 2 * MEND_GIB, 24 * MEND_GIB),
      SIZE("hi", MEND_GIB, 64 * MEND_MIB, 2 * MEND_GIB),
      COUNT("allocations", 20000, 10000000, 4000, 20000)}},
    {"replaced",
     "blocks of lo..hi, each power of two as likely, of which one at random is replaced at a time",
     mend_stress_replaced,
     {SEED, COUNT("blocks", 500, 100000, 100, 1000),
      SIZE("lo", MEND_MIB, MEND_MIB / 4, 4 * MEND_MIB),
      SIZE("hi", 64 * MEND_MIB, 16 * MEND_MIB, 256 * MEND_MIB),
      COUNT("allocations", 40000, 10000000, 4000, 20000)}},
    {"rmm-random",
     "RMM's benchmark random_allocations: uniform sizes up to max, one stream, ends empty",
     mend_stress_rmm_random,
     {SEED, SIZE("live", 16000 * MEND_MIB, 4 * MEND_GIB, 32 * MEND_GIB),
      SIZE("max", 4 * MEND_GIB, 64 * MEND_MIB, 4 * MEND_GIB),
      COUNT("allocations", 1000, 10000000, 500, 4000)}},
    {"rmm-streams",
     "RMM's benchmark multi_stream_allocations: a buffer for each kernel, on the next stream",
     mend_stress_rmm_streams,
     {SEED, SIZE("size", 512, 512, 16 * MEND_MIB), COUNT("streams", 4, 1000, 2, 8),
      COUNT("kernels", 4, 100000, 2, 16), COUNT("rounds", 1000, 100000, 100, 1000)}},
};
enum { WORKLOAD_COUNT = sizeof(workloads) / sizeof(*workloads) };

bool mend_workload_is_spec(const char *text)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static mend_result fail(const char *spec, const char *reason, const char *what)
{
    return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%.100s: %s \"%.60s\"", spec, reason, what);
}

/* Values of the parameters, and which of them the text sets. */
typedef struct given_values {
    uint64_t value[MAX_PARAMETERS];
    bool is_given[MAX_PARAMETERS];
    uint64_t draw; /* not 0: decides the values that the text does not set */
} given_values;

static mend_result read_value(const char *spec, const stress_parameter *parameter, const char *text,
                              bool may_be_0, uint64_t *value)
{
    /* A plain number is parsed like a size without a unit. */
    bool has_unit = strpbrk(text, "BbKkMmGgTtIi.") != NULL;
    if (parameter->is_size && mend_is_fraction_of_bytes(text)) {
        return fail(spec, "a size in bytes has no fraction:", text);
    }
    if (!mend_parse_bytes(text, value) || (has_unit && !parameter->is_size) ||
        *value > parameter->most || (*value == 0 && !may_be_0)) {
        return fail(spec, "bad value", text);
    }
    return MEND_OK;
}

/* Reads "name=value" and sets the parameter. */
static mend_result read_parameter(const char *spec, const stress_workload *workload,
                                  char *assignment, given_values *given)
{
    char *equals = strchr(assignment, '=');
    if (equals == NULL) {
        return fail(spec, "not parameter=value:", assignment);
    }
    *equals = 0;
    if (strcmp("draw", assignment) == 0) {
        static const stress_parameter draw = COUNT("draw", 0, UINT32_MAX, 0, 0);
        return given->draw == 0 ? read_value(spec, &draw, equals + 1, false, &given->draw)
                                : fail(spec, "given twice:", assignment);
    }
    for (size_t i = 0; i < MAX_PARAMETERS && workload->parameters[i].name != NULL; i++) {
        const stress_parameter *parameter = &workload->parameters[i];
        if (strcmp(parameter->name, assignment) != 0) {
            continue;
        }
        if (given->is_given[i]) {
            return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%.100s: %s is given twice", spec,
                             parameter->name);
        }
        given->is_given[i] = true;
        return read_value(spec, parameter, equals + 1, i == 0, &given->value[i]);
    }
    return fail(spec, "no such parameter:", assignment);
}

static const stress_workload *find_workload(const char *name)
{
    for (size_t i = 0; i < WORKLOAD_COUNT; i++) {
        if (strcmp(workloads[i].name, name) == 0) {
            return &workloads[i];
        }
    }
    return NULL;
}

/* The value of a parameter, if the workload has it. */
static uint64_t value_named(const stress_workload *workload, const given_values *given,
                            const char *name, uint64_t otherwise)
{
    for (size_t i = 0; i < MAX_PARAMETERS && workload->parameters[i].name != NULL; i++) {
        if (strcmp(workload->parameters[i].name, name) == 0) {
            return given->value[i];
        }
    }
    return otherwise;
}

/* Draws the values that the text does not set, each power of two of a range as likely. */
static void draw_values(const stress_workload *workload, given_values *given)
{
    mend_random random = {.state = given->draw};
    for (size_t i = 0; i < MAX_PARAMETERS && workload->parameters[i].name != NULL; i++) {
        const stress_parameter *parameter = &workload->parameters[i];
        uint64_t drawn =
            mend_random_log_between(&random, parameter->drawn_least, parameter->drawn_most);
        given->value[i] = given->is_given[i] ? given->value[i] : drawn;
    }
}

/* The text after "?": "name=value&name=value". */
static mend_result read_parameters(const char *spec, const stress_workload *workload, char *list,
                                   given_values *given)
{
    for (char *part; (part = strsep(&list, "&")) != NULL;) {
        mend_result result = read_parameter(spec, workload, part, given);
        if (result != MEND_OK) {
            return result;
        }
    }
    if (given->draw != 0) {
        draw_values(workload, given);
    }
    if (value_named(workload, given, "lo", 0) > value_named(workload, given, "hi", UINT64_MAX)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%.100s: lo is more than hi", spec);
    }
    return MEND_OK;
}

static mend_result read_spec(const char *spec, uint64_t seed, const stress_workload **found,
                             given_values *given)
{
    char text[MAX_SPEC_BYTES];
    if (!mend_workload_is_spec(spec) || strlen(spec) >= sizeof(text)) {
        return fail(spec, "not a workload:", spec);
    }
    memcpy(text, spec + strlen(prefix), strlen(spec) - strlen(prefix) + 1);
    char *list = text;
    const char *name = strsep(&list, "?");
    const stress_workload *workload = find_workload(name);
    if (workload == NULL) {
        return fail(spec, "no such workload:", name);
    }
    *given = (given_values){.is_given = {false}};
    for (size_t i = 0; i < MAX_PARAMETERS; i++) {
        given->value[i] = workload->parameters[i].value;
    }
    if (seed != 0) {
        given->value[0] = seed;
    }
    *found = workload;
    return read_parameters(spec, workload, list, given);
}

mend_result mend_workload_generate_within(const char *spec, uint64_t seed, size_t most_events,
                                          mend_trace **trace)
{
    const stress_workload *workload = NULL;
    given_values given;
    mend_result result = read_spec(spec, seed, &workload, &given);
    if (result != MEND_OK) {
        return result;
    }
    mend_trace_builder builder;
    mend_trace_builder_init(&builder, spec);
    builder.event_limit = most_events;
    mend_population population;
    mend_population_init(&population, &builder);
    mend_random random = {.state = given.value[0]};
    if (builder.failure == MEND_OK) {
        workload->generate(given.value, &random, &population);
        if (builder.failure == MEND_OK && builder.trace->event_count == 0) {
            builder.failure = fail(spec, "makes no events:", workload->name);
        }
    }
    mend_population_clear(&population);
    result = mend_trace_builder_finish(&builder, trace);
    mend_trace_builder_clear(&builder);
    return result;
}

mend_result mend_workload_generate(const char *spec, uint64_t seed, mend_trace **trace)
{
    return mend_workload_generate_within(spec, seed, MEND_TRACE_MAX_EVENTS, trace);
}

static void format_default(const stress_parameter *parameter, char *text, size_t size)
{
    uint64_t value = parameter->value;
    if (!parameter->is_size) {
        snprintf(text, size, "%llu", (unsigned long long)value);
    } else if (value % MEND_GIB == 0) {
        snprintf(text, size, "%lluGiB", (unsigned long long)(value / MEND_GIB));
    } else if (value % MEND_MIB == 0) {
        snprintf(text, size, "%lluMiB", (unsigned long long)(value / MEND_MIB));
    } else if (value % MEND_KIB == 0) {
        snprintf(text, size, "%lluKiB", (unsigned long long)(value / MEND_KIB));
    } else {
        snprintf(text, size, "%lluB", (unsigned long long)value);
    }
}

void mend_workload_list(FILE *out)
{
    for (size_t i = 0; i < WORKLOAD_COUNT; i++) {
        fprintf(out, "%s%s\n    %s\n    ", prefix, workloads[i].name, workloads[i].what);
        for (size_t k = 0; k < MAX_PARAMETERS && workloads[i].parameters[k].name != NULL; k++) {
            char value[32];
            format_default(&workloads[i].parameters[k], value, sizeof(value));
            fprintf(out, "%s%s=%s", k == 0 ? "?" : "&", workloads[i].parameters[k].name, value);
        }
        fputc('\n', out);
    }
}
