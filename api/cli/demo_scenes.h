/* The workloads of the demo, the folder of their recordings, and devices for a program of a user.
 */
#ifndef MEND_CLI_DEMO_SCENES_H
#define MEND_CLI_DEMO_SCENES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/trace/trace.h"

typedef struct mend_demo_scene {
    const char *source; /* the file of a recording, or a built-in workload */
    char title[128];
    const char *what;      /* one sentence that explains it */
    uint64_t memory_bytes; /* of the device. 0: by the factor */
    double factor;         /* the device's memory / the peak of live bytes */
} mend_demo_scene;

enum { MEND_DEMO_SCENES = 4, MEND_DEMO_OWN_SCENES = 2 };
extern const mend_demo_scene mend_demo_scenes[MEND_DEMO_SCENES];

/*
 * A user's program on two devices that are not chosen for a win: the smallest real one that fits
 * it, or one of `capacity_bytes` if that is not 0, and one near its limit.
 */
void mend_demo_own_scenes(const mend_trace *trace, uint64_t capacity_bytes,
                          mend_demo_scene scenes[MEND_DEMO_OWN_SCENES]);

/*
 * Finds the folder of the recordings: bench/traces or share/mend/traces, in a folder above the
 * program or in the current one. False, and *folder is untouched, if there is none.
 */
bool mend_demo_find_traces(char *folder, size_t size);

/* Whether the scene is a recording, and not a built-in workload. */
bool mend_demo_source_is_recording(const mend_demo_scene *scene);

/* The path of a recording. NULL for `folder`: its file is a path. False if it is too long. */
bool mend_demo_recording_path(const mend_demo_scene *scene, const char *folder,
                              char path[PATH_MAX]);

/* Reads or generates a scene's workload. The caller destroys *trace. Errors of mend_trace_read and
 * mend_workload_generate. */
mend_result mend_demo_load(const mend_demo_scene *scene, const char *folder, mend_trace **trace);

#endif
