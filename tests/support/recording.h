/* The contents of a recording: every event in it, and the blocks that live at its end. */
#ifndef MEND_TESTS_SUPPORT_RECORDING_H
#define MEND_TESTS_SUPPORT_RECORDING_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/heap/record_reader.h"

typedef struct recorded_events {
    mend_history_event *list;
    size_t count;
} recorded_events;

typedef struct test_recording {
    recorded_events events;
    recorded_events live; /* the ALLOC of each */
    mend_pointer_map at;
    mend_record_run run;
    char scope[MEND_SCOPE_NAME_BYTES]; /* the name of the last one that is named */
    mend_name_entry name;              /* and the last name of a number */
    uint64_t blocks;                   /* of the file */
    uint64_t first;                    /* number of the oldest of them */
    uint64_t lost;
    mend_event_failure failure; /* the last one */
    uint64_t failures;
    bool has_ended; /* with the pool */
    bool is_exit;   /* and the process with it */
} test_recording;

/* Whether they say the same. The bytes behind the last member are unused. */
bool test_events_are_equal(const mend_history_event a[], const mend_history_event b[],
                           size_t count);

/* False if there is no file, or no block in it, or a number is missing. */
bool test_recording_read(const char *path, test_recording *r);
/* Writes one of so many allocations and frees, of 262,144 places: as quick as can be. */
bool test_recording_write(const char *path, uint64_t events);
void test_recording_clear(test_recording *r);

#endif
