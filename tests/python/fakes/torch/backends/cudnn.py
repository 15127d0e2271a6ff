"""torch.backends.cudnn: a module of a class of its own, whose attributes are descriptors that
took their functions from torch._C when it was made."""

import sys
import types

from torch import _C


class ContextProp:
    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, module, kind):
        return self.getter()

    def __set__(self, module, value):
        self.setter(value)


class CudnnModule(types.ModuleType):
    benchmark = ContextProp(_C._get_cudnn_benchmark, _C._set_cudnn_benchmark)

    @staticmethod
    def set_flags(_benchmark=None):
        if _benchmark is not None:
            _C._set_cudnn_benchmark(_benchmark)


sys.modules[__name__] = CudnnModule(__name__)
