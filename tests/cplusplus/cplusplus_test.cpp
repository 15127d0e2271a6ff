// mend.hpp over a simulated device: ownership, exceptions, and a std::pmr resource.
#include <gtest/gtest.h>
#include <mend/mend.hpp>

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "mend/mend_frameworks.h"
#include "tests/cplusplus/device.hpp"

namespace
{

std::function<void()> during_new; // runs once, inside the next allocation of host memory

} // namespace

// Not inlined: gcc at -O3 takes free() after operator new for a mismatch.
[[gnu::noinline]] void *operator new(std::size_t size_bytes)
{
    if (during_new) {
        auto once = std::exchange(during_new, nullptr);
        once();
    }
    if (void *memory = std::malloc(size_bytes)) {
        return memory;
    }
    throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void *memory) noexcept
{
    std::free(memory);
}

[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace
{

std::vector<std::string> warnings;

void keep(void *, mend_log_level level, const char *line)
{
    if (level == MEND_LOG_WARNING && std::strstr(line, "out of memory") == nullptr) {
        warnings.push_back(line);
    }
}

// The text of the mend::error that a call throws, which has this result.
template <typename Call> std::string error_of(mend_result result, Call call, int driver_status = 0)
{
    try {
        call();
    } catch (const mend::error &failure) {
        EXPECT_EQ(result, failure.result());
        EXPECT_EQ(driver_status, failure.driver_status());
        return failure.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

// No destructor had a failure to log.
class cplusplus : public on_device
{
  protected:
    void SetUp() override
    {
        on_device::SetUp();
        ASSERT_EQ(MEND_OK, mend_sim_stream_create(sim, NULL, &other));
        warnings.clear();
        mend_log_set_sink(keep, nullptr);
    }
    void TearDown() override
    {
        mend_log_set_sink(nullptr, nullptr);
        EXPECT_EQ(warnings_meant, warnings.size());
        on_device::TearDown();
    }
    void use(mend_stream by, const mend::block &block, std::uint64_t finish_ns)
    {
        mend_sim_work work = MEND_SIM_WORK_INIT;
        work.kind = MEND_SIM_WORK_WRITE;
        work.address = reinterpret_cast<std::uintptr_t>(block.data());
        work.size_bytes = block.size_bytes();
        work.finish_ns = finish_ns;
        ASSERT_EQ(MEND_OK, mend_sim_launch(sim, by, &work));
    }
    std::size_t warnings_meant = 0;
    mend_stream other = nullptr;
};

TEST_F(cplusplus, check_tells_why_the_simulator_refused)
{
    const mend_sim_work unsized = {};
    const std::string why = error_of(MEND_ERROR_INVALID_ARGUMENT,
                                     [&] { mend::check(mend_sim_launch(sim, stream, &unsized)); });
    EXPECT_EQ(std::string("MEND_ERROR_INVALID_ARGUMENT: ") + mend_sim_last_message(), why);
    EXPECT_NE(std::string::npos, why.find("struct_size")) << why;
}

TEST_F(cplusplus, a_block_is_freed_in_the_order_of_its_stream)
{
    mend::pool pool(config);
    void *first = nullptr;
    {
        mend::block block = pool.alloc(MIB, stream);
        ASSERT_TRUE(block);
        EXPECT_EQ(MIB, block.size_bytes());
        EXPECT_EQ(stream, block.stream());
        EXPECT_EQ(MIB, pool.stats().live_bytes);
        first = block.data();
    }
    EXPECT_EQ(0u, pool.stats().live_blocks);
    EXPECT_EQ(first, pool.alloc(MIB, stream).data());
}

TEST_F(cplusplus, owners_move_and_do_not_copy)
{
    static_assert(!std::is_copy_constructible_v<mend::block>);
    static_assert(!std::is_copy_constructible_v<mend::pool>);
    static_assert(!std::is_copy_constructible_v<mend::graph_pool>);
    static_assert(std::is_nothrow_move_constructible_v<mend::block>);
    static_assert(std::is_nothrow_move_constructible_v<mend::pool>);
    static_assert(std::is_nothrow_move_assignable_v<mend::block>);
    mend::pool pool(config);
    mend::block a = pool.alloc(MIB, stream);
    mend::block b = pool.alloc(2 * MIB, stream);
    void *data = b.data();
    a = std::move(b);
    EXPECT_FALSE(b);
    EXPECT_EQ(data, a.data());
    EXPECT_EQ(1u, pool.stats().live_blocks);
    mend::pool moved = std::move(pool);
    EXPECT_EQ(nullptr, pool.get());
    EXPECT_EQ(1u, moved.stats().live_blocks);
    a.reset();
    EXPECT_EQ(0u, moved.stats().live_blocks);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend::pool assigned(config);
    mend::pool next(config);
    mend::check(mend_sim_get_ledger(sim, &ledger));
    const std::uint64_t before = ledger.contexts_open;
    assigned = std::move(next); // the one that it had ends now
    mend::check(mend_sim_get_ledger(sim, &ledger));
    EXPECT_EQ(before - 1, ledger.contexts_open);
    EXPECT_EQ(nullptr, next.get());
    mend::graph_pool graph_pool(assigned);
    mend::graph_pool other_graph_pool(assigned);
    graph_pool = std::move(other_graph_pool);
    EXPECT_EQ(nullptr, other_graph_pool.get());
    std::vector<mend::block> blocks;
    for (int i = 0; i < 10; i++) {
        blocks.push_back(moved.alloc(1000, stream));
    }
    EXPECT_EQ(10u, moved.stats().live_blocks);
    blocks.clear();
    EXPECT_EQ(0u, moved.stats().live_blocks);
}

TEST_F(cplusplus, a_released_block_is_the_callers)
{
    mend::pool pool(config);
    void *data = pool.alloc(MIB, stream).release();
    EXPECT_EQ(1u, pool.stats().live_blocks);
    mend::block again(pool.get(), data, MIB, stream);
    again.set_stream(other);
    EXPECT_EQ(other, again.stream());
    EXPECT_EQ(data, pool.info(again.as<char>() + 5).base);
}

TEST_F(cplusplus, a_block_that_other_streams_use_waits_for_them)
{
    mend::pool pool(config);
    mend::block block = pool.alloc(40 * MIB, stream);
    block.use_on(other);
    use(other, block, 1000000000);
    block.reset();
    mend::block next = pool.alloc(40 * MIB, stream);
    EXPECT_GE(pool.stats().stream_waits, 1u);
}

TEST_F(cplusplus, want_of_memory_is_a_bad_alloc_that_says_where_it_is)
{
    mend::pool pool(config);
    mend::block most = pool.alloc(60 * MIB, stream);
    std::string text;
    try {
        (void)pool.alloc(40 * MIB, stream);
        FAIL();
    } catch (const std::bad_alloc &failure) {
        text = failure.what();
        const auto *known = dynamic_cast<const mend::out_of_memory *>(&failure);
        ASSERT_NE(nullptr, known);
        EXPECT_EQ(MEND_ERROR_OUT_OF_MEMORY, known->result());
        mend::out_of_memory copy = *known; // valid after the next failure
        EXPECT_THROW((void)pool.alloc(64 * MIB, stream), mend::out_of_memory);
        ASSERT_NE(nullptr, copy.oom_report());
        EXPECT_EQ(40 * MIB, copy.oom_report()->requested_bytes);
        EXPECT_EQ(60 * MIB, copy.oom_report()->live_bytes);
    }
    EXPECT_NE(std::string::npos, text.find("40"));
}

TEST_F(cplusplus, other_failures_are_runtime_errors_with_the_result)
{
    mend::pool pool(config);
    EXPECT_NE("", error_of(MEND_ERROR_INVALID_ARGUMENT, [&] { (void)pool.alloc(0, stream); }));
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "create";
    fault.status = 999;
    ASSERT_EQ(MEND_OK, mend_sim_fail(sim, &fault));
    error_of(
        MEND_ERROR_DRIVER, [&] { (void)pool.alloc(MIB, stream); }, 999);
    config.device = 7;
    EXPECT_THROW(mend::pool none(config), mend::error);
    // A result without a last error of its own.
    error_of(MEND_ERROR_INVALID_ARGUMENT,
             [&] { mend::check(mend_sim_event_time(sim, nullptr, nullptr)); });
    EXPECT_EQ("MEND_ERROR_SYSTEM",
              error_of(MEND_ERROR_SYSTEM, [] { mend::check(MEND_ERROR_SYSTEM); }));
}

TEST_F(cplusplus, what_a_destructor_cannot_free_is_logged)
{
    mend::block late;
    {
        mend::pool pool(config);
        late = pool.alloc(512, stream);
        mend::block block = pool.alloc(MIB, stream);
        mend::check(mend_free(pool.get(), block.data(), stream)); // behind its back
    }
    late.reset();
    warnings_meant = 3;
    ASSERT_EQ(3u, warnings.size());
    EXPECT_EQ(0u, warnings[0].find("~mend::block: ")) << warnings[0];
    EXPECT_NE(std::string::npos, warnings[0].find(" was already freed")) << warnings[0];
    EXPECT_NE(std::string::npos, warnings[1].find("was destroyed with 1 block alive"));
    EXPECT_EQ("~mend::block: the pool was destroyed, and its blocks with it", warnings[2]);
}

TEST_F(cplusplus, a_graph_pool_keeps_its_memory_until_its_end)
{
    mend::pool pool(config);
    void *kept = nullptr;
    {
        mend::graph_pool graph_pool(pool);
        {
            auto scope = graph_pool.begin(stream);
            mend::block block = pool.alloc(40 * MIB, stream);
            kept = block.data();
        }
        EXPECT_THROW((void)pool.alloc(40 * MIB, stream), mend::out_of_memory);
        mend::block again = graph_pool.alloc(40 * MIB, stream);
        EXPECT_EQ(kept, again.data());
        std::vector<mend_graph_pool_block> checkpoint = graph_pool.blocks();
        ASSERT_EQ(1u, checkpoint.size());
        again.reset();
        graph_pool.restore(checkpoint);
        ASSERT_EQ(1u, graph_pool.blocks().size());
        mend::check(mend_graph_pool_free(graph_pool.get(), kept, stream));
    }
    EXPECT_TRUE(pool.alloc(40 * MIB, stream)); // its destructor has released it
    mend::graph_pool second(pool);
    {
        auto scope = second.begin(stream);
        EXPECT_THROW(second.destroy(stream), mend::error); // begun
    }
    mend::graph_pool moved = std::move(second);
    moved.destroy(stream);
    EXPECT_EQ(nullptr, moved.get());
}

TEST_F(cplusplus, blocks_of_a_graph_pool_that_grows_meanwhile_are_all_found)
{
    mend::pool pool(config);
    mend::graph_pool graph_pool(pool);
    mend::block first = graph_pool.alloc(MIB, stream);
    std::vector<mend::block> more;
    more.reserve(3);
    during_new = [&] {
        for (int i = 0; i < 3; i++) {
            more.push_back(graph_pool.alloc(MIB, stream));
        }
    };
    std::vector<mend_graph_pool_block> found = graph_pool.blocks();
    EXPECT_FALSE(during_new);
    ASSERT_EQ(4u, found.size());
    for (const mend_graph_pool_block &block : found) {
        EXPECT_NE(nullptr, block.pointer);
    }
}

TEST_F(cplusplus, a_pin_ends_with_its_owner)
{
    mend::pool pool(config);
    mend::block block = pool.alloc(4 * MIB, stream);
    {
        mend::pin pin(pool, block.data(), 4 * MIB);
        mend::pin moved = std::move(pin);
        EXPECT_GT(pool.stats().pinned_bytes, 0u);
    }
    EXPECT_EQ(0u, pool.stats().pinned_bytes);
    EXPECT_THROW(mend::pin(pool, &pool, 1), mend::error);
}

TEST_F(cplusplus, a_callback_makes_room_and_may_throw)
{
    mend::pool pool(config);
    mend::block cache = pool.alloc(40 * MIB, stream);
    int asked = 0;
    {
        mend::pressure_callback callback(pool, [&](std::uint64_t needed_bytes) {
            EXPECT_EQ(40 * MIB, needed_bytes);
            asked++;
            cache.reset();
            return true;
        });
        EXPECT_TRUE(pool.alloc(40 * MIB, stream));
    }
    EXPECT_EQ(1, asked);
    cache = pool.alloc(40 * MIB, stream);
    {
        mend::pressure_callback callback(
            pool, [](std::uint64_t) -> bool { throw std::runtime_error("no"); });
        EXPECT_THROW((void)pool.alloc(40 * MIB, stream), mend::out_of_memory);
    }
    EXPECT_THROW((void)pool.alloc(40 * MIB, stream), mend::out_of_memory);
    EXPECT_EQ(1, asked); // neither is called any more
    warnings_meant = 1;  // of the exception
}

TEST_F(cplusplus, a_callback_may_end_itself)
{
    mend::pool pool(config);
    mend::block cache = pool.alloc(40 * MIB, stream);
    std::unique_ptr<mend::pressure_callback> callback;
    std::vector<int> kept(1000, 7); // in the function's own memory
    int seen = 0;
    callback = std::make_unique<mend::pressure_callback>(pool, [&, kept](std::uint64_t) {
        callback.reset();
        cache.reset();
        seen = kept[999];
        return true;
    });
    EXPECT_TRUE(pool.alloc(40 * MIB, stream));
    EXPECT_EQ(7, seen);
    EXPECT_EQ(nullptr, callback);
}

TEST_F(cplusplus, a_resource_gives_aligned_memory_in_the_order_of_its_stream)
{
    mend::pool pool(config);
    mend::memory_resource resource(pool, stream);
    std::pmr::polymorphic_allocator<char> allocator(&resource);
    char *data = allocator.allocate(3 * MIB);
    EXPECT_EQ(stream, pool.info(data).stream);
    EXPECT_EQ(3 * MIB, pool.stats().live_bytes);
    allocator.deallocate(data, 3 * MIB);
    void *before = resource.allocate(100);
    void *aligned = resource.allocate(100, MIB);
    EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(aligned) % MIB);
    resource.deallocate(aligned, 100, MIB);
    resource.deallocate(before, 100);
    void *nothing = resource.allocate(0);
    EXPECT_NE(nullptr, nothing);
    resource.deallocate(nothing, 0);
    EXPECT_EQ(0u, pool.stats().live_blocks);
    EXPECT_THROW((void)resource.allocate(100 * MIB), std::bad_alloc);
    EXPECT_THROW((void)resource.allocate(PTRDIFF_MAX), std::bad_alloc);
    EXPECT_TRUE(resource.is_equal(mend::memory_resource(pool, stream)));
    EXPECT_FALSE(resource.is_equal(mend::memory_resource(pool, other)));
    EXPECT_FALSE(resource.is_equal(*std::pmr::new_delete_resource()));
}

TEST_F(cplusplus, a_pool_trims_and_reports)
{
    mend::pool pool(config);
    mend::block block = pool.alloc(40 * MIB, stream);
    use(other, block, 1000000000);
    block.use_on(other);
    EXPECT_EQ(24 * MIB, pool.available(stream).now_bytes);
    block.reset();
    EXPECT_EQ(0u, pool.trim());
    EXPECT_GE(pool.trim(0, MEND_TRIM_WAIT), 40 * MIB);
    EXPECT_EQ(0u, pool.stats().reserved_bytes);
    pool.set_limit(32 * MIB);
    EXPECT_THROW((void)pool.alloc(40 * MIB, stream), std::bad_alloc);
    EXPECT_EQ(MEND_COMPACT_DONE, pool.compact().stop);
    pool.unregister_stream(stream);
    EXPECT_TRUE(mend::pool_ref(pool.get()) == pool);
}

} // namespace
