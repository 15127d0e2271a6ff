#include "lab/measure/lists.h"

#include <math.h>

#include "base/align.h"
#include "lab/support/json.h"
#include "mend/mend_sim.h"

static const char *member_name(mend_driver_call call)
{
    static const char *const names[MEND_DRIVER_CALL_COUNT] = {
#define X(member, name, bytes, parameters, arguments) #member,
        MEND_DRIVER_CALLS(X)
#undef X
    };
    return names[call];
}

static const mend_measure_series *busy_twin(const mend_measure_bench *bench,
                                            const mend_measure_series *idle)
{
    for (unsigned i = 0; i < bench->series_count; i++) {
        const mend_measure_series *series = &bench->series[i];
        if (series->busy && series->call == idle->call && series->size_bytes == idle->size_bytes &&
            series->mappings == idle->mappings) {
            return series;
        }
    }
    return NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void print_durations(const mend_measure_series *series, FILE *out)
{
    if (series == NULL || series->sample_count == 0) {
        fprintf(out, "  %9s %9s %9s", "-", "-", "-");
        return;
    }
    fprintf(out, "  %9.1f %9.1f %9.1f", (double)mend_measure_median_ns(series) / 1e3,
            (double)mend_measure_p99_ns(series) / 1e3, (double)mend_measure_max_ns(series) / 1e3);
}

void mend_measure_print_prices(const mend_measure_bench *bench, FILE *out)
{
    fprintf(out, "\nmicroseconds a call          idle: median       p99       max");
    fprintf(out, "   running kernel: median   p99       max\n");
    for (int call = 0; call < MEND_DRIVER_CALL_COUNT; call++) {
        for (unsigned i = 0; i < bench->series_count; i++) {
            const mend_measure_series *series = &bench->series[i];
            if ((int)series->call != call || series->busy) {
                continue;
            }
            char what[64] = "";
            if (series->mappings > 1) {
                snprintf(what, sizeof(what), "%llu x %llu MiB",
                         (unsigned long long)series->mappings,
                         (unsigned long long)(series->size_bytes / series->mappings / MEND_MIB));
            } else if (series->size_bytes > 0) {
                snprintf(what, sizeof(what), "%llu MiB",
                         (unsigned long long)(series->size_bytes / MEND_MIB));
            }
            fprintf(out, "%-18s %12s", member_name(series->call), what);
            print_durations(series, out);
            print_durations(busy_twin(bench, series), out);
            fputc('\n', out);
        }
    }
}

/* ---- the price list -------------------------------------------------------------------------- */

/* cost = base + slope * x, with neither below 0, such that relative errors are small. */
typedef struct line_fit {
    double weight, x, y, xx, xy;
} line_fit;

static void line_add(line_fit *fit, double x, double y)
{
    double weight = y > 1 ? 1 / (y * y) : 1;
    fit->weight += weight;
    fit->x += weight * x;
    fit->y += weight * y;
    fit->xx += weight * x * x;
    fit->xy += weight * x * y;
}

static void line_solve(const line_fit *fit, double *base, double *slope)
{
    *base = 0;
    *slope = 0;
    if (!(fit->weight > 0)) {
        return;
    }
    double spread = fit->weight * fit->xx - fit->x * fit->x;
    if (spread > 1e-9 * fit->weight * fit->xx) {
        *slope = fmax(0, (fit->weight * fit->xy - fit->x * fit->y) / spread);
    }
    *base = fmax(0, (fit->y - *slope * fit->x) / fit->weight);
}

static bool covers_mappings(mend_driver_call call)
{
    return call == MEND_CALL_set_access || call == MEND_CALL_unmap;
}

/* Terabytes of addresses cost as much as a few pages, so they fit no line. */
static bool has_a_size(mend_driver_call call)
{
    return call != MEND_CALL_reserve && call != MEND_CALL_address_free;
}

/*
 * Fits the medians of an idle device: calls with one mapping give the cost of a MiB. Calls with
 * many, less that, give the cost of a mapping. False if the call was not measured.
 */
static bool fit_price(const mend_measure_bench *bench, mend_driver_call call, mend_sim_price *price)
{
    line_fit by_size = {0};
    line_fit by_mappings = {0};
    double call_ns;
    double mapping_ns = 0;
    double mib_ns;
    for (unsigned i = 0; i < bench->series_count; i++) {
        const mend_measure_series *series = &bench->series[i];
        if (series->call == call && !series->busy && series->sample_count > 0 &&
            (series->mappings <= 1 || !covers_mappings(call))) {
            const double mib = (double)series->size_bytes / (double)MEND_MIB;
            line_add(&by_size, has_a_size(call) ? mib : 0, (double)mend_measure_median_ns(series));
        }
    }
    line_solve(&by_size, &call_ns, &mib_ns);
    if (covers_mappings(call)) {
        for (unsigned i = 0; i < bench->series_count; i++) {
            const mend_measure_series *series = &bench->series[i];
            if (series->call == call && !series->busy && series->sample_count > 0) {
                double mib = (double)series->size_bytes / (double)MEND_MIB;
                line_add(&by_mappings, (double)series->mappings,
                         fmax(0, (double)mend_measure_median_ns(series) - mib_ns * mib));
            }
        }
        line_solve(&by_mappings, &call_ns, &mapping_ns);
    }
    price->call_ns = (uint64_t)llround(call_ns);
    price->mapping_ns = (uint64_t)llround(mapping_ns);
    price->mib_ns = (uint64_t)llround(mib_ns);
    return by_size.weight > 0;
}

void mend_measure_write_costs(const mend_measure_bench *bench, FILE *out)
{
    /* The cost table has one cost for all CPU stalls. */
    enum {
        MEND_CALL_synchronize = MEND_CALL_stream_synchronize,
        MEND_CALL_scrub = MEND_DRIVER_CALL_COUNT, /* not calls, so they cannot be measured */
        MEND_CALL_host_copy
    };
    mend_sim_price price;
    fprintf(out, "# Costs measured on %s, driver %d.%d, page %llu bytes.\n", bench->info.name,
            bench->info.driver_version / 1000, bench->info.driver_version % 1000 / 10,
            (unsigned long long)bench->info.granularity_bytes);
    fprintf(out, "# Fitted to the medians on an idle device.\n");
    fprintf(out, "%-14s %10s %10s %10s\n", "# call", "call_ns", "mapping_ns", "mib_ns");
#define X(name)                                                                                    \
    if (fit_price(bench, (mend_driver_call)MEND_CALL_##name, &price)) {                            \
        fprintf(out, "%-14s %10llu %10llu %10llu\n", #name, (unsigned long long)price.call_ns,     \
                (unsigned long long)price.mapping_ns, (unsigned long long)price.mib_ns);           \
    } else {                                                                                       \
        fprintf(out, "# %s: not measured\n", #name);                                               \
    }
    MEND_SIM_PRICED_CALLS(X)
#undef X
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void mend_measure_write_json(const mend_measure_bench *bench, FILE *out)
{
    mend_json json = {.out = out};
    mend_json_begin_object(&json, NULL);
    mend_json_string(&json, "device", bench->info.name);
    mend_json_string(&json, "driver", bench->driver->name);
    mend_json_integer(&json, "driver_version", (uint64_t)bench->info.driver_version);
    mend_json_integer(&json, "granularity_bytes", bench->info.granularity_bytes);
    mend_json_bool(&json, "complete", bench->left_out == 0);
    mend_json_begin_array(&json, "series");
    for (unsigned i = 0; i < bench->series_count; i++) {
        const mend_measure_series *series = &bench->series[i];
        mend_json_begin_object(&json, NULL);
        mend_json_string(&json, "call", member_name(series->call));
        mend_json_integer(&json, "size_bytes", series->size_bytes);
        mend_json_integer(&json, "mappings", series->mappings);
        mend_json_bool(&json, "busy", series->busy);
        mend_json_integer(&json, "count", series->sample_count);
        mend_json_integer(&json, "median_ns", mend_measure_median_ns(series));
        mend_json_integer(&json, "p99_ns", mend_measure_p99_ns(series));
        mend_json_integer(&json, "max_ns", mend_measure_max_ns(series));
        mend_json_end_object(&json);
    }
    mend_json_end_array(&json);
    mend_json_end_object(&json);
    fputc('\n', out);
}
