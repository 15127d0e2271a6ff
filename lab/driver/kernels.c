/*
 * Six hand-written kernels. PTX 7.0 for sm_52 works with every driver since CUDA 11.0 and every
 * device since Maxwell. Nothing newer is needed. Time is %globaltimer: nanoseconds, the same for
 * all blocks.
 *
 * In the first three kernels the blocks take granules in turn, and the threads of a block the words
 * of a granule. In the others the blocks take tiles of 32 KiB in turn, and each of a block's 512
 * threads has four reads of 16 bytes in flight. They are launched with more blocks than any device
 * runs at a time. All but two for each multiprocessor exit at once, so that the rest run and end
 * together.
 */
#include "lab/driver/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "driver/cuda_state.h"

#define PARAMETERS                                                                                 \
    "(\n"                                                                                          \
    "    .param .u64 p_address,\n"                                                                 \
    "    .param .u64 p_granule_bytes,\n"                                                           \
    "    .param .u64 p_stride_bytes,\n"                                                            \
    "    .param .u64 p_granule_count,\n"                                                           \
    "    .param .u32 p_value,\n"                                                                   \
    "    .param .u64 p_duration_ns,\n"                                                             \
    "    .param .u64 p_mismatches\n"                                                               \
    ")\n"

/* %r1: value  %r2: a word read  %rd1: first granule  %rd2: granule bytes  %rd3: stride
 * %rd4: granules  %rd5: this granule  %rd6: blocks  %rd7: this thread's first byte
 * %rd8: bytes between its words  %rd9: byte in the granule  %rd10: address of the word
 * %rd11: start  %rd12: now  %rd13: duration  %rd14: words that differ  %rd15: their counter */
#define REGISTERS                                                                                  \
    "    .reg .pred %p<3>;\n"                                                                      \
    "    .reg .b32 %r<6>;\n"                                                                       \
    "    .reg .b64 %rd<16>;\n"

#define LOAD_PARAMETERS                                                                            \
    "    ld.param.u64 %rd1, [p_address];\n"                                                        \
    "    cvta.to.global.u64 %rd1, %rd1;\n"                                                         \
    "    ld.param.u64 %rd2, [p_granule_bytes];\n"                                                  \
    "    ld.param.u64 %rd3, [p_stride_bytes];\n"                                                   \
    "    ld.param.u64 %rd4, [p_granule_count];\n"                                                  \
    "    ld.param.u32 %r1, [p_value];\n"                                                           \
    "    mov.u32 %r3, %nctaid.x;\n"                                                                \
    "    cvt.u64.u32 %rd6, %r3;\n"                                                                 \
    "    mov.u32 %r3, %tid.x;\n"                                                                   \
    "    mul.wide.u32 %rd7, %r3, 4;\n"                                                             \
    "    mov.u32 %r3, %ntid.x;\n"                                                                  \
    "    mul.wide.u32 %rd8, %r3, 4;\n"

/* clang-format off */
/* Runs `body` with %rd10 at each word of this thread. The labels begin with `name`. */
#define FOR_EACH_WORD(name, body)                                                                  \
    "    mov.u32 %r3, %ctaid.x;\n"                                                                 \
    "    cvt.u64.u32 %rd5, %r3;\n"                                                                 \
    name "_granule:\n"                                                                             \
    "    setp.ge.u64 %p1, %rd5, %rd4;\n"                                                           \
    "    @%p1 bra " name "_granules_done;\n"                                                       \
    "    mov.u64 %rd9, %rd7;\n"                                                                    \
    name "_word:\n"                                                                                \
    "    setp.ge.u64 %p1, %rd9, %rd2;\n"                                                           \
    "    @%p1 bra " name "_words_done;\n"                                                          \
    "    mad.lo.u64 %rd10, %rd5, %rd3, %rd1;\n"                                                    \
    "    add.u64 %rd10, %rd10, %rd9;\n"                                                            \
    body                                                                                           \
    "    add.u64 %rd9, %rd9, %rd8;\n"                                                              \
    "    bra " name "_word;\n"                                                                     \
    name "_words_done:\n"                                                                          \
    "    add.u64 %rd5, %rd5, %rd6;\n"                                                              \
    "    bra " name "_granule;\n"                                                                  \
    name "_granules_done:\n"
/* clang-format on */

/* Jumps to `again` until the duration has passed since %rd11. */
#define UNTIL_TIME_IS_OVER(again)                                                                  \
    "    mov.u64 %rd12, %globaltimer;\n"                                                           \
    "    sub.u64 %rd12, %rd12, %rd11;\n"                                                           \
    "    setp.lt.u64 %p2, %rd12, %rd13;\n"                                                         \
    "    @%p2 bra " again ";\n"

#define START_CLOCK                                                                                \
    "    ld.param.u64 %rd13, [p_duration_ns];\n"                                                   \
    "    mov.u64 %rd11, %globaltimer;\n"

/* %r1: blocks at work  %r2: this block  %rd2: tiles  %rd3: bytes  %rd5: this tile  %rd6: blocks
 * %rd7: this thread's first byte in a tile  %rd9: what was read, joined  %rd10 to %rd13: addresses
 * %rd14 to %rd21: what is read  %rd22 to %rd25: for a kernel's own use
 * %rd27, %rd28, %rd29: start, now and duration, as above */
#define TILE_REGISTERS                                                                             \
    "    .reg .pred %p<3>;\n"                                                                      \
    "    .reg .b32 %r<6>;\n"                                                                       \
    "    .reg .b64 %rd<30>;\n"

#define TILE_PARAMETERS                                                                            \
    "    ld.param.u64 %rd1, [p_address];\n"                                                        \
    "    cvta.to.global.u64 %rd1, %rd1;\n"                                                         \
    "    ld.param.u64 %rd2, [p_stride_bytes];\n"                                                   \
    "    ld.param.u64 %rd3, [p_granule_count];\n"                                                  \
    "    mul.lo.u64 %rd3, %rd2, %rd3;\n"                                                           \
    "    shr.u64 %rd2, %rd3, 15;\n"                                                                \
    "    mov.u32 %r1, %nsmid;\n"                                                                   \
    "    shl.b32 %r1, %r1, 1;\n"                                                                   \
    "    mov.u32 %r3, %nctaid.x;\n"                                                                \
    "    min.u32 %r1, %r1, %r3;\n"                                                                 \
    "    mov.u32 %r2, %ctaid.x;\n"                                                                 \
    "    setp.ge.u32 %p1, %r2, %r1;\n"                                                             \
    "    @%p1 ret;\n"                                                                              \
    "    cvt.u64.u32 %rd6, %r1;\n"                                                                 \
    "    mov.u32 %r3, %tid.x;\n"                                                                   \
    "    mul.wide.u32 %rd7, %r3, 16;\n"                                                            \
    "    mov.u64 %rd9, 0;\n"                                                                       \
    "    ld.param.u64 %rd29, [p_duration_ns];\n"                                                   \
    "    mov.u64 %rd27, %globaltimer;\n"

/* clang-format off */
/* Runs `body` with %rd5 at each tile of this block, repeatedly until time is over. The labels begin
 * with `name`. */
#define FOR_EACH_TILE(name, body)                                                                  \
    name "_pass:\n"                                                                                \
    "    cvt.u64.u32 %rd5, %r2;\n"                                                                 \
    name "_tile:\n"                                                                                \
    "    setp.ge.u64 %p1, %rd5, %rd2;\n"                                                           \
    "    @%p1 bra " name "_tiles_done;\n"                                                          \
    body                                                                                           \
    "    add.u64 %rd5, %rd5, %rd6;\n"                                                              \
    "    bra " name "_tile;\n"                                                                     \
    name "_tiles_done:\n"                                                                          \
    "    mov.u64 %rd28, %globaltimer;\n"                                                           \
    "    sub.u64 %rd28, %rd28, %rd27;\n"                                                           \
    "    setp.lt.u64 %p2, %rd28, %rd29;\n"                                                         \
    "    @%p2 bra " name "_pass;\n"

/* The four addresses of this thread in the tile. */
#define IN_ORDER                                                                                   \
    "    shl.b64 %rd10, %rd5, 15;\n"                                                               \
    "    add.u64 %rd10, %rd10, %rd7;\n"                                                            \
    "    add.u64 %rd10, %rd10, %rd1;\n"                                                            \
    "    add.u64 %rd11, %rd10, 8192;\n"                                                            \
    "    add.u64 %rd12, %rd10, 16384;\n"                                                           \
    "    add.u64 %rd13, %rd10, 24576;\n"

/* The same four at random: the number of the read, multiplied by two odd constants, is a fraction
 * of the sectors. The time of the pass is mixed in, so that a pass does not find data that another
 * one left in a cache. */
#define ANYWHERE(address, number)                                                                  \
    "    add.u64 %rd24, %rd22, " number ";\n"                                                      \
    "    mul.lo.u64 %rd24, %rd24, 0x9E3779B97F4A7C15;\n"                                           \
    "    shr.u64 %rd25, %rd24, 32;\n"                                                              \
    "    xor.b64 %rd24, %rd24, %rd25;\n"                                                           \
    "    mul.lo.u64 %rd24, %rd24, 0xD6E8FEB86659FD93;\n"                                           \
    "    mul.hi.u64 %rd24, %rd24, %rd23;\n"                                                        \
    "    shl.b64 %rd24, %rd24, 5;\n"                                                               \
    "    add.u64 " address ", %rd24, %rd1;\n"

#define READ_FOUR(how)                                                                             \
    "    ld" how ".global.v2.u64 {%rd14, %rd15}, [%rd10];\n"                                       \
    "    ld" how ".global.v2.u64 {%rd16, %rd17}, [%rd11];\n"                                       \
    "    ld" how ".global.v2.u64 {%rd18, %rd19}, [%rd12];\n"                                       \
    "    ld" how ".global.v2.u64 {%rd20, %rd21}, [%rd13];\n"

#define JOIN_FOUR                                                                                  \
    "    add.u64 %rd14, %rd14, %rd15;\n"                                                           \
    "    add.u64 %rd16, %rd16, %rd17;\n"                                                           \
    "    add.u64 %rd18, %rd18, %rd19;\n"                                                           \
    "    add.u64 %rd20, %rd20, %rd21;\n"                                                           \
    "    add.u64 %rd14, %rd14, %rd16;\n"                                                           \
    "    add.u64 %rd18, %rd18, %rd20;\n"                                                           \
    "    add.u64 %rd9, %rd9, %rd14;\n"                                                             \
    "    add.u64 %rd9, %rd9, %rd18;\n"

/* The result must seem to be used, or the compiler removes the reads. It adds nothing, because the
 * sum is never this value in practice (1 of 2^64). */
#define SEEM_TO_MATTER                                                                             \
    "    setp.eq.u64 %p1, %rd9, 0x6D656E6472656164;\n"                                             \
    "    mov.u64 %rd9, 0;\n"                                                                       \
    "    @%p1 red.global.add.u64 [%rd1], %rd9;\n"                                                  \
    "    ret;\n"

const char mend_ptx_program[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    "\n"
    ".visible .entry mend_spin" PARAMETERS
    "{\n"
    REGISTERS
    START_CLOCK
    "spin_wait:\n"
    UNTIL_TIME_IS_OVER("spin_wait")
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry mend_write" PARAMETERS
    "{\n"
    REGISTERS
    LOAD_PARAMETERS
    START_CLOCK
    "write_pass:\n"
    FOR_EACH_WORD("write",
    "    st.global.u32 [%rd10], %r1;\n")
    UNTIL_TIME_IS_OVER("write_pass")
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry mend_verify" PARAMETERS
    "{\n"
    REGISTERS
    LOAD_PARAMETERS
    "    mov.u64 %rd14, 0;\n"
    FOR_EACH_WORD("verify",
    "    ld.global.u32 %r2, [%rd10];\n"
    "    setp.ne.u32 %p1, %r2, %r1;\n"
    "    @%p1 add.u64 %rd14, %rd14, 1;\n")
    "    setp.eq.u64 %p1, %rd14, 0;\n"
    "    @%p1 bra verify_done;\n"
    "    ld.param.u64 %rd15, [p_mismatches];\n"
    "    cvta.to.global.u64 %rd15, %rd15;\n"
    "    red.global.add.u64 [%rd15], %rd14;\n"
    "verify_done:\n"
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry mend_stream" PARAMETERS
    "{\n"
    TILE_REGISTERS
    TILE_PARAMETERS
    FOR_EACH_TILE("stream",
    IN_ORDER
    READ_FOUR(".volatile")
    "    st.global.v2.u64 [%rd10], {%rd14, %rd15};\n"
    "    st.global.v2.u64 [%rd11], {%rd16, %rd17};\n"
    "    st.global.v2.u64 [%rd12], {%rd18, %rd19};\n"
    "    st.global.v2.u64 [%rd13], {%rd20, %rd21};\n")
    "    ret;\n"
    "}\n"
    "\n"
    ".visible .entry mend_read" PARAMETERS
    "{\n"
    TILE_REGISTERS
    TILE_PARAMETERS
    FOR_EACH_TILE("read",
    IN_ORDER
    READ_FOUR("")
    JOIN_FOUR)
    SEEM_TO_MATTER
    "}\n"
    "\n"
    ".visible .entry mend_gather" PARAMETERS
    "{\n"
    TILE_REGISTERS
    TILE_PARAMETERS
    "    shr.u64 %rd23, %rd3, 5;\n"
    "    mov.u64 %rd28, 0;\n"
    FOR_EACH_TILE("gather",
    "    shl.b64 %rd22, %rd5, 15;\n"
    "    add.u64 %rd22, %rd22, %rd7;\n"
    "    shr.u64 %rd22, %rd22, 4;\n"
    "    mad.lo.u64 %rd22, %rd28, 0x10000, %rd22;\n"
    ANYWHERE("%rd10", "0")
    ANYWHERE("%rd11", "512")
    ANYWHERE("%rd12", "1024")
    ANYWHERE("%rd13", "1536")
    READ_FOUR("")
    JOIN_FOUR)
    SEEM_TO_MATTER
    "}\n";
/* clang-format on */

const char *mend_ptx_entry(mend_kernel_kind kind)
{
    static const char *const names[MEND_KERNEL_KINDS] = {
        [MEND_KERNEL_SPIN] = "mend_spin",     [MEND_KERNEL_WRITE] = "mend_write",
        [MEND_KERNEL_VERIFY] = "mend_verify", [MEND_KERNEL_STREAM] = "mend_stream",
        [MEND_KERNEL_READ] = "mend_read",     [MEND_KERNEL_GATHER] = "mend_gather",
    };
    return kind < MEND_KERNEL_KINDS ? names[kind] : NULL;
}

mend_ptx_launch mend_ptx_shape(const mend_kernel *kernel)
{
    /* Kernels of a duration: few enough blocks for two to run concurrently on the smallest device.
     * Others are to be done soon: a thread has one word in flight, so the device has to be full. */
    enum {
        MOST_BLOCKS = 32,
        FULL_BLOCKS = 2048,
        THREADS = 128,
        STREAM_BLOCKS = 1024,
        STREAM_THREADS = 512
    };
    static_assert((size_t)STREAM_THREADS * 4 * 16 == MEND_KERNEL_TILE_BYTES,
                  "a thread takes four times 16 bytes of a tile");
    mend_ptx_launch launch = {.blocks = 1, .threads = 1};
    if (kernel->kind >= MEND_KERNEL_STREAM) {
        launch.blocks = STREAM_BLOCKS;
        launch.threads = STREAM_THREADS;
    } else if (kernel->kind != MEND_KERNEL_SPIN) {
        uint64_t most_blocks = kernel->duration_ns > 0 ? MOST_BLOCKS : FULL_BLOCKS;
        launch.blocks = (unsigned)mend_max_u64(1, mend_min_u64(kernel->granule_count, most_blocks));
        launch.threads = THREADS;
    }
    return launch;
}

/* ---- launched -------------------------------------------------------------------------------- */

/* The kernels of an open device. Its `module` is NULL before the first launch. */
typedef struct kernels_of_device {
    mend_cu_module module;
    mend_cu_function kernel[MEND_KERNEL_KINDS]; /* by mend_kernel_kind */
} kernels_of_device;

/* Beside the driver's own table, with the same `state`, whose mutex guards `device`. */
static struct {
    pthread_mutex_t mutex; /* guards the creation of the members below */
    mend_driver table;
    const mend_driver *inner;
#define X(name, version, suffix, parameters) mend_status(*name) parameters;
    MEND_CU_KERNEL_FUNCTIONS(X)
#undef X
    kernels_of_device device[MEND_CUDA_DEVICE_LIMIT];
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static mend_status load_kernels(kernels_of_device *device)
{
    mend_cu_module module = NULL;
    mend_cu_function kernel[MEND_KERNEL_KINDS];
    MEND_TRY_CALL(all.cuModuleLoadData(&module, mend_ptx_program));
    for (int kind = 0; kind < MEND_KERNEL_KINDS; kind++) {
        mend_status status =
            all.cuModuleGetFunction(&kernel[kind], module, mend_ptx_entry((mend_kernel_kind)kind));
        if (status != MEND_DRIVER_OK) {
            all.cuModuleUnload(module);
            return status;
        }
    }
    device->module = module;
    memcpy(device->kernel, kernel, sizeof(kernel));
    return MEND_DRIVER_OK;
}

/* The kernel in the current context, which is of an open device. */
static mend_status find_kernel(mend_cuda *cuda, mend_kernel_kind kind, mend_cu_function *kernel)
{
    assert(kind < MEND_KERNEL_KINDS);
    mend_context current = NULL;
    MEND_TRY_CALL(cuda->functions.cuCtxGetCurrent(&current));
    mend_status status = MEND_DRIVER_INVALID_CONTEXT;
    mend_mutex_lock(&cuda->mutex);
    for (int i = 0; i < MEND_CUDA_DEVICE_LIMIT; i++) {
        if (cuda->device[i].opens > 0 && cuda->device[i].context == current) {
            kernels_of_device *device = &all.device[i];
            status = device->module != NULL ? MEND_DRIVER_OK : load_kernels(device);
            *kernel = device->kernel[kind];
            break;
        }
    }
    mend_mutex_unlock(&cuda->mutex);
    return status;
}

static mend_status launch(const mend_driver *driver, mend_stream stream, const mend_kernel *kernel)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    if (mend_ptx_entry(kernel->kind) == NULL || !mend_kernel_is_sound(kernel)) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    mend_cu_function function = NULL;
    MEND_TRY_CALL(find_kernel(cuda, kernel->kind, &function));
    const mend_ptx_launch shape = mend_ptx_shape(kernel);
    mend_kernel own = *kernel; /* the driver's interface takes no constants */
    void *parameters[] = {&own.address, &own.granule_bytes, &own.stride_bytes, &own.granule_count,
                          &own.value,   &own.duration_ns,   &own.mismatches};
    return all.cuLaunchKernel(function, shape.blocks, 1, 1, shape.threads, 1, 1, 0, stream,
                              parameters, NULL);
}

/* Unloads the kernels with the device's last user: the primary context may stay alive for others.
 */
static mend_status device_close(const mend_driver *driver, int device)
{
    mend_cuda *cuda = mend_cuda_of(driver);
    mend_context context = NULL;
    mend_cu_module module = NULL;
    if (device >= 0 && device < MEND_CUDA_DEVICE_LIMIT) {
        mend_mutex_lock(&cuda->mutex);
        if (cuda->device[device].opens == 1) {
            context = cuda->device[device].context;
            module = all.device[device].module;
            all.device[device].module = NULL;
        }
        mend_mutex_unlock(&cuda->mutex);
    }
    if (module != NULL && cuda->functions.cuCtxPushCurrent(context) == MEND_DRIVER_OK) {
        all.cuModuleUnload(module);
        cuda->functions.cuCtxPopCurrent(&context);
    }
    return all.inner->device_close(driver, device);
}

static mend_result find_functions(const mend_driver *inner)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* loaded before, and stays */
    void *found = NULL;
#define X(name, version, suffix, parameters)                                                       \
    found = library != NULL ? dlsym(library, #name suffix) : NULL;                                 \
    if (found == NULL) {                                                                           \
        return mend_fail(MEND_ERROR_NO_DRIVER, "libcuda.so.1 has no %s", #name suffix);            \
    }                                                                                              \
    memcpy(&all.name, &found, sizeof(found));
    MEND_CU_KERNEL_FUNCTIONS(X)
#undef X
    all.table = *inner;
    all.table.launch = launch;
    all.table.device_close = device_close;
    all.inner = inner;
    return MEND_OK;
}

mend_result mend_cuda_driver_with_kernels(const mend_driver **driver)
{
    const mend_driver *inner = NULL;
    MEND_TRY(mend_cuda_driver(&inner));
    pthread_mutex_lock(&all.mutex);
    mend_result result = all.inner == NULL ? find_functions(inner) : MEND_OK;
    pthread_mutex_unlock(&all.mutex);
    *driver = result == MEND_OK ? &all.table : *driver;
    return result;
}
