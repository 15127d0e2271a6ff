// The public headers in C++, with every initializer: compiling this without a warning is the test.
#include <mend/mend.h>
#include <mend/mend_sim.h>

extern "C" size_t mend_test_sizes_in_cplusplus(void);

extern "C" size_t mend_test_sizes_in_cplusplus(void)
{
    mend_error error = MEND_ERROR_INIT;
    mend_pool_config pool = MEND_POOL_CONFIG_INIT;
    mend_block_info block = MEND_BLOCK_INFO_INIT;
    mend_stats stats = MEND_STATS_INIT;
    mend_sim_config sim = MEND_SIM_CONFIG_INIT;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    return error.struct_size + pool.struct_size + block.struct_size + stats.struct_size +
           sim.struct_size + fault.struct_size + ledger.struct_size;
}
