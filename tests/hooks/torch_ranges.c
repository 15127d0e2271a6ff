/* Growable tensors: the memory goes with the tensor, at once or when that is possible. */
#include "tests/hooks/rig.h"
#include "tests/support/test.h"

/* DLManagedTensor, as dlpack.h has it. */
typedef struct managed {
    void *data;
    int32_t device_kind;
    int32_t device_ordinal;
    int32_t dimensions;
    uint8_t type_code;
    uint8_t type_bits;
    uint16_t type_lanes;
    int64_t *shape;
    int64_t *strides;
    uint64_t offset_bytes;
    void *context;
    void (*deleter)(struct managed *self);
} managed;

static managed *made(hooks_rig *rig, mend_stream stream, mend_range **range)
{
    void *tensor = NULL;
    HOOKS_OK(mend_torch_range_create(0, MIB, NULL, stream, range, &tensor));
    HOOKS_OK(mend_range_commit(*range, 0, 64ull * KIB, stream));
    return tensor;
}

static uint64_t committed(hooks_rig *rig)
{
    return hooks_stats(rig).range_bytes;
}

HOOKS_TEST(torch_ranges, a_tensor_describes_its_bytes_and_owns_the_range, MIB)
{
    mend_range *range = NULL;
    managed *tensor = made(rig, rig->streams[0], &range);
    EXPECT_INT_EQ(2, tensor->device_kind);
    EXPECT_INT_EQ(0, tensor->device_ordinal);
    EXPECT_INT_EQ(1, tensor->dimensions);
    EXPECT_INT_EQ(1, tensor->type_code);
    EXPECT_INT_EQ(8, tensor->type_bits);
    EXPECT_INT_EQ(1, tensor->type_lanes);
    EXPECT_U64_EQ(MIB, (uint64_t)tensor->shape[0]);
    EXPECT_TRUE(tensor->strides == NULL && tensor->offset_bytes == 0);
    hooks_write_long(rig, 0, tensor->data, 64ull * KIB);
    EXPECT_U64_EQ(64ull * KIB, committed(rig));
    mend_torch_figures figures;
    HOOKS_OK(mend_torch_get_figures(0, &figures));
    const mend_torch_stat *large[] = {&figures.allocated_bytes[MEND_TORCH_LARGE],
                                      &figures.reserved_bytes[MEND_TORCH_LARGE]};
    for (int i = 0; i < 2; i++) {
        EXPECT_U64_EQ(64ull * KIB, (uint64_t)large[i]->current);
        EXPECT_U64_EQ(64ull * KIB, (uint64_t)large[i]->peak);
    }
    tensor->deleter(tensor);
    EXPECT_U64_EQ(0, committed(rig));
}

HOOKS_TEST(torch_ranges, the_last_tensor_takes_the_range_along, MIB)
{
    mend_range *range = NULL;
    void *made_part = NULL;
    managed *whole = made(rig, rig->streams[0], &range);
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT, mend_torch_range_tensor(whole, MIB + 1, &made_part));
    HOOKS_OK(mend_torch_range_tensor(whole, 5, &made_part));
    managed *part = made_part;
    EXPECT_TRUE(part->data == whole->data && part->shape[0] == 5);
    whole->deleter(whole);
    EXPECT_U64_EQ(64ull * KIB, committed(rig));
    part->deleter(part);
    EXPECT_U64_EQ(0, committed(rig));
}

HOOKS_TEST(torch_ranges, what_a_capture_keeps_goes_later, MIB)
{
    mend_range *range = NULL;
    managed *first = made(rig, rig->streams[0], &range);
    managed *second = made(rig, rig->streams[1], &range);
    uint64_t before = rig->f->mend_torch_failures();
    mend_sim_graph *graph = NULL;
    EXPECT_RESULT(MEND_OK,
                  mend_sim_begin_capture(rig->sim, rig->streams[0], MEND_SIM_CAPTURE_RELAXED));
    first->deleter(first);
    EXPECT_U64_EQ(128ull * KIB, committed(rig));
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(rig->sim, rig->streams[0], &graph));
    EXPECT_U64_EQ(before, rig->f->mend_torch_failures());
    second->deleter(second);
    EXPECT_U64_EQ(0, committed(rig));
    mend_sim_graph_destroy(rig->sim, graph);
}

HOOKS_TEST(torch_ranges, what_is_pinned_goes_with_the_cache, MIB)
{
    mend_range *range = NULL;
    managed *tensor = made(rig, rig->streams[0], &range);
    void *base = tensor->data;
    HOOKS_OK(mend_pin(hooks_pool(rig), base, 64ull * KIB));
    uint64_t before = rig->f->mend_torch_failures();
    tensor->deleter(tensor);
    EXPECT_U64_EQ(before + 1, rig->f->mend_torch_failures());
    EXPECT_U64_EQ(64ull * KIB, committed(rig));
    HOOKS_OK(mend_unpin(hooks_pool(rig), base, 64ull * KIB));
    HOOKS_OK(mend_torch_empty_cache());
    EXPECT_U64_EQ(0, committed(rig));
}

HOOKS_TEST(torch_ranges, a_stream_that_has_ended_is_not_needed, MIB)
{
    mend_stream own;
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(rig->sim, NULL, &own));
    mend_range *range = NULL;
    managed *tensor = made(rig, own, &range);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(rig->sim, own));
    tensor->deleter(tensor);
    EXPECT_U64_EQ(0, committed(rig));
}

HOOKS_TEST(torch_ranges, what_cannot_be_made_says_why, MIB)
{
    mend_range *range = NULL;
    void *tensor = NULL;
    HOOKS_ANSWER(MEND_ERROR_INVALID_ARGUMENT,
                 mend_torch_range_create(0, 0, NULL, NULL, &range, &tensor));
    HOOKS_ANSWER(MEND_ERROR_NO_DEVICE,
                 mend_torch_range_create(99, MIB, NULL, NULL, &range, &tensor));
    EXPECT_TRUE(range == NULL && tensor == NULL);
}
