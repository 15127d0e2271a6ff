#include "simulate/machine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "simulate/entry.h"
#include "simulate/words.h"

#define DEFAULT_MEMORY_BYTES (24 * MEND_GIB)

/* Operations that a stream's queue holds, as on a GPU about: the host cannot run away from it. */
enum { QUEUE_ENTRIES = 1024 };

simulate_machine simulate_here;
static int machine_error; /* of making it */
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;
static bool is_initialized;
static bool is_used;  /* the machine was, before the last fork */
static bool is_child; /* this process is a child of fork, and its parent has used the machine */

static _Thread_local int current_device;
static _Thread_local int pushed_device; /* + 1. 0: none yet */

/* ---- the environment ------------------------------------------------------------------------- */

uint64_t simulate_read_number(const char *name, uint64_t usual, uint64_t most)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') {
        return usual;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || *text == '-' || value == 0 || value > most) {
        simulate_say("%s=%s: it must be a whole number from 1 to %llu", name, text,
                     (unsigned long long)most);
        return 0;
    }
    return value;
}

/* How many of the devices CUDA_VISIBLE_DEVICES shows: as CUDA does, up to the first entry that is
 * no device. All are alike, so which they are does not matter. */
static int visible_of(int count)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (text == NULL) {
        return count;
    }
    int visible = 0;
    while (visible < count) {
        char *end = NULL;
        long device = strtol(text, &end, 10);
        if (end == text || device < 0 || device >= count || (*end != ',' && *end != '\0')) {
            break;
        }
        visible++;
        if (*end == '\0') {
            break;
        }
        text = end + 1;
    }
    return visible;
}

int simulate_device_count(void)
{
    return visible_of((int)simulate_read_number("MEND_SIMULATE_DEVICES", 1, SIMULATE_MOST_DEVICES));
}

bool simulate_has_fabric(void)
{
    return simulate_read_number("MEND_SIMULATE_FABRIC", 0, 1) == 1;
}

void simulate_initialize(void)
{
    __atomic_store_n(&is_initialized, true, __ATOMIC_RELAXED);
}

bool simulate_is_initialized(void)
{
    return __atomic_load_n(&is_initialized, __ATOMIC_RELAXED);
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* Until CUDA is initialized, or one of Mend's pools has memory, the machine is as it was made, and
 * a child's copy is the child's own. */
static void before_fork(void)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    if (simulate_here.sim != NULL) {
        mend_sim_get_ledger(simulate_here.sim, &ledger);
    }
    is_used = simulate_is_initialized() || ledger.peak_chunk_bytes > 0;
}

static void after_fork_in_child(void)
{
    is_child = is_child || is_used;
}

/* CUDA's error does not name the address. Under the device's lock: the first one alone, because
 * every call fails behind it. */
static void say_access(void *context, const char *explanation)
{
    static bool is_said;
    (void)context;
    if (!is_said && strstr(explanation, ", touches ") != NULL) {
        is_said = true;
        simulate_say("%s", explanation);
    }
}

static int open_devices(simulate_machine *machine)
{
    for (int i = 0; i < machine->device_count; i++) {
        mend_device_info info;
        mend_status status = machine->driver->device_open(machine->driver, i, &info);
        if (status != MEND_DRIVER_OK) {
            return status;
        }
        machine->contexts[i] = info.context;
        machine->memory_bytes = info.total_bytes;
    }
    return CUDA_SUCCESS;
}

static int make_machine(simulate_machine *machine)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes =
        simulate_read_number("MEND_SIMULATE_MEMORY", DEFAULT_MEMORY_BYTES, UINT64_C(1) << 44);
    machine->device_count = simulate_device_count();
    if (config.memory_bytes == 0) {
        return CUDA_NOT_INITIALIZED;
    }
    if (machine->device_count == 0) {
        return CUDA_NO_DEVICE;
    }
    config.device_count = machine->device_count;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.fresh_is_zero = 1; /* kernels compute nothing: programs go on best with zeros */
    config.queue_entries = QUEUE_ENTRIES;
    config.on_violation = say_access;
    config.has_no_virtual_memory = simulate_read_number("MEND_SIMULATE_BARE", 0, 1) == 1;
    config.has_no_memory_pools = config.has_no_virtual_memory;
    config.fabric = simulate_has_fabric() ? MEND_SIM_FABRIC_WORKS : MEND_SIM_FABRIC_NONE;
    if (mend_sim_create(&config, &machine->sim) != MEND_OK) {
        simulate_say("a device of %llu bytes cannot be simulated on this machine",
                     (unsigned long long)config.memory_bytes);
        return CUDA_OUT_OF_MEMORY;
    }
    machine->driver = mend_sim_driver(machine->sim);
    mend_sim_advance(machine->sim, 1); /* no event is recorded at 0, which means never */
    return open_devices(machine);
}

static void make_once(void)
{
    machine_error = make_machine(&simulate_here);
    pthread_atfork(before_fork, NULL, after_fork_in_child);
    if (machine_error == CUDA_SUCCESS) {
        simulate_say("%d simulated GPU%s of %.1f GiB. Memory, streams, events and copies work; "
                     "kernels do nothing, so no result is computed",
                     simulate_here.device_count, simulate_here.device_count == 1 ? "" : "s",
                     (double)simulate_here.memory_bytes / (double)MEND_GIB);
    }
}

/* For Mend's own package: the device on which its pools are to be made. NULL: there is none. */
SIMULATE_EXPORT mend_sim *mend_simulate_device(void)
{
    if (!is_child) {
        pthread_once(&machine_once, make_once);
    }
    return is_child || machine_error != CUDA_SUCCESS ? NULL : simulate_here.sim;
}

/* Its memory. 0: there is none. */
SIMULATE_EXPORT uint64_t mend_simulate_memory_bytes(void)
{
    return simulate_enter() == CUDA_SUCCESS ? simulate_here.memory_bytes : 0;
}

SIMULATE_EXPORT int mend_simulate_device_count(void)
{
    return simulate_enter() == CUDA_SUCCESS ? simulate_here.device_count : 0;
}

/* ---- the thread's device --------------------------------------------------------------------- */

int simulate_current(void)
{
    return current_device;
}

int simulate_select(int device)
{
    if (device < 0 || device >= simulate_device_count()) {
        return CUDA_INVALID_DEVICE;
    }
    int former = current_device;
    current_device = device;
    int error = simulate_enter();
    if (error != CUDA_SUCCESS) {
        current_device = former;
    }
    return error;
}

int simulate_enter(void)
{
    simulate_initialize();
    if (is_child) {
        return CUDA_NOT_INITIALIZED;
    }
    pthread_once(&machine_once, make_once);
    if (machine_error != CUDA_SUCCESS) {
        return machine_error;
    }
    const mend_driver *driver = simulate_here.driver;
    if (pushed_device != current_device + 1) {
        if (pushed_device != 0) {
            driver->context_pop(driver);
        }
        pushed_device = 0;
        mend_status status = driver->context_push(driver, simulate_here.contexts[current_device]);
        if (status != MEND_DRIVER_OK) {
            return status;
        }
        pushed_device = current_device + 1;
    }
    return CUDA_SUCCESS;
}

int simulate_enter_if(bool is_sound)
{
    int error = simulate_enter();
    return error == CUDA_SUCCESS && !is_sound ? CUDA_INVALID_VALUE : error;
}
