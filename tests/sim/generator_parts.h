/* What the files of the generator share. */
#ifndef MEND_TESTS_SIM_GENERATOR_PARTS_H
#define MEND_TESTS_SIM_GENERATOR_PARTS_H

#include "tests/sim/generator.h"

uint32_t trial_pick(trial_random *random, const uint32_t *values, uint32_t count);
#define PICK(random, ...)                                                                          \
    trial_pick(random, (const uint32_t[]){__VA_ARGS__},                                            \
               sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

void trial_draw_ranges(trial_random *places, size_t count, operation *ops);
void trial_draw_rations(trial_random *places, size_t count, trial_config *config, operation *ops);
void trial_draw_checks(trial_random *places, trial_config *config);
void trial_draw_host(trial_random *places, size_t count, trial_config *config, operation *ops);
void trial_draw_scenes(trial_random *places, size_t count, trial_config *config, operation *ops);
void trial_draw_plain(trial_random *places, trial_config *config);
void trial_draw_wide_range(trial_random *places, size_t count, trial_config *config,
                           operation *ops);
void trial_draw_reads(trial_random *places, size_t count, operation *ops);
void trial_draw_forks(trial_random *places, size_t count, trial_config *config, operation *ops);
void trial_draw_recording(trial_random *places, size_t count, trial_config *config, operation *ops);

#endif
