"""mend::rmm_resource as a resource of RMM's Python. Compiled by rmm.py."""

from libc.stdint cimport uintptr_t
from libcpp.memory cimport unique_ptr
from rmm.librmm.memory_resource cimport device_async_resource_ref
from rmm.pylibrmm.memory_resource cimport DeviceMemoryResource

cdef extern from *:
    """
    #include <memory>
    #include "mend/mend_rmm.hpp"
    static std::unique_ptr<mend::rmm_resource> over(std::uintptr_t pool)
    {
        return std::make_unique<mend::rmm_resource>(
            mend::pool_ref(reinterpret_cast<mend_pool *>(pool)));
    }
    """
    cdef cppclass rmm_resource "mend::rmm_resource":
        pass
    unique_ptr[rmm_resource] over(uintptr_t pool) except +
    device_async_resource_ref ref_to "rmm::device_async_resource_ref"(rmm_resource &)


cdef class Resource(DeviceMemoryResource):
    cdef unique_ptr[rmm_resource] c_obj

    def __cinit__(self, uintptr_t pool):
        self.c_obj = over(pool)
        self.c_ref = ref_to(self.c_obj.get()[0])
