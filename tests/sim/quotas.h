/* Pools that leave a part of the device free, and that share a limit by a file with each other and
 * with another process, which the trial plays. */
#ifndef MEND_TESTS_SIM_QUOTAS_H
#define MEND_TESTS_SIM_QUOTAS_H

#include "tests/sim/trial.h"

/* Makes the file, if there is one, and sets the pools' configs. */
bool trial_open_quota(trial *t, mend_pool_config *config);
void trial_close_quota(trial *t);

bool trial_has_quota(const trial *t);

/* Memory that may still be created, by the part that stays free and the file. */
uint64_t trial_quota_room(trial *t);

/* As trial_room, with the free memory of peer pools. `made_again`: free chunks serve only by new
 * chunks of their memory, of which others get their part. */
uint64_t trial_room_with_peer_pools(trial *t, int pool, bool made_again);

/* Memory of pools that they have released and importers still map. */
uint64_t trial_kept_by_importers(trial *t);

/* The other process takes or gives. It may die before. It may have idle memory then, which goes
 * back while a call waits that the thread begins behind trial_may_wait. Returns the earlier
 * value. */
trial *trial_may_wait(trial *t);

/* After a creation, and after a step. */
void trial_check_creation(trial *t);
void trial_check_quota(trial *t);

/* A background trim that was not disturbed. */
void trial_check_collection(trial *t, int pool);

/* plain.c: blocks that are passed through to the driver. Whether all are. Whether an allocation is.
 * Whether a call needs chunks that are not there. */
enum { PLAIN_BY_POOLS = 1, PLAIN_WITHOUT_POOLS, PLAIN_BY_CONFIG, PLAIN_BY_THREAD };
bool trial_passes_all(const trial *t);
bool trial_is_plain(const trial_call *call);

/* Whether its options switch off what its thread says. */
bool trial_refuses_plain(const trial_call *call);
bool trial_needs_chunks(const trial_call *call);
void trial_check_plain_refusal(trial *t, const trial_call *call);
uint64_t trial_plain_largest(trial *t, int pool);

/* Nothing is in the way any more. */
void trial_end_member(trial *t);

#endif
