/* The error that a thread asks for later: every call of the runtime ends with simulate_answer. */
#ifndef MEND_SIMULATE_ERRORS_H
#define MEND_SIMULATE_ERRORS_H

#include <stddef.h>

#include "mend/mend_results.h"

/* Remembers an error as the thread's last one, and returns its code of cudaError_t. A status of the
 * simulated device is one too. */
int simulate_answer(int status);

/* The runtime's code for this result of a call of the simulated device about work. */
int simulate_error_of(mend_result result);

/* Restores the last error of the thread: functions of the driver do not change it. */
void simulate_restore_error(int error);

/* A code, its names and its words. The last one has no words. */
typedef struct simulate_code {
    int value;
    const char *runtime_name;
    const char *driver_name;
    const char *text;
} simulate_code;
extern const simulate_code simulate_codes[];

/* Entry points, for the files that lead to them. */
int cudaPeekAtLastError(void);
int cuGetErrorName(int status, const char **name);
int cuGetErrorString(int status, const char **text);

#endif
