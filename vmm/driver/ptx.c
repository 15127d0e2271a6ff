/*
 * Three kernels by hand. PTX 7.0 for sm_52 is understood by every driver from CUDA 11.0 on and for
 * every device since; nothing newer is needed. A block of threads takes granules in turn, its
 * threads the words of a granule. Time is %globaltimer: nanoseconds, the same for all blocks.
 */
#include "driver/ptx.h"

#include "base/align.h"

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
/* Runs `body` with %rd10 at each word of this thread; the labels begin with `name`. */
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

/* clang-format off */
static const char program[] =
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
    "}\n";
/* clang-format on */

const char *mend_ptx_program(void)
{
    return program;
}

const char *mend_ptx_entry(mend_kernel_kind kind)
{
    switch (kind) {
    case MEND_KERNEL_SPIN:
        return "mend_spin";
    case MEND_KERNEL_WRITE:
        return "mend_write";
    case MEND_KERNEL_VERIFY:
        return "mend_verify";
    }
    return NULL;
}

mend_ptx_launch mend_ptx_shape(const mend_kernel *kernel)
{
    /* Few enough blocks that two kernels run side by side on the smallest device. */
    enum { MOST_BLOCKS = 32, THREADS = 128 };
    mend_ptx_launch launch = {.blocks = 1,
                              .threads = 1,
                              .address = kernel->address,
                              .granule_bytes = kernel->granule_bytes,
                              .stride_bytes = kernel->stride_bytes,
                              .granule_count = kernel->granule_count,
                              .value = kernel->value,
                              .duration_ns = kernel->duration_ns,
                              .mismatches = kernel->mismatches};
    if (kernel->kind != MEND_KERNEL_SPIN) {
        launch.blocks = (unsigned)mend_max_u64(1, mend_min_u64(kernel->granule_count, MOST_BLOCKS));
        launch.threads = THREADS;
    }
    return launch;
}
