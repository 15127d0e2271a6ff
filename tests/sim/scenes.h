/* Scenes of the generator: operations that belong together (scenes.c). */
#ifndef MEND_TESTS_SIM_SCENES_H
#define MEND_TESTS_SIM_SCENES_H

#include "tests/sim/generator.h"

/* In half of the seeds some scenes take the place of what was drawn. */
void trial_draw_scenes(trial_random *places, size_t count, const trial_config *config,
                       operation *ops);

/* In half of the worlds with two pools the free memory of both is behind work, again and again, on
 * a full device. Of its own numbers. */
void trial_draw_behind_work(uint64_t seed, size_t count, trial_config *config, operation *ops);

/* In an eighth of the worlds blocks come and go in graph pools and beside them, and room is
 * asked. */
void trial_draw_beside_graph_pools(uint64_t seed, size_t count, trial_config *config,
                                   operation *ops);

/* In half of the worlds with two pools, and a quarter of the others, another process takes memory
 * of the device and gives it back amid requests, or the driver does not say what is free. */
void trial_draw_neighbour(uint64_t seed, size_t count, const trial_config *config, operation *ops);

/* In a quarter of the worlds requests lack memory, of a limit a little above what lives and of a
 * device that others fill, and callbacks let the pool have what they hear is missing. */
void trial_draw_givers(uint64_t seed, size_t count, trial_config *config, operation *ops);

#endif
