/*
 * All state that belongs to the process rather than to a pool: the log's sink, the CUDA driver once
 * it is loaded, who is a member of the process (the pools), what it has one of for each device, the
 * environment; thread.h has what belongs to a thread. Nothing else in the library has a variable of
 * static lifetime that changes, or reads the environment.
 *
 * A child of fork starts empty: without members, log sink, driver and last errors, and with locks
 * that nobody holds, whatever other threads of the parent were doing at the fork. What it inherits
 * inside a member is the member's matter: see mend_process_generation.
 */
#ifndef MEND_BASE_PROCESS_H
#define MEND_BASE_PROCESS_H

#include <stdatomic.h>

#include "base/generation.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/pointer_map.h"
#include "base/thread.h"
#include "mend/mend.h"

/* ---- fork -------------------------------------------------------------------------------------
 */

/*
 * To be called before anything whose state a child of fork must not inherit; from then on forks are
 * noticed, those of fork(2) in libc, not a raw system call. MEND_OK; MEND_ERROR_OUT_OF_HOST_MEMORY
 * (the thread's last error is not set; call again). Thread-safe; cheap once it has succeeded.
 */
mend_result mend_process_prepare(void);

/* ---- members ----------------------------------------------------------------------------------
 */

/* Part of whatever wants to be found by others of its kind. The owner fills in domain and device
 * before it joins; the rest belongs to the functions below. */
typedef struct mend_process_member {
    mend_list link;
    const void *domain; /* devices of the same number in another domain are others */
    int device;
    unsigned visitors;
    uint64_t number; /* grows with every member that joins */
} mend_process_member;

/* None of these may be called with a lock held, and none is for members inherited through fork. */

/* From now on visitors may come, from other threads. */
void mend_process_join(mend_process_member *member);

/* When this returns nobody visits the member, nor will; waits for those who do. Not to be called by
 * a visitor of the same member. */
void mend_process_leave(mend_process_member *member);

/*
 * The next member of a domain and device, NULL when there is none any more. *cursor is 0 at first.
 * The member cannot leave until mend_process_visit_end; no lock is held meanwhile. Members that
 * come and go between two calls disturb nothing: who stays is met exactly once, who joins later
 * too, the visitor's own member among them.
 */
mend_process_member *mend_process_visit_next(const void *domain, int device, uint64_t *cursor);
void mend_process_visit_end(mend_process_member *member);

/* ---- devices ----------------------------------------------------------------------------------
 */

enum { MEND_DEVICE_LIMIT = 64 };

struct mend_override;

/* What a process has one of for each device; the room `devices` knows how it is used. */
typedef struct mend_process_devices {
    mend_mutex mutex; /* guards all but the atomic members, which change under it */
    struct {
        _Atomic(mend_pool *) pool; /* the default pool; NULL: none. A child of fork inherits it, and
                                      it answers as any inherited pool */
        mend_pool_config config;   /* how it is to be made; struct_size 0: by default */
    } device[MEND_DEVICE_LIMIT];
    uint64_t config_changes; /* how often a config was set */

    /* Allocators in the place of default pools; a child of fork has none. The last is what was set
     * for all devices. */
    struct mend_override *override[MEND_DEVICE_LIMIT + 1];
    atomic_uint override_count; /* that are set, at work, or have blocks */
    mend_pointer_map blocks;    /* theirs: from an address to the allocator */
} mend_process_devices;

mend_process_devices *mend_process_get_devices(void);

/* A pool ends: where it was the default pool of its device there is none now. */
void mend_process_drop_pool(int device, const mend_pool *pool);

/* ---- log and driver ---------------------------------------------------------------------------
 */

/* Answers from which level on lines are shown where there is no sink; 0: none is. */
int mend_process_get_log_sink(mend_log_sink *sink, void **context);
void mend_process_set_log_sink(mend_log_sink sink, void *context);
void mend_process_show_log(int level); /* from now on; the lowest level that was asked for counts */

/* The CUDA driver's table: what `load` gave the first time it succeeded in this process. A child of
 * fork loads it again, and the driver says what works there. Thread-safe. */
mend_result mend_process_cuda_driver(mend_result (*load)(const mend_driver **driver),
                                     const mend_driver **driver);

/* MEND_CONF of the environment: NULL when it is not set, or when the program runs with more rights
 * than its user. Lives as long as the environment is not changed. */
const char *mend_process_configuration(void);

#endif
