/* mend-probe: runs one probe of the GPU within a time, and writes each finding at once. */
#include <stdlib.h>
#include <string.h>

#include "probe/probe.h"
#include "probe/questions.h"

static const struct {
    const char *name;
    const char *what;
    void (*run)(probe *p);
} probes[] = {
    {"captures", "which call is allowed beside a capture, and which spoils it", probe_captures},
    {"mappings", "what calls cost by mappings, sizes, load and mappings there are", probe_mappings},
    {"storm", "what kernels and launches suffer while another thread maps", probe_storm},
    {"memory", "attainable memory, refused and repeated creations, addresses", probe_memory},
    {"queue", "events and waits on a stream whose queue is full", probe_queue},
    {"aliases", "bytes of chunks at two addresses, moved and unmapped under kernels",
     probe_aliases},
    {"bandwidth", "the speed of kernels over chunks of different sizes", probe_bandwidth},
    {"entries", "pointers to the driver's functions, and events of a whole context", probe_entries},
    {"repeat", "access given again under a kernel; the device may be lost", probe_repeat},
};
enum { PROBE_COUNT = sizeof(probes) / sizeof(probes[0]) };

static int usage(FILE *out, int status)
{
    fprintf(out, "usage: mend-probe NAME [--seconds N] [--json FILE] [-o FILE] [--quick]\n\n");
    for (size_t i = 0; i < PROBE_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", probes[i].name, probes[i].what);
    }
    fprintf(out, "\n  --seconds N  stop after about that long (60)\n"
                 "  --json FILE  write a JSON object a line there, each as soon as it is known\n"
                 "  -o FILE      write a price list there (mappings)\n"
                 "  --quick      the sizes of a rehearsal\n"
                 "\nExit status: 0, 1 wrong bytes or a call that failed where none may,\n"
                 "2 bad usage or no GPU.\n");
    return status;
}

static bool read_seconds(const char *text, uint64_t *seconds)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > 86400) {
        return false;
    }
    *seconds = (uint64_t)value;
    return true;
}

/* The options behind the name. False for an unknown one. */
static bool read_options(probe *p, int argc, char **argv, uint64_t *seconds,
                         const char **records_path)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            p->quick = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool known = value != NULL;
        if (known && strcmp(argv[i], "--seconds") == 0) {
            known = read_seconds(value, seconds);
        } else if (known && strcmp(argv[i], "--json") == 0) {
            *records_path = value;
        } else if (known && strcmp(argv[i], "-o") == 0) {
            p->costs_path = value;
        } else {
            known = false;
        }
        if (!known) {
            fprintf(stderr, "mend-probe: %s: unknown, or its value is missing or bad\n", argv[i]);
            return false;
        }
        i++;
    }
    return true;
}

/* Opens the outputs before the first query of the device. */
static bool open_records(probe *p, const char *path)
{
    if (path != NULL) {
        p->records = fopen(path, "w");
    }
    if (path != NULL && p->records == NULL) {
        fprintf(stderr, "mend-probe: cannot write %s\n", path);
        return false;
    }
    return true;
}

static int run(probe *p, void (*run_probe)(probe *p), uint64_t seconds)
{
    if (!probe_open(p)) {
        return 2;
    }
    p->end_ns = probe_now_ns(p) + seconds * UINT64_C(1000000000);
    mend_json record = probe_record(p, "device");
    mend_json_string(&record, "device", p->info.name);
    mend_json_integer(&record, "driver_version", (uint64_t)p->info.driver_version);
    mend_json_integer(&record, "total_bytes", p->info.total_bytes);
    mend_json_integer(&record, "free_bytes", probe_free_bytes(p));
    probe_record_end(p, &record);
    printf("device %s, CUDA %d.%d\n", p->info.name, p->info.driver_version / 1000,
           p->info.driver_version % 1000 / 10);
    run_probe(p);
    probe_close(p);
    return p->problems > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    probe p = {0};
    uint64_t seconds = 60;
    const char *records_path = NULL;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        return usage(stdout, 0);
    }
    for (size_t i = 0; argc > 1 && i < PROBE_COUNT; i++) {
        if (strcmp(argv[1], probes[i].name) != 0) {
            continue;
        }
        if (!read_options(&p, argc, argv, &seconds, &records_path) ||
            !open_records(&p, records_path)) {
            return 2;
        }
        int status = run(&p, probes[i].run, seconds);
        bool written = p.records == NULL || fclose(p.records) == 0;
        return status == 0 && !written ? 2 : status;
    }
    return usage(stderr, 2);
}
