"""A stub of cuda.core 1.2: a buffer frees itself in the order of a stream that it keeps."""


class Stream:
    def __init__(self, handle=0):
        self._handle = handle

    def __cuda_stream__(self):
        return (0, self._handle)


class GraphBuilder(Stream):
    """It has the protocol of a stream too."""


class MemoryResource:
    pass


class Buffer:
    @classmethod
    def from_handle(cls, ptr, size, mr=None, owner=None, *, stream=None):
        made = cls()
        made.handle, made.size, made.memory_resource, made._stream = ptr, size, mr, stream
        return made

    def close(self, stream=None):
        mr, self.memory_resource = self.memory_resource, None
        if mr is not None:
            mr.deallocate(self.handle, self.size, stream=stream or self._stream)

    __del__ = close


class Device:
    _resources = {}

    def __init__(self, device_id=0):
        self.device_id = device_id

    @property
    def memory_resource(self):
        return self._resources.get(self.device_id)

    @memory_resource.setter
    def memory_resource(self, resource):
        if not isinstance(resource, MemoryResource):
            raise TypeError("a MemoryResource is wanted")
        self._resources[self.device_id] = resource

    def allocate(self, size, *, stream):
        return self.memory_resource.allocate(size, stream=stream)
