#include "lab/replay/arguments.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/peers/peer.h"
#include "lab/peers/policies.h"
#include "lab/support/costs.h"

enum { LIST_SHOWN = 256 }; /* most characters of a wrong list in a message */

enum {
    OPTION_DEVICE,
    OPTION_ALLOCATOR,
    OPTION_CAPACITY,
    OPTION_LAG,
    OPTION_COSTS,
    OPTION_OTHERS,
    OPTION_TIMELINE,
    OPTION_CONTENT,
    OPTION_SCALE,
    OPTION_LOAD,
    OPTION_BALLAST,
    OPTION_THREADS,
    OPTION_TASKS,
    OPTION_NO_CONTEXT_EVENTS,
    OPTION_SEED,
    OPTION_EXPLAIN,
    OPTION_JSON,
    OPTION_LIST,
    OPTION_HELP
};

static const char *policy_at(size_t index)
{
    return mend_peer_policies[index].name;
}

static const mend_option options[] = {
    [OPTION_DEVICE] = {"device", "sim|cuda", "a simulated device (default), or the GPU", NULL},
    [OPTION_ALLOCATOR] = {"allocator", "NAME[,...]", "mend (default), or one of the list below",
                          policy_at},
    [OPTION_CAPACITY] = {"capacity", "SIZE[,...]",
                         "the device's memory: bytes, or a number with KiB, MiB, GiB or TiB; 1.05x "
                         "(of the peak of live memory); unlimited (default); fit (the least that "
                         "is enough)",
                         NULL},
    [OPTION_LAG] = {"free-latency", "N",
                    "rows after a free until the GPU is done with the block (64)", NULL},
    [OPTION_COSTS] = {"costs", "h200|reference|kvcached-a100|FILE",
                      "costs of driver calls: h200 (default), another table, or a file", NULL},
    [OPTION_OTHERS] = {"reserved-by-others", "PERCENT|SIZE",
                       "memory that other processes hold, besides the capacity (0)", NULL},
    [OPTION_TIMELINE] = {"timeline", "FILE", "write live and reserved memory over time there",
                         NULL},
    [OPTION_CONTENT] = {"content", "none|check|sample",
                        "check: write every block and compare it before it is freed; sample, on "
                        "the GPU: only one piece of 512 B in each 64 KiB",
                        NULL},
    [OPTION_SCALE] = {"scale", "F|fit", "divide all sizes by F, or so that the peak fits the GPU",
                      NULL},
    [OPTION_LOAD] = {"gpu-load", NULL,
                     "on the GPU, run a kernel that streams through memory as well", NULL},
    [OPTION_BALLAST] = {"fill-device", NULL,
                        "on the GPU, take all memory above the capacity, so that it is the driver "
                        "that refuses, and set no limit",
                        NULL},
    [OPTION_THREADS] = {"threads", "N", "replay with N threads", NULL},
    [OPTION_TASKS] = {"short-threads", "N",
                      "replay N rows at a time in a thread of their own, on its per-thread stream; "
                      "it ends, and the allocator is not told",
                      NULL},
    [OPTION_NO_CONTEXT_EVENTS] = {"no-context-events", NULL,
                                  "the simulated device has no event of a whole context, as before "
                                  "CUDA 12.5",
                                  NULL},
    [OPTION_SEED] = {"seed", "N", "seed of workloads that name none", NULL},
    [OPTION_EXPLAIN] = {"explain", NULL, "show where memory and driver time go", NULL},
    [OPTION_JSON] = {"json", NULL, "one JSON object a line", NULL},
    [OPTION_LIST] = {"list", NULL, "print the workloads", NULL},
    [OPTION_HELP] = MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

static void print_policies(FILE *out)
{
    fputs("Columns: reserved, most memory held; x live, over the peak of live memory; driver ms,\n"
          "the sum of costs; 2nd half, of the second half of the events; alloc p50, median\n"
          "host time of an allocation.\n\nAllocators:\n",
          out);
    for (const mend_peer_policy *policy = mend_peer_policies; policy->name != NULL; policy++) {
        fprintf(out, "  %-22s %s%s\n", policy->name, policy->what,
                policy->is_real ? "; with --device cuda" : "");
    }
}

const mend_command mend_replay_command = {
    .name = "replay",
    .what = "run recorded allocations through allocators",
    .arguments = "TRACE|WORKLOAD...",
    .about = "Runs recorded or generated allocations through allocators, and prints the result. "
             "TRACE is a log of RMM or a memory snapshot of PyTorch (pickle or JSON), plain or "
             ".gz; WORKLOAD is stress:NAME?parameter=value&...",
    .options = options,
    .more = print_policies,
    .status = "Exit status: 0 all completed, 1 some ran out of memory, 2 bad usage or input, or an "
              "output cannot be written, 3 wrong content or a rule of the driver broken.",
};

static bool fail(const char *reason, const char *text)
{
    fprintf(stderr, "libmend replay: %s \"%s\"; see libmend replay --help\n", reason, text);
    return false;
}

static bool read_count(const char *text, uint64_t most, uint64_t *value)
{
    uint64_t count = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != 0 || digits > 18) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        count = count * 10 + (uint64_t)(text[i] - '0');
    }
    if (count > most) {
        return false;
    }
    *value = count;
    return true;
}

static bool read_scale(const char *text, double *scale)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value > 0) || value > 1e12) {
        return false;
    }
    *scale = value;
    return true;
}

/* The next item of a list. NULL after the last. If the item is empty, prints the reason and sets
 * *is_good to false. */
static char *next_item(char **rest, const char *list, bool *is_good)
{
    char *item = strsep(rest, ",");
    *is_good = item == NULL || *item != 0 || fail("an empty item in", list);
    return item;
}

static bool read_policy(const char *name, mend_replay_arguments *arguments)
{
    if (mend_peer_find_policy(name) == NULL) {
        fprintf(stderr, "libmend replay: no such allocator: \"%s\"; there are", name);
        for (const mend_peer_policy *policy = mend_peer_policies; policy->name != NULL; policy++) {
            fprintf(stderr, " %s", policy->name);
        }
        fputs("\n", stderr);
        return false;
    }
    for (size_t i = 0; i < arguments->policy_count; i++) {
        if (strcmp(arguments->policies[i], name) == 0) {
            return fail("an allocator is given twice:", name);
        }
    }
    return true;
}

static bool read_policies(char *list, mend_replay_arguments *arguments)
{
    char whole[LIST_SHOWN];
    snprintf(whole, sizeof(whole), "%s", list);
    char *rest = list;
    bool is_good = true;
    arguments->policy_count = 0;
    for (char *name; (name = next_item(&rest, whole, &is_good)) != NULL;) {
        if (!is_good || !read_policy(name, arguments)) {
            return false;
        }
        if (arguments->policy_count == MEND_REPLAY_MAX_LIST) {
            return fail("too many allocators at", name);
        }
        arguments->policies[arguments->policy_count++] = name;
    }
    return true;
}

static bool is_same_capacity(const mend_capacity *a, const mend_capacity *b)
{
    return a->kind == b->kind && a->bytes == b->bytes && !(a->factor < b->factor) &&
           !(a->factor > b->factor);
}

static bool read_capacity(const char *text, const mend_replay_arguments *arguments,
                          mend_capacity *capacity)
{
    if (mend_is_fraction_of_bytes(text)) {
        char reason[128] = "a size in bytes has no fraction:";
        if (strchr(text, 'B') == NULL) {
            snprintf(reason, sizeof(reason),
                     "a size in bytes has no fraction; did you mean %.40sx?", text);
        }
        return fail(reason, text);
    }
    if (!mend_parse_capacity(text, capacity)) {
        return fail("not a capacity (10GiB, 1.05x, unlimited, fit):", text);
    }
    if (capacity->kind == MEND_CAPACITY_BYTES) {
        const char *wrong = mend_parse_device_bytes(text, &capacity->bytes);
        if (wrong != NULL) {
            return fail(wrong, text);
        }
    }
    for (size_t i = 0; i < arguments->capacity_count; i++) {
        if (is_same_capacity(&arguments->capacities[i], capacity)) {
            return fail("a capacity is given twice:", text);
        }
    }
    return true;
}

static bool read_capacities(char *list, mend_replay_arguments *arguments)
{
    char whole[LIST_SHOWN];
    snprintf(whole, sizeof(whole), "%s", list);
    char *rest = list;
    bool is_good = true;
    arguments->capacity_count = 0;
    for (char *text; (text = next_item(&rest, whole, &is_good)) != NULL;) {
        mend_capacity capacity;
        if (!is_good || !read_capacity(text, arguments, &capacity)) {
            return false;
        }
        if (arguments->capacity_count == MEND_REPLAY_MAX_LIST) {
            return fail("too many capacities at", text);
        }
        arguments->capacities[arguments->capacity_count++] = capacity;
    }
    return true;
}

static bool read_costs(const char *path, mend_replay_arguments *arguments)
{
    arguments->prices = (mend_sim_prices)MEND_SIM_PRICES_INIT;
    if (mend_sim_prices_named(path, &arguments->prices) == MEND_OK) {
        arguments->options.prices = &arguments->prices;
        arguments->options.costs_name = path;
        return true;
    }
    if (mend_costs_read(path, &arguments->prices) != MEND_OK) {
        mend_command_fail(&mend_replay_command, "");
        return false;
    }
    arguments->options.prices = &arguments->prices;
    arguments->options.costs_name = path;
    arguments->costs = path;
    return true;
}

static bool read_numeric(int option, const char *text, mend_replay_arguments *arguments)
{
    uint64_t threads;
    uint64_t percent;
    uint64_t rows;
    switch (option) {
    case OPTION_OTHERS:
        if (read_count(text, 99, &percent)) {
            arguments->options.others_percent = (unsigned)percent;
            return true;
        }
        if (!mend_parse_bytes(text, &arguments->options.others_bytes) ||
            arguments->options.others_bytes < 2 * MEND_MIB) {
            return fail("neither a percentage below 100 nor a size of 2 MiB or more:", text);
        }
        return true;
    case OPTION_TASKS:
        if (!read_count(text, UINT64_C(1000000000), &rows) || rows == 0) {
            return fail("not a number of rows:", text);
        }
        arguments->options.task_events = rows;
        return true;
    case OPTION_LAG:
        return read_count(text, UINT64_C(1000000000), &arguments->options.lag_events) ||
               fail("not a number of rows:", text);
    case OPTION_SEED:
        return read_count(text, UINT64_MAX, &arguments->seed) || fail("not a seed:", text);
    case OPTION_SCALE:
        arguments->scale_fits = strcmp(text, "fit") == 0;
        return arguments->scale_fits || read_scale(text, &arguments->scale) ||
               fail("not a scale (a number above 0, fit):", text);
    default:
        if (!read_count(text, 1024, &threads) || threads == 0) {
            return fail("not a number of threads:", text);
        }
        arguments->options.threads = (unsigned)threads;
        return true;
    }
}

static bool take_option(int option, char *text, void *into)
{
    mend_replay_arguments *arguments = into;
    switch (option) {
    case OPTION_DEVICE:
        arguments->options.device = strcmp(text, "cuda") == 0 ? MEND_REPLAY_CUDA : MEND_REPLAY_SIM;
        return true;
    case OPTION_ALLOCATOR:
        return read_policies(text, arguments);
    case OPTION_CAPACITY:
        return read_capacities(text, arguments);
    case OPTION_COSTS:
        return read_costs(text, arguments);
    case OPTION_TIMELINE:
        arguments->timeline = text;
        return true;
    case OPTION_CONTENT:
        arguments->options.sample_content = strcmp(text, "sample") == 0;
        arguments->options.check_content = strcmp(text, "none") != 0;
        return true;
    case OPTION_BALLAST:
        arguments->options.has_ballast = true;
        return true;
    case OPTION_LOAD:
        arguments->options.has_load = true;
        return true;
    case OPTION_NO_CONTEXT_EVENTS:
        arguments->options.lacks_context_events = true;
        return true;
    case OPTION_EXPLAIN:
        arguments->options.explain = true;
        return true;
    case OPTION_JSON:
        arguments->json = true;
        return true;
    case OPTION_LIST:
        arguments->list = true;
        return true;
    default:
        return read_numeric(option, text, arguments);
    }
}

static bool fits_together(const mend_replay_arguments *arguments)
{
    for (size_t i = 0; i < arguments->policy_count; i++) {
        if (!mend_replay_knows_policy(arguments->policies[i], arguments->options.device)) {
            return fail("only with --device cuda:", arguments->policies[i]);
        }
    }
    if (arguments->timeline != NULL && arguments->options.threads > 1) {
        return fail("only with one thread:", "--timeline");
    }
    if (arguments->options.task_events > 0 && arguments->options.threads > 1) {
        return fail("only with one thread at a time:", "--short-threads");
    }
    if (arguments->options.device == MEND_REPLAY_CUDA && arguments->options.lacks_context_events) {
        return fail("only with --device sim:", "--no-context-events");
    }
    if (arguments->options.device == MEND_REPLAY_CUDA && arguments->options.prices != NULL) {
        return fail("only with --device sim:", "--costs");
    }
    if (arguments->options.device == MEND_REPLAY_CUDA &&
        (arguments->options.others_percent != 0 || arguments->options.others_bytes != 0)) {
        return fail("only with --device sim:", "--reserved-by-others");
    }
    if (arguments->options.has_load && arguments->options.device == MEND_REPLAY_SIM) {
        return fail("only with --device cuda:", "--gpu-load");
    }
    if (arguments->options.sample_content && arguments->options.device == MEND_REPLAY_SIM) {
        return fail("only with --device cuda:", "--content sample");
    }
    if (arguments->options.has_ballast && arguments->options.device == MEND_REPLAY_SIM) {
        return fail("only with --device cuda:", "--fill-device");
    }
    if (arguments->scale_fits && arguments->options.device == MEND_REPLAY_SIM) {
        return fail("only with --device cuda:", "--scale fit");
    }
    if (arguments->options.explain && arguments->options.device == MEND_REPLAY_CUDA) {
        return fail("only with --device sim:", "--explain");
    }
    if (arguments->options.explain && arguments->options.threads > 1) {
        return fail("only with one thread:", "--explain");
    }
    if (arguments->input_count == 0 && !arguments->list) {
        fputs("libmend replay: no trace and no workload; see libmend replay --help\n", stderr);
        mend_command_usage(&mend_replay_command, stderr);
        return false;
    }
    return true;
}

bool mend_replay_arguments_read(int argc, char **argv, mend_replay_arguments *arguments,
                                int *status)
{
    static char default_policy[] = "mend";
    *arguments = (mend_replay_arguments){
        .options = MEND_REPLAY_OPTIONS_INIT,
        .policies = {default_policy},
        .policy_count = 1,
        .capacities = {{.kind = MEND_CAPACITY_UNLIMITED}},
        .capacity_count = 1,
        .scale = 1,
    };
    if (!mend_command_read(&mend_replay_command, argc, argv, take_option, arguments, status)) {
        return false;
    }
    arguments->inputs = argv + optind;
    arguments->input_count = (size_t)(argc - optind);
    *status = MEND_STATUS_BAD_USAGE;
    return fits_together(arguments);
}
