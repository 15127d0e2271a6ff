#include "cli/demo_scenes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/support/capacity.h"
#include "lab/trace/read.h"
#include "lab/workloads/workload.h"

/* Where allocators differ most: the device has hardly more memory than the program uses. */
static const double near_limit = 1.05;

/* On real device sizes, also where all have enough: reserved memory, stalls, failures. Then one of
 * the programs on a device that has hardly more than it uses. */
const mend_demo_scene mend_demo_scenes[MEND_DEMO_SCENES] = {
    {"stress:many-streams?live=56GiB", "Many streams on 80 GiB",
     "A made-up stress test: the demand for memory wanders between twelve streams.", 80 * MEND_GIB,
     0},
    {"detector-varboxes.csv.gz", "Object detector on 24 GiB",
     "Training on images of any size with any number of regions: hardly two requests are alike.",
     24 * MEND_GIB, 0},
    {"fsdp-llama-2stream.csv.gz", "Sharded training on 24 GiB",
     "A language model whose weights are gathered on a second stream. Each step is like the last.",
     24 * MEND_GIB, 0},
    {"detector-varboxes.csv.gz", "Object detector near its limit",
     "The same training where the device has hardly more memory than it uses.", 0, near_limit},
};

/* Memory of devices that are sold. */
static const uint64_t sold_gib[] = {4, 6, 8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180, 192, 288};
enum { SOLD = sizeof(sold_gib) / sizeof(*sold_gib) };

void mend_demo_own_scenes(const mend_trace *trace, uint64_t capacity_bytes,
                          mend_demo_scene scenes[MEND_DEMO_OWN_SCENES])
{
    uint64_t device_bytes = capacity_bytes;
    for (size_t i = 0; i < SOLD && device_bytes < trace->peak_live_bytes; i++) {
        device_bytes = capacity_bytes == 0 ? sold_gib[i] * MEND_GIB : device_bytes;
    }
    device_bytes = device_bytes != 0 ? device_bytes : sold_gib[0] * MEND_GIB;
    char name[80];
    char size[32];
    mend_trace_short_name(trace, name, sizeof(name));
    mend_format_bytes(device_bytes, size, sizeof(size));
    scenes[0] = (mend_demo_scene){
        .source = trace->name,
        .what = capacity_bytes != 0
                    ? "The device that was asked for."
                    : "The smallest device that is sold and large enough, else the largest.",
        .memory_bytes = device_bytes};
    snprintf(scenes[0].title, sizeof(scenes[0].title), "%s on %s", name, size);
    scenes[1] = (mend_demo_scene){
        .source = trace->name,
        .what = "The same program where the device has hardly more memory than it uses.",
        .factor = near_limit};
    snprintf(scenes[1].title, sizeof(scenes[1].title), "%s near its limit", name);
}

static const char *const trace_folders[] = {"bench/traces", "share/mend/traces"};
enum { TRACE_FOLDERS = sizeof(trace_folders) / sizeof(*trace_folders) };

static const mend_demo_scene *first_recording(void)
{
    const mend_demo_scene *scene = mend_demo_scenes;
    while (!mend_demo_source_is_recording(scene)) {
        scene++;
    }
    return scene;
}

/* The folder below `root` that has it. */
static bool find_below(const char *root, char *folder, size_t size)
{
    for (size_t i = 0; i < TRACE_FOLDERS; i++) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof(path), "%s/%s/%s", root, trace_folders[i],
                              first_recording()->source);
        if (length < 0 || (size_t)length >= sizeof(path) || access(path, R_OK) != 0) {
            continue;
        }
        *strrchr(path, '/') = '\0';
        size_t length_bytes = strlen(path) + 1;
        if (length_bytes > size) {
            continue;
        }
        memcpy(folder, path, length_bytes);
        return true;
    }
    return false;
}

bool mend_demo_find_traces(char *folder, size_t size)
{
    char root[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", root, sizeof(root) - 1);
    root[length > 0 ? length : 0] = '\0';
    for (char *end = strrchr(root, '/'); end != NULL; end = strrchr(root, '/')) {
        *end = '\0';
        if (find_below(root, folder, size)) {
            return true;
        }
    }
    return find_below(".", folder, size);
}

bool mend_demo_source_is_recording(const mend_demo_scene *scene)
{
    return !mend_workload_is_spec(scene->source);
}

bool mend_demo_recording_path(const mend_demo_scene *scene, const char *folder, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s%s%s", folder != NULL ? folder : "",
                          folder != NULL ? "/" : "", scene->source);
    return length > 0 && length < PATH_MAX;
}

mend_result mend_demo_load(const mend_demo_scene *scene, const char *folder, mend_trace **trace)
{
    if (!mend_demo_source_is_recording(scene)) {
        return mend_workload_generate(scene->source, 0, trace);
    }
    char path[PATH_MAX];
    if (!mend_demo_recording_path(scene, folder, path)) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "the path of %s is too long", scene->source);
    }
    return mend_trace_read(path, trace);
}
