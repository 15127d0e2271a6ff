/* The command line of `libmend replay`, read into a structure. */
#ifndef MEND_LAB_REPLAY_ARGUMENTS_H
#define MEND_LAB_REPLAY_ARGUMENTS_H

#include "lab/replay/replay.h"
#include "lab/support/command.h"

enum { MEND_REPLAY_MAX_LIST = 64 };

typedef struct mend_replay_arguments {
    mend_replay_options options;
    mend_sim_prices prices;
    char *policies[MEND_REPLAY_MAX_LIST]; /* parts of the command line */
    size_t policy_count;
    mend_capacity capacities[MEND_REPLAY_MAX_LIST];
    size_t capacity_count;
    char **inputs; /* the rest of the command line */
    size_t input_count;
    const char *costs;    /* the file of prices. NULL: a built-in list */
    const char *timeline; /* file for live and reserved memory over time. NULL: none */
    double scale;
    bool scale_fits; /* choose the scale so that the trace fits on the GPU */
    uint64_t seed;   /* 0: the default of each workload */
    bool json;
    bool list; /* print the workloads and exit */
} mend_replay_arguments;

extern const mend_command mend_replay_command;

/* argv[0] is "replay". Modifies the strings, which must outlive *arguments. Prints the reason to
 * standard error if they are wrong. False: the command ends, with *status, as in command.h. */
bool mend_replay_arguments_read(int argc, char **argv, mend_replay_arguments *arguments,
                                int *status);

#endif
