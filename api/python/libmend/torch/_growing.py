"""Growable tensors (docs/ranges.md): a fixed address below which memory comes and goes."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Sequence

from .. import _devices, _library, _structures
from .._errors import Error, check
from ._errors import as_pytorch

_int, _u64, _pointer = ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p


class GrowingTensor:
    """A tensor that grows and shrinks at one address, in its first dimension: `capacity` is its
    largest shape, and takes no memory by itself. `tensor` is a view of the present length, and
    `full` of the whole capacity, where you may use committed pages only. New memory is undefined,
    as torch.empty's.

        cache = libmend.torch.GrowingTensor((1 << 20, 8, 128), dtype=torch.float16)
        cache.grow(4096)          # nothing moves: views from before stay valid
        cache.tensor[:4096].copy_(keys)
        cache.shrink(1024)        # the memory is the pool's again

    Memory is in pages of `page_bytes`. grow and shrink commit and decommit the pages of the length,
    and commit and decommit any pages. They work in the order of the current stream. Streams that
    use the tensor beside it are declared by record_stream.

    It sleeps with everything (libmend.torch.sleep), or by its tag: made inside
    libmend.torch.sleep_tag it has that tag, except pages that are committed inside another.
    info()["asleep_bytes"] is its sleeping memory, which may shrink.

    The memory lasts as long as this object or any view. Raises libmend.Error, or
    libmend.OutOfMemoryError, which is torch.OutOfMemoryError too. Nothing has changed then."""

    def __init__(
        self,
        capacity: int | Sequence[int],
        *,
        dtype: object | None = None,
        device: object | None = None,
        page_bytes: int = 0,
    ) -> None:
        import torch

        shape = [capacity] if hasattr(capacity, "__index__") else list(capacity)
        self._shape = [_devices.amount_of("the capacity", size, least=1) for size in shape]
        if not shape:
            raise ValueError("libmend: the capacity is a shape of at least one dimension, not ()")
        self._dtype = dtype = torch.get_default_dtype() if dtype is None else dtype
        index = torch.cuda.current_device() if device is None else _devices.index_of(device)
        self._row_bytes = math.prod(self._shape[1:]) * torch.empty(0, dtype=dtype).element_size()
        size = _devices.amount_of("the size in bytes", self._shape[0] * self._row_bytes)
        page = _devices.amount_of("page_bytes", page_bytes)
        options = _structures.made("mend_range_options", page_bytes=page)
        self._device = torch.device("cuda", index)
        self._stream = torch.cuda.current_stream(self._device).cuda_stream
        self._range, whole = _pointer(), _pointer()
        made = ctypes.byref(self._range), ctypes.byref(whole)
        create = _function("create", _int, _u64, _pointer, _pointer, _pointer, _pointer)
        check(create(index, size, ctypes.byref(options), self._stream, *made))
        self._whole = whole  # as long as self._full lives
        self._full = self._viewed(whole, self._shape[0])
        self._page_bytes = self.info()["page_bytes"]
        self._length = 0
        self._tensor = self._part(0)

    # ---- as a tensor ---------------------------------------------------------------------------

    @property
    def tensor(self):
        """A tensor of the present length. Earlier ones stay valid as far as it reaches."""
        return self._tensor

    @property
    def full(self):
        """A view of the whole capacity. Only committed pages of it may be used."""
        return self._full

    @property
    def capacity(self) -> int:
        """The most that the length can be."""
        return self._shape[0]

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        shape = ", ".join(map(str, [self._length, *self._shape[1:]]))
        return f"GrowingTensor([{shape}] of {self.capacity}, {self._dtype}, {self._device})"

    # ---- its length ------------------------------------------------------------------------------

    def grow(self, count: int):
        """Makes it longer by `count`, and returns the tensor. Pages that it needs are committed:
        the current stream may use them."""
        return self.resize(self._length + _devices.amount_of("count", count))

    def shrink(self, count: int):
        """Makes it shorter by `count`, and returns the tensor. Pages that it does not need are
        decommitted: later work of the current stream gets their memory at once."""
        return self.resize(self._length - _devices.amount_of("count", count))

    def resize(self, length: int):
        """Makes it so long, as grow or shrink."""
        length = self._checked(length)
        tensor = self._part(length)
        if length > self._length:
            self.commit(self._length, length)
        else:
            begin, end = (self._end_of(count) for count in (length, self._length))
            self._decommit(begin, end - begin)
        self._length, self._tensor = length, tensor
        return tensor

    def _checked(self, length: int) -> int:
        length = operator.index(length)
        if not 0 <= length <= self.capacity:
            raise ValueError(f"libmend: the length would be {length}; it is 0 to {self.capacity}")
        return length

    # ---- pages -----------------------------------------------------------------------------------

    def commit(self, first: int, end: int) -> None:
        """Commits the pages that hold any of `full[first:end]`."""
        _commit([(self, *self._pages(first, end, is_inside=False))])

    def decommit(self, first: int, end: int) -> None:
        """Decommits the pages that hold nothing outside of `full[first:end]`, of which the end of
        the capacity is one too."""
        self._decommit(*self._pages(first, end, is_inside=True))

    def record_stream(self, stream: object) -> None:
        """Declares that a stream uses the committed pages. Their memory is reused only after the
        work that is queued there until their decommit, or until the end of the tensor."""
        number = _devices.stream_of(stream)
        self._call("mend_range_record_stream", 0, self.info()["size_bytes"], number)

    def info(self) -> dict[str, int]:
        """The figures of mend_range_info: committed_bytes, page_bytes, mapped_bytes, ..."""
        info = _structures.made("mend_range_info")
        check(_devices.function("mend_range_get_info")(self._range, ctypes.byref(info)))
        figures = _structures.figures_of(info)
        del figures["pool"]
        return figures

    def _pages(self, first: int, end: int, is_inside: bool) -> tuple[int, int]:
        first, end = operator.index(first), operator.index(end)
        if not 0 <= first <= end <= self.capacity:
            raise ValueError(
                f"libmend: {first} to {end} are not in the capacity of {self.capacity}"
            )
        at, to, page = first * self._row_bytes, end * self._row_bytes, self._page_bytes
        if is_inside:
            at, to = -(-at // page), (-(-to // page) if end == self.capacity else to // page)
        else:
            at, to = at // page, -(-to // page)
        return at * page, max(to - at, 0) * page if first < end else 0

    def _end_of(self, length: int) -> int:
        """The end of the pages of the first elements, in bytes."""
        return -(-length * self._row_bytes // self._page_bytes) * self._page_bytes

    def _decommit(self, begin: int, size: int) -> None:
        if size:
            if self._now() != self._stream:
                self._record_awake(begin, size, self._stream)
            self._call("mend_range_decommit", begin, size, self._now())

    def _record_awake(self, begin: int, size: int, stream: int) -> None:
        """Declares a stream for pages that are to go. Nothing uses sleeping pages."""
        step = self._page_bytes if self.info()["asleep_bytes"] else size
        for at in range(begin, begin + size, step):
            try:
                self._call("mend_range_record_stream", at, step, stream)
            except Error as error:
                if error.name != "MEND_ERROR_ASLEEP":
                    raise

    def _part(self, length: int):
        part = _pointer()
        make = _function("tensor", _pointer, _u64, _pointer)
        check(make(self._whole, length * self._row_bytes, ctypes.byref(part)))
        return self._viewed(part, length)

    def _viewed(self, made: ctypes.c_void_p, length: int):
        import torch

        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [_pointer, ctypes.c_char_p, _pointer]
        items = torch.utils.dlpack.from_dlpack(new(made, b"dltensor", None))
        size = length * self._row_bytes
        return items[:size].view(self._dtype).view([length, *self._shape[1:]])

    def _now(self) -> int:
        import torch

        return torch.cuda.current_stream(self._device).cuda_stream

    def _call(self, name: str, *arguments: int) -> None:
        check(_devices.function(name)(self._range, *arguments))


def grow_all(tensors: Sequence[GrowingTensor], count: int | Sequence[int]) -> list:
    """Makes growing tensors of one device longer in one step, and returns their tensors: all of
    them or none, without a change. `count` is for each, or one for each."""
    tensors = list(tensors)
    counts = [count] * len(tensors) if hasattr(count, "__index__") else list(count)
    if len(counts) != len(tensors) or len({id(tensor) for tensor in tensors}) != len(tensors):
        raise ValueError("libmend: grow_all takes each tensor once, and one count or as many")
    if len({tensor._device for tensor in tensors}) > 1:
        raise ValueError("libmend: the tensors of grow_all are on several devices")
    lengths = [
        tensor._checked(len(tensor) + _devices.amount_of("count", more))
        for tensor, more in zip(tensors, counts)
    ]
    longer = [tensor._part(length) for tensor, length in zip(tensors, lengths)]
    _commit(
        [
            (tensor, *tensor._pages(len(tensor), length, is_inside=False))
            for tensor, length in zip(tensors, lengths)
        ]
    )
    for tensor, length, made in zip(tensors, lengths, longer):
        tensor._length, tensor._tensor = length, made
    return longer


def _commit(stretches: list[tuple[GrowingTensor, int, int]]) -> None:
    """Commits pages of tensors of one device in one step: of each from a byte on, so many."""
    stretches = [stretch for stretch in stretches if stretch[2]]
    others = [stretch for stretch in stretches if stretch[0]._now() != stretch[0]._stream]
    part = _structures.structure("mend_range_part")
    parts = (part * len(stretches))(
        *((tensor._range.value, begin, size) for tensor, begin, size in stretches)
    )
    for tensor, begin, size in others:  # where a page sleeps this fails: nothing has changed
        tensor._call("mend_range_record_stream", begin, size, tensor._now())
    if stretches:
        with as_pytorch():
            commit = _devices.function("mend_range_commit_all")
            check(commit(parts, ctypes.sizeof(part), len(parts), stretches[0][0]._now()))
    for tensor, begin, size in others:  # at its end the memory waits for both
        tensor._call("mend_range_record_stream", begin, size, tensor._now())


def _function(name: str, *types: type):
    call = getattr(_library.load("mend_torch"), f"mend_torch_range_{name}")
    call.restype, call.argtypes = _int, types
    return call
