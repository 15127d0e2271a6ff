/* In C++, as PyTorch is: what the hook throws has to pass through it. */
#include "tests/hooks/torch_contract.h"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
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
    if (functions->init != nullptr) {
        functions->init(1);
    }
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
    try {
        pointer = contract->functions.alloc(size, device, stream);
    } catch (const std::exception &error) {
        std::snprintf(raised, TORCH_RAISED_BYTES, "%s", error.what());
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
    contract->functions.free(pointer, metadata.size, metadata.device, metadata.stream);
}

void torch_contract_record_stream(torch_contract *contract, void *pointer, mend_stream stream)
{
    if (contract->functions.record_stream != nullptr) {
        contract->functions.record_stream(pointer, stream);
    }
}

void torch_contract_empty_cache(torch_contract *contract)
{
    if (contract->functions.reset != nullptr) {
        contract->functions.reset();
    }
}

void torch_contract_begin_pool(torch_contract *contract, int device,
                               char raised[TORCH_RAISED_BYTES])
{
    using begin = void (*)(int, std::pair<uint64_t, uint64_t>, std::function<bool(void *)>);
    raised[0] = '\0';
    try {
        void *function = reinterpret_cast<void *>(contract->functions.begin_pool);
        reinterpret_cast<begin>(function)(device, {0, 1}, nullptr);
    } catch (const std::exception &error) {
        std::snprintf(raised, TORCH_RAISED_BYTES, "%s", error.what());
    }
}

void *torch_contract_base(torch_contract *contract, void *pointer, size_t *size)
{
    return contract->functions.base_alloc != nullptr ? contract->functions.base_alloc(pointer, size)
                                                     : pointer;
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
