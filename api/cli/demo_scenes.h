/* The workloads of the demo, and the folder of their recordings. */
#ifndef MEND_CLI_DEMO_SCENES_H
#define MEND_CLI_DEMO_SCENES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/trace/trace.h"

typedef struct mend_demo_scene {
    const char *source; /* the file name of a recording, or a built-in workload */
    const char *title;
    const char *what; /* one sentence that explains it */
    double factor;    /* the device's memory / the peak of live bytes */
} mend_demo_scene;

enum { MEND_DEMO_SCENES = 3 };
extern const mend_demo_scene mend_demo_scenes[MEND_DEMO_SCENES];

/*
 * Finds the folder of the recordings: bench/traces or share/mend/traces, in a folder above the
 * program or in the current one. False, and *folder is untouched, if there is none.
 */
bool mend_demo_find_traces(char *folder, size_t size);

/* Whether the scene is a recording, and not a built-in workload. */
bool mend_demo_source_is_recording(const mend_demo_scene *scene);

/* The path of a recording. False if it is too long. */
bool mend_demo_recording_path(const mend_demo_scene *scene, const char *folder,
                              char path[PATH_MAX]);

/* Reads or generates a scene's workload; the caller destroys *trace. Errors of mend_trace_read and
 * mend_workload_generate. */
mend_result mend_demo_load(const mend_demo_scene *scene, const char *folder, mend_trace **trace);

#endif
