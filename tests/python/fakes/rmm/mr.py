"""rmm.mr."""

import collections


class DeviceMemoryResource:
    pass


class CudaMemoryResource(DeviceMemoryResource):
    pass


class PoolMemoryResource(DeviceMemoryResource):
    def __init__(self, upstream, initial_pool_size=None, maximum_pool_size=None):
        self._upstream = upstream

    def get_upstream(self):
        return self._upstream


class StatisticsResourceAdaptor(PoolMemoryResource):
    pass


_resources = collections.defaultdict(CudaMemoryResource)


class CallbackMemoryResource(DeviceMemoryResource):
    """Ignores the function's result. Its exception becomes a MemoryError."""

    def __init__(self, allocate_func, deallocate_func):
        self._allocate, self._deallocate = allocate_func, deallocate_func

    def allocate(self, size, stream):
        try:
            return self._allocate(size, stream)
        except Exception as error:
            raise MemoryError(f"std::bad_alloc: out_of_memory: {error}") from None

    def deallocate(self, ptr, size, stream):
        self._deallocate(ptr, size, stream)


def set_per_device_resource(device, mr):
    if not isinstance(mr, DeviceMemoryResource):
        raise TypeError("a DeviceMemoryResource is wanted")
    _resources[device] = mr


def get_per_device_resource(device):
    return _resources[device]
