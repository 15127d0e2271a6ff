/* A pool of 8 MiB whose blocks may be on the host, of which it takes 16 MiB; all blocks are
 * written, and verified before they are freed. */
#ifndef MEND_TESTS_UNIT_HOST_RIG_H
#define MEND_TESTS_UNIT_HOST_RIG_H

#include "mend/mend_host.h"
#include "mend/mend_sleep.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

#define HOST_BLOCK  MEND_MIB
#define HOST_DEVICE (8 * MEND_MIB)
#define HOST_LIMIT  (16 * MEND_MIB)
enum { HOST_BLOCKS = 8 };

typedef struct host_rig {
    mend_world w;
    void *blocks[HOST_BLOCKS]; /* that fill the device: even numbers have sleep tag 1, others 2 */
    void *there;               /* a block on the host, of tag 3; NULL: none */
} host_rig;

/* Without blocks. */
bool host_rig_open(host_rig *r);

/* The same; unless `unwatched` is NULL, host memory that the device asks for never fails. So much
 * of the device stays free for others. */
bool host_rig_open_with(host_rig *r, mend_unwatched_driver *unwatched, uint64_t keep_free_bytes);

/* Fills the device; the blocks stay there. */
bool host_rig_fill(host_rig *r);

/* A case with a device that is full. */
#define HOST_TEST(suite, name)                                                                     \
    KIT_RIG_TEST(suite, name, host_rig, host_rig_open(r) && host_rig_fill(r), host_rig_close(r))

/* A block that finds no memory of the device. */
void host_rig_overflow(host_rig *r, uint64_t size_bytes);

bool host_rig_is_on_host(host_rig *r, const void *block);
int host_rig_count_on_host(host_rig *r);

/* Verifies and frees what is left, and closes. */
void host_rig_close(host_rig *r);

#endif
