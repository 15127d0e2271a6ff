/* The command: options, the device's description, and the measurements on request. */
#include "cli/info.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "driver/driver.h"
#include "lab/driver/kernels.h"
#include "lab/measure/lists.h"
#include "lab/measure/measure.h"
#include "lab/measure/prices.h"
#include "lab/measure/trials.h"
#include "lab/support/capacity.h"
#include "lab/support/output.h"
#include "mend/mend_sim.h"

typedef struct info_options {
    const char *device; /* "sim", "cuda", or NULL: whichever there is */
    int ordinal;
    bool prices;
    uint64_t seconds; /* time limit for measuring */
    const char *costs_path;
    const char *json_path;
    mend_output costs; /* open until the end */
    mend_output json;
} info_options;

enum { OPTION_DEVICE, OPTION_PRICES, OPTION_SECONDS, OPTION_OUTPUT, OPTION_JSON, OPTION_HELP };

static const mend_option options_of_info[] = {
    [OPTION_DEVICE] = {"device", "sim|cuda[:N]",
                       "the device to look at (default: the GPU, else the simulated one)", NULL},
    [OPTION_PRICES] = {"prices", NULL,
                       "measure the cost of driver calls, and try undocumented behavior", NULL},
    [OPTION_SECONDS] = {"seconds", "N",
                        "with --prices: measure for about that long at most, with fewer "
                        "repetitions (60)",
                        NULL},
    [OPTION_OUTPUT] = {"o", "FILE", "with --prices: write a cost table for libmend replay --costs",
                       NULL},
    [OPTION_JSON] = {"json", "FILE", "with --prices: write every measurement", NULL},
    [OPTION_HELP] = MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

const mend_command mend_info_command = {
    .name = "info",
    .what = "show the device and measure the cost of driver calls",
    .arguments = "",
    .about = "Shows the device, its abilities, and the cost of driver calls on it.",
    .options = options_of_info,
    .status = "Exit status: 0; 1 a measurement failed; 2 bad usage, there is no such device, or an "
              "output cannot be written.",
};

static bool parse_device(const char *text, info_options *options)
{
    options->device = text;
    if (strncmp(text, "cuda:", 5) == 0) {
        char *end = NULL;
        long ordinal = strtol(text + 5, &end, 10);
        options->device = "cuda";
        options->ordinal = (int)ordinal;
        return end != text + 5 && *end == '\0' && ordinal >= 0 && ordinal < 1024;
    }
    return strcmp(text, "sim") == 0 || strcmp(text, "cuda") == 0;
}

static bool parse_seconds(const char *text, uint64_t *seconds)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > 86400) {
        return false;
    }
    *seconds = (uint64_t)value;
    return true;
}

static bool refuse(const char *option, const char *text, const char *possible)
{
    fprintf(stderr, "libmend info: %s: no \"%s\"; there are: %s\n", option, text, possible);
    return false;
}

static bool take_option(int option, char *value, void *arguments)
{
    info_options *options = arguments;
    switch (option) {
    case OPTION_DEVICE:
        return parse_device(value, options) ||
               refuse("--device", value, "sim, cuda, cuda:N with N from 0 to 1023");
    case OPTION_PRICES:
        options->prices = true;
        return true;
    case OPTION_SECONDS:
        return parse_seconds(value, &options->seconds) || refuse("--seconds", value, "1 to 86400");
    case OPTION_OUTPUT:
        options->costs_path = value;
        return true;
    case OPTION_JSON:
        options->json_path = value;
        return true;
    default:
        return false;
    }
}

static bool fit_together(info_options *options)
{
    bool asks_for_prices =
        options->costs_path != NULL || options->json_path != NULL || options->seconds != 0;
    if (!options->prices && asks_for_prices) {
        fprintf(stderr, "libmend info: -o, --json and --seconds need --prices\n");
        return false;
    }
    options->seconds = options->seconds != 0 ? options->seconds : 60;
    return true;
}

static void print_device(const mend_measure_bench *bench, FILE *out)
{
    const mend_device_info *info = &bench->info;
    char page[32];
    char recommended[32];
    char total[32];
    char free_now[32] = "unknown";
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_format_bytes(info->granularity_bytes, page, sizeof(page));
    mend_format_bytes(info->recommended_bytes, recommended, sizeof(recommended));
    mend_format_bytes(info->total_bytes, total, sizeof(total));
    if (bench->driver->memory_info(bench->driver, &free_bytes, &total_bytes) == MEND_DRIVER_OK) {
        mend_format_bytes(free_bytes, free_now, sizeof(free_now));
    }
    fprintf(out, "device                 %d: %s\n", bench->device, info->name);
    if (info->driver_version != 0) {
        fprintf(out, "driver                 CUDA %d.%d\n", info->driver_version / 1000,
                info->driver_version % 1000 / 10);
        fprintf(out, "compute capability     %d.%d\n", info->compute_major, info->compute_minor);
    }
    fprintf(out, "memory                 %s, %s free\n", total, free_now);
    fprintf(out, "virtual memory         %s (probed)\n", info->virtual_memory ? "yes" : "no");
    if (info->virtual_memory) {
        fprintf(out, "page                   %s, recommended %s\n", page, recommended);
    }
    fprintf(out, "share: descriptor      %s\n", info->share_file_descriptor ? "yes" : "no");
    fprintf(out, "share: fabric handle   %s\n", info->share_fabric ? "yes" : "no");
    fprintf(out, "RDMA                   %s\n", info->rdma ? "yes" : "no");
    fprintf(out, "multicast              %s\n", info->multicast ? "yes" : "no");
    fprintf(out, "memory of the host     %s\n", info->integrated ? "yes" : "no");
    fprintf(out, "reached by devices     0x%llx (a bit for each)\n",
            (unsigned long long)info->peers);
}

static int fail(const mend_measure_bench *bench, const char *what, mend_status status)
{
    fprintf(stderr, "libmend info: %s: %s\n", what,
            bench->driver->status_name(bench->driver, status));
    return 1;
}

static bool write_files(const mend_measure_bench *bench, info_options *options)
{
    if (options->costs.stream != NULL) {
        mend_measure_write_costs(bench, options->costs.stream);
    }
    if (options->json.stream != NULL) {
        mend_measure_write_json(bench, options->json.stream);
    }
    bool is_written = mend_output_close(&options->costs);
    return mend_output_close(&options->json) && is_written;
}

/* Needs both streams and a current context. */
static int measure(mend_measure_bench *bench, info_options *options)
{
    if (!bench->info.virtual_memory) {
        fprintf(stderr, "libmend info: no prices without virtual memory\n");
        return 1;
    }
    bench->series = calloc(MEND_MEASURE_MOST_SERIES, sizeof(*bench->series));
    if (bench->series == NULL) {
        fprintf(stderr, "libmend info: out of memory\n");
        return 1;
    }
    fputc('\n', stdout);
    bench->end_ns =
        bench->driver->clock_ns(bench->driver) + options->seconds * UINT64_C(1000000000);
    mend_status tried = mend_measure_try(bench, stdout);
    mend_status measured = mend_status_is_fatal(tried) ? tried : mend_measure(bench, stdout);
    mend_status failure = tried != MEND_DRIVER_OK ? tried : measured;
    mend_measure_print_prices(bench, stdout);
    /* The measurements are written even if something else failed. */
    int exit_status = 0;
    if (failure != MEND_DRIVER_OK) {
        exit_status = fail(bench, "a measurement failed", failure);
    }
    if (!write_files(bench, options)) {
        exit_status = MEND_STATUS_BAD_OUTPUT;
    }
    free(bench->series);
    return exit_status;
}

static int measure_with_streams(mend_measure_bench *bench, info_options *options)
{
    const mend_driver *driver = bench->driver;
    mend_status status = driver->stream_create(driver, &bench->work);
    if (status != MEND_DRIVER_OK) {
        return fail(bench, "a stream", status);
    }
    int exit_status = 1;
    status = driver->stream_create(driver, &bench->other);
    if (status != MEND_DRIVER_OK) {
        fail(bench, "a stream", status);
    } else {
        exit_status = measure(bench, options);
        driver->stream_destroy(driver, bench->other);
    }
    driver->stream_destroy(driver, bench->work);
    return exit_status;
}

static int show(const mend_driver *driver, info_options *options)
{
    mend_measure_bench bench = {.driver = driver, .device = options->ordinal};
    mend_status status = driver->device_open(driver, bench.device, &bench.info);
    if (status != MEND_DRIVER_OK) {
        fail(&bench, "the device cannot be opened", status);
        return 2;
    }
    status = driver->context_push(driver, bench.info.context);
    int exit_status = 1;
    if (status != MEND_DRIVER_OK) {
        fail(&bench, "the device's context", status);
    } else {
        print_device(&bench, stdout);
        exit_status = options->prices ? measure_with_streams(&bench, options) : 0;
        driver->context_pop(driver);
    }
    driver->device_close(driver, bench.device);
    return exit_status;
}

/* A simulated device whose clock advances by prices, with real bytes for the trial of aliases. */
static int show_simulated(info_options *options)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 4 * MEND_GIB;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.prices_advance_clock = 1;
    mend_sim *sim = NULL;
    mend_result result = mend_sim_create(&config, &sim);
    if (result != MEND_OK) {
        fprintf(stderr, "libmend info: the simulated device: %s\n", mend_result_name(result));
        return 1;
    }
    int exit_status = show(mend_sim_driver(sim), options);
    mend_sim_destroy(sim);
    return exit_status;
}

static int show_what_there_is(info_options *options)
{
    if (options->device != NULL && strcmp(options->device, "sim") == 0) {
        return show_simulated(options);
    }
    const mend_driver *driver = NULL;
    int device_count = 0;
    mend_error error = MEND_ERROR_INIT;
    if (mend_cuda_driver_with_kernels(&driver) != MEND_OK) {
        mend_get_last_error(&error);
    } else {
        mend_status status = driver->device_count(driver, &device_count);
        error.message =
            status == MEND_DRIVER_OK ? "no device" : driver->status_name(driver, status);
    }
    if (device_count > options->ordinal) {
        return show(driver, options);
    }
    fprintf(stderr, "libmend info: no GPU: %s\n", error.message);
    if (options->device != NULL) {
        return 2;
    }
    printf("no GPU; this is the simulated device, with the cost table `reference`\n\n");
    return show_simulated(options);
}

int mend_cli_info(int argc, char **argv)
{
    info_options options = {0};
    int status;
    if (!mend_command_read(&mend_info_command, argc, argv, take_option, &options, &status)) {
        return status;
    }
    if (!fit_together(&options) || !mend_output_open(&options.costs, "info", options.costs_path)) {
        return MEND_STATUS_BAD_OUTPUT;
    }
    status = MEND_STATUS_BAD_OUTPUT;
    if (mend_output_open(&options.json, "info", options.json_path)) {
        if (mend_outputs_are_apart(&options.costs, &options.json)) {
            status = show_what_there_is(&options);
        }
        mend_output_discard(&options.json);
    }
    mend_output_discard(&options.costs);
    return status;
}
