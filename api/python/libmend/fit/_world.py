"""One rank of several, without the others: torch.distributed gets PyTorch's fake process group,
whose collectives move nothing. Queries to all ranks get results as if they were like this one."""

from __future__ import annotations

import os
import sys

import torch
from torch.distributed import distributed_c10d as c10d

from ._runs import RANKS_OF_NODE


def enter(size: int) -> None:
    """Makes this process rank 0 of so many, as torchrun would start it."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    ranks_here = min(size, RANKS_OF_NODE)
    os.environ.update(
        RANK="0", WORLD_SIZE=str(size), LOCAL_RANK="0", LOCAL_WORLD_SIZE=str(ranks_here),
        GROUP_RANK="0", MASTER_ADDR="localhost", MASTER_PORT="29500", TORCHELASTIC_RUN_ID="fit",
    )  # fmt: skip
    make_group, make_default = c10d._new_process_group_helper, c10d.init_process_group

    def fake_group(group_size, group_rank, ranks, _backend, _store, name, *more, **named):
        named = {key: value for key, value in named.items() if key in ("timeout", "pg_tag")}
        return make_group(group_size, group_rank, ranks, "fake", FakeStore(), name, **named)

    def fake_default(*_, **named):
        rank, count = named.get("rank", -1), named.get("world_size", -1)
        make_default(
            "fake",
            store=FakeStore(),
            rank=rank if rank >= 0 else 0,
            world_size=count if count > 0 else size,
        )

    _replace("_new_process_group_helper", fake_group)
    _replace("init_process_group", fake_default)
    _replace("broadcast_object_list", lambda objects, *_, **__: None)
    _replace("all_gather_object", _all_gather_object)
    _replace("gather_object", _gather_object)
    _replace("scatter_object_list", _scatter_object_list)
    _have_reducer()


def _replace(name: str, function) -> None:
    """In each module that has it by now, as device meshes and other packages have."""
    replaced = getattr(c10d, name)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is replaced:
            setattr(module, name, function)


def _all_gather_object(objects: list, mine: object, *_, **__) -> None:
    objects[:] = [mine] * len(objects)


def _gather_object(mine: object, objects: list | None = None, *_, **__) -> None:
    if objects is not None:
        _all_gather_object(objects, mine)


def _scatter_object_list(mine: list, objects: list | None = None, *_, **__) -> None:
    if objects:
        mine[0] = objects[0]


def _have_reducer() -> None:
    """DistributedDataParallel asks each reduction for its result, which the fake group's has not
    in every version: it is the bucket."""
    from torch.nn.parallel import DistributedDataParallel as Parallel

    make, register = Parallel.__init__, Parallel.register_comm_hook

    def reduced(_state, bucket):
        future = torch.futures.Future(devices=[bucket.buffer().device])
        future.set_result(bucket.buffer())
        return future

    def made(self, *arguments, **named):
        make(self, *arguments, **named)
        register(self, None, reduced)

    Parallel.__init__ = made
    Parallel.register_comm_hook = lambda self, _state, _hook: None
