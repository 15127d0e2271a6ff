#include "tests/hooks/torch_contract.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

struct torch_contract {
    struct metadata {
        size_t size;
        int device;
        mend_stream stream;
    };

    torch_functions functions;
    std::mutex mutex; /* never held around a callback */
    std::unordered_map<void *, metadata> allocations;
    std::string finding;

    void find(const std::string &what)
    {
        if (finding.empty()) {
            finding = what;
        }
    }
};

torch_contract *torch_contract_create(const torch_functions *functions)
{
    torch_contract *contract = new torch_contract;
    contract->functions = *functions;
    return contract;
}

void torch_contract_destroy(torch_contract *contract)
{
    delete contract;
}

void *torch_contract_malloc(torch_contract *contract, size_t size, int device, mend_stream stream,
                            char raised[TORCH_RAISED_BYTES])
{
    void *pointer = nullptr;
    raised[0] = '\0';
    int is_foreign = 0;
    mend_result result = contract->functions.alloc(device, size, stream, &pointer, &is_foreign);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        contract->functions.write(raised, TORCH_RAISED_BYTES, device, size);
        return nullptr;
    }
    if (result != MEND_OK) {
        std::snprintf(raised, TORCH_RAISED_BYTES, "%d", static_cast<int>(result));
        return nullptr;
    }
    std::lock_guard<std::mutex> guard(contract->mutex);
    if (pointer == nullptr) {
        if (size != 0) {
            contract->find("NULL was given for a tensor that is not empty");
        }
        return nullptr;
    }
    torch_contract::metadata metadata{size, device, stream};
    if (!contract->allocations.emplace(pointer, metadata).second) {
        contract->find("a pointer was given that is in use");
        return nullptr;
    }
    return pointer;
}

void torch_contract_delete(torch_contract *contract, void *pointer)
{
    torch_contract::metadata metadata;
    {
        std::lock_guard<std::mutex> guard(contract->mutex);
        auto found = contract->allocations.find(pointer);
        if (found == contract->allocations.end()) {
            contract->find("Trying to free a pointer not allocated here");
            return;
        }
        metadata = found->second;
        contract->allocations.erase(found);
    }
    mend_torch_block block;
    bool is_known = contract->functions.find(pointer, &block) == MEND_OK;
    bool has_stream =
        is_known && (block.stream == metadata.stream || block.stream == MEND_NO_STREAM);
    mend_result freed = is_known ? contract->functions.free(&block) : MEND_OK;
    bool is_freed = freed == MEND_OK || freed == MEND_ERROR_DEVICE_LOST;
    if (!is_known || !has_stream || !is_freed) {
        std::lock_guard<std::mutex> guard(contract->mutex);
        contract->find(!is_known     ? "a tensor is not found"
                       : !has_stream ? "a tensor is found with another stream"
                                     : "a tensor cannot be freed");
    }
}

void torch_contract_record_stream(torch_contract *contract, void *pointer, mend_stream stream)
{
    if (contract->functions.record_stream != nullptr) {
        (void)contract->functions.record_stream(MEND_ALL_DEVICES, pointer, stream);
    }
}

void torch_contract_empty_cache(torch_contract *contract)
{
    if (contract->functions.empty_cache != nullptr) {
        (void)contract->functions.empty_cache();
    }
}

void *torch_contract_base(torch_contract *contract, void *pointer, size_t *size)
{
    mend_torch_block block;
    if (contract->functions.find(pointer, &block) != MEND_OK) {
        return nullptr;
    }
    *size = block.usable_bytes;
    return block.base;
}

size_t torch_contract_count(torch_contract *contract)
{
    std::lock_guard<std::mutex> guard(contract->mutex);
    return contract->allocations.size();
}

const char *torch_contract_finding(torch_contract *contract)
{
    std::lock_guard<std::mutex> guard(contract->mutex);
    return contract->finding.c_str();
}
