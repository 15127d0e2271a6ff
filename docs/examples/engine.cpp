/*
 * A small serving engine in C++: weights, activations on two streams, a decode step captured in a
 * graph, and a KV cache that grows by sequence. Requests evict an old sequence and try again when
 * memory is short.
 */
#include <mend/mend.hpp>
#include <mend/mend_sim.h>

#include <cstdio>
#include <deque>
#include <vector>

constexpr std::uint64_t MIB = std::uint64_t{1} << 20;

/* The simulated device. On a GPU leave this out, and launch kernels where `use` is called. */
struct device {
    mend_sim *sim = nullptr;
    mend_stream compute = nullptr;
    mend_stream copies = nullptr;
    device()
    {
        mend_sim_config config = MEND_SIM_CONFIG_INIT;
        config.memory_bytes = 256 * MIB;
        mend::check(mend_sim_create(&config, &sim));
        mend::check(mend_sim_stream_create(sim, NULL, &compute));
        mend::check(mend_sim_stream_create(sim, NULL, &copies));
    }
    ~device() { mend_sim_destroy(sim); }
    void use(const mend::block &block, mend_stream stream) const
    {
        mend_sim_work work = MEND_SIM_WORK_INIT;
        work.kind = MEND_SIM_WORK_TOUCH;
        work.address = reinterpret_cast<std::uintptr_t>(block.data());
        work.size_bytes = block.size_bytes();
        mend::check(mend_sim_launch(sim, stream, &work));
    }
};

/* The keys and values of one sequence, a block for each page of tokens. */
struct sequence {
    std::vector<mend::block> pages;
};

class engine
{
  public:
    explicit engine(device &on)
        : on_(on), pool_(config_of(on)), weights_(pool_.alloc(96 * MIB, on.compute)),
          graph_memory_(pool_)
    {
        auto scope = graph_memory_.begin(on.compute);
        mend::check(mend_sim_begin_capture(on.sim, on.compute, MEND_SIM_CAPTURE_GLOBAL));
        { /* the graph's own activations: kept for its launches, used by nothing else */
            mend::block scratch = pool_.alloc(24 * MIB, on.compute);
            on.use(scratch, on.compute);
        }
        mend::check(mend_sim_end_capture(on.sim, on.compute, &decode_));
    }
    ~engine() { mend_sim_graph_destroy(on_.sim, decode_); }

    /* Reads a prompt on one stream while its keys and values are copied on another. */
    void prefill(std::uint64_t prompt_mib)
    {
        mend::block activations = alloc(2 * prompt_mib * MIB);
        on_.use(activations, on_.compute);
        activations.use_on(on_.copies);
        on_.use(activations, on_.copies);
        sequence added;
        for (std::uint64_t mib = 0; mib < prompt_mib; mib += 4) {
            added.pages.push_back(alloc(4 * MIB));
        }
        running_.push_back(std::move(added));
    }

    /* One token for each running sequence. Each grows by a page. */
    void decode()
    {
        for (std::size_t i = 0; i < running_.size(); i++) {
            mend::block page = alloc(4 * MIB);
            if (i < running_.size()) { /* it was not evicted for its own page */
                running_[i].pages.push_back(std::move(page));
            }
        }
        mend::check(mend_sim_graph_launch(on_.sim, decode_, on_.compute, 0));
    }

    void report(const char *when) const
    {
        const mend_stats stats = pool_.stats();
        std::printf("%-18s %zu sequences, %zu evicted, %llu MiB live of %llu MiB\n", when,
                    running_.size(), evicted_,
                    static_cast<unsigned long long>(stats.live_bytes / MIB),
                    static_cast<unsigned long long>(stats.limit_bytes / MIB));
    }

  private:
    static mend_pool_config config_of(const device &on)
    {
        mend_pool_config config = MEND_POOL_CONFIG_INIT;
        config.driver = mend_sim_driver(on.sim);
        return config;
    }

    /* Evicts the oldest sequences until the request fits. */
    mend::block alloc(std::uint64_t size_bytes)
    {
        for (;;) {
            try {
                return pool_.alloc(size_bytes, on_.compute);
            } catch (const std::bad_alloc &) {
                if (running_.empty()) {
                    throw;
                }
                running_.pop_front();
                evicted_++;
            }
        }
    }

    device &on_;
    mend::pool pool_;
    mend::block weights_;
    mend::graph_pool graph_memory_;
    mend_sim_graph *decode_ = nullptr;
    std::deque<sequence> running_;
    std::size_t evicted_ = 0;
};

int main()
{
    try {
        device on;
        {
            engine engine(on);
            engine.report("loaded:");
            for (int i = 0; i < 4; i++) {
                engine.prefill(20);
            }
            engine.report("four prompts:");
            for (int i = 0; i < 6; i++) {
                engine.decode();
            }
            engine.report("six more tokens:");
        }
        return mend_sim_first_violation(on.sim)[0] != 0;
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
