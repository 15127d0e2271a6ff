/*
 * The hooks as frameworks have them: libraries opened by their path, functions found by their
 * symbols, and called through pointers of the framework's own types. Below them one simulated
 * machine, on which the process's default pools are made.
 */
#ifndef MEND_TESTS_HOOKS_RIG_H
#define MEND_TESTS_HOOKS_RIG_H

#include <stdbool.h>

#include "mend/mend_frameworks.h"
#include "mend/mend_hooks.h"
#include "mend/mend_sim.h"
#include "mend/mend_torch.h"
#include "tests/support/kit.h"

/* X(library, function): the functions that are looked up. The test program links none of these
 * libraries. */
#define HOOKS_FUNCTIONS(X)                                                                         \
    X(mend, mend_set_default_config)                                                               \
    X(mend, mend_pool_for_device)                                                                  \
    X(mend, mend_pool_destroy)                                                                     \
    X(mend, mend_set_allocator)                                                                    \
    X(mend, mend_get_allocator)                                                                    \
    X(mend, mend_set_limit)                                                                        \
    X(mend, mend_get_stats)                                                                        \
    X(mend, mend_get_block_info)                                                                   \
    X(mend, mend_device_alloc)                                                                     \
    X(mend, mend_device_free)                                                                      \
    X(mend, mend_device_record_stream)                                                             \
    X(mend, mend_pin)                                                                              \
    X(mend, mend_unpin)                                                                            \
    X(mend, mend_range_commit)                                                                     \
    X(mend, mend_validate)                                                                         \
    X(mend, mend_get_last_error)                                                                   \
    X(mend, mend_set_last_error)                                                                   \
    X(mend, mend_log_set_sink)                                                                     \
    X(torch, mend_torch_alloc_or_null)                                                             \
    X(torch, mend_torch_free)                                                                      \
    X(torch, mend_torch_failures)                                                                  \
    X(torch, mend_torch_block_alloc)                                                               \
    X(torch, mend_torch_block_alloc_rounded)                                                       \
    X(torch, mend_torch_block_requested)                                                           \
    X(torch, mend_torch_use_device)                                                                \
    X(torch, mend_torch_block_find)                                                                \
    X(torch, mend_torch_block_free)                                                                \
    X(torch, mend_torch_block_give)                                                                \
    X(torch, mend_torch_pool_add)                                                                  \
    X(torch, mend_torch_pool_begin)                                                                \
    X(torch, mend_torch_pool_end)                                                                  \
    X(torch, mend_torch_pool_remove)                                                               \
    X(torch, mend_torch_pool_begins_native)                                                        \
    X(torch, mend_torch_pool_of_graph_pool)                                                        \
    X(torch, mend_torch_block_alloc_at)                                                            \
    X(torch, mend_torch_pool_of_tag)                                                               \
    X(torch, mend_torch_pool_get_info)                                                             \
    X(torch, mend_torch_reset)                                                                     \
    X(torch, mend_torch_note)                                                                      \
    X(torch, mend_torch_get_figures)                                                               \
    X(torch, mend_torch_settings_without_effect)                                                   \
    X(torch, mend_torch_set_fraction)                                                              \
    X(torch, mend_torch_get_allowed)                                                               \
    X(torch, mend_torch_foreign_room)                                                              \
    X(torch, mend_torch_foreign_add)                                                               \
    X(torch, mend_torch_foreign_remove)                                                            \
    X(torch, mend_torch_pool_mark)                                                                 \
    X(torch, mend_torch_pools_marked)                                                              \
    X(torch, mend_torch_pool_takes)                                                                \
    X(torch, mend_torch_block_alloc_in)                                                            \
    X(torch, mend_torch_empty_cache)                                                               \
    X(torch, mend_torch_range_create)                                                              \
    X(torch, mend_torch_range_tensor)                                                              \
    X(torch, mend_torch_largest)                                                                   \
    X(torch, mend_torch_lacks_memory)                                                              \
    X(torch, mend_torch_write_out_of_memory)                                                       \
    X(hooks, mend_hook_handler)                                                                    \
    X(hooks, mend_ort_functions_for)                                                               \
    X(hooks, mend_hook_failures)

typedef struct hooks_functions {
#define X(library, name) __typeof__(&(name)) name;
    HOOKS_FUNCTIONS(X)
#undef X
} hooks_functions;

/* Opened once for the process. NULL: a library or a function is missing, which has been reported.
 */
const hooks_functions *hooks_get(void);

enum { HOOKS_STREAMS = 4, KIB = 1 << 10, MIB = 1 << 20 };

typedef struct hooks_rig {
    const hooks_functions *f;
    mend_sim *sim;
    mend_stream streams[HOOKS_STREAMS]; /* non-blocking, of device 0 */
    uint64_t memory_bytes;
} hooks_rig;

/* A machine of two devices with so much memory each, in pages of 4 KiB and chunks of 64 KiB, with
 * real bytes. */
bool hooks_open(hooks_rig *rig, uint64_t memory_bytes);

/* Lets all work end. Puts Mend's own allocators and the whole fraction back, and destroys the
 * default pools, of which nothing may be left, unless a mistake was made on the device. */
void hooks_close(hooks_rig *rig);

/* A test over a machine with so much memory, which is closed behind it. */
#define HOOKS_TEST(suite, name, memory_bytes)                                                      \
    KIT_CASE(suite, name, hooks_rig, rig, hooks_open(rig, memory_bytes), hooks_close(rig))

/* The expected result of such a function. A failure has its own reason, and not an earlier one. */
#define HOOKS_OK(call) EXPECT_RESULT(MEND_OK, rig->f->call)
#define HOOKS_ANSWER(result, call)                                                                 \
    do {                                                                                           \
        (void)rig->f->mend_set_last_error(result, HOOKS_EARLIER);                                  \
        EXPECT_RESULT(result, rig->f->call);                                                       \
        hooks_expect_reason(rig, __FILE__, __LINE__, result);                                      \
    } while (0)
#define HOOKS_EARLIER "an earlier failure"
void hooks_expect_reason(hooks_rig *rig, const char *file, int line, mend_result result);

/* The allocator below a hook of device 0, to which an allocator of a test passes calls on: the
 * first member of its context. */
typedef struct hooks_below {
    mend_allocator inner;
} hooks_below;

/* Fills *below, and returns the allocator that does nothing but pass calls on. */
mend_allocator hooks_below_allocator(hooks_rig *rig, hooks_below *below);
int hooks_below_alloc(void *below, void **pointer, size_t size_bytes, mend_stream stream);
int hooks_below_free(void *below, void *pointer, size_t size_bytes, mend_stream stream);

/* A block for PyTorch on device 0, its description, and its end. */
void *torch_alloc(hooks_rig *rig, uint64_t size_bytes, mend_stream stream);
mend_torch_block torch_found(hooks_rig *rig, const void *pointer);
void torch_give(hooks_rig *rig, const void *pointer);

/* The default pool of device 0, and its figures. */
mend_pool *hooks_pool(hooks_rig *rig);
mend_stats hooks_stats(hooks_rig *rig);

/* No rule of the driver was broken and no byte is wrong, as a use of foreign memory would cause.
 * Does not record a failure. */
bool hooks_device_is_well(hooks_rig *rig);

/* A write of a block that takes a second of the device's clock. */
void hooks_write_long(hooks_rig *rig, int stream, const void *block, uint64_t size_bytes);

/* Work of a kind on a block, which ends so much later. Results as mend_sim_launch. */
mend_result hooks_launch(hooks_rig *rig, mend_stream stream, mend_sim_work_kind kind,
                         const void *block, uint64_t size_bytes, uint64_t tag,
                         uint64_t duration_ns);

#endif
