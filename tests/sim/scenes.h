/* Scenes of the generator: operations that belong together (scenes.c). */
#ifndef MEND_TESTS_SIM_SCENES_H
#define MEND_TESTS_SIM_SCENES_H

#include "tests/sim/generator.h"

/* In half of the seeds some scenes replace drawn operations. */
void trial_draw_scenes(mend_test_random *places, size_t count, const trial_config *config,
                       operation *ops);

/* In half of the worlds with two pools the free memory of both is behind work, again and again, on
 * a full device. Of its own numbers. */
void trial_draw_behind_work(uint64_t seed, size_t count, trial_config *config, operation *ops);

/* In an eighth of the worlds blocks come and go in graph pools and beside them, and room is
 * asked. */
void trial_draw_beside_graph_pools(uint64_t seed, size_t count, trial_config *config,
                                   operation *ops);

/* In half of the worlds with two pools, and a quarter of the others, another process takes and
 * releases memory of the device amid requests, or the driver does not report free memory. */
void trial_draw_neighbour(uint64_t seed, size_t count, const trial_config *config, operation *ops);

/* In a quarter of the worlds requests run out of memory, by a limit a little above live memory and
 * a device that others fill, and callbacks free the missing bytes. */
void trial_draw_givers(uint64_t seed, size_t count, trial_config *config, operation *ops);

#endif
