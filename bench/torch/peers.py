#!/usr/bin/env python3
"""Other tools' estimates for a program, without a GPU. PyTorch's MemTracker runs two steps over
tensors without memory. Rules by the number of parameters are accelerate's estimate-memory
(parameters, gradients and two states of Adam) and DeepSpeed's (18 bytes a parameter). One line of
JSON. `./run fit-accuracy` runs it over the simulated GPU.

    bench/torch/peers.py language-model 4
"""

from __future__ import annotations

import json
import random
import sys

import torch
import workloads
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

STEPS = 2
INFERENCE = ("serving",)


class Place:
    """As harness.Place, on the GPU."""

    is_dry = False
    torch = torch
    device = torch.device("cuda")

    def autocast(self):
        return torch.autocast("cuda", torch.bfloat16)

    def seed(self, seed: int) -> random.Random:
        torch.manual_seed(seed)
        return random.Random(seed)

    def synchronize(self) -> None:
        pass


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    models: list[torch.nn.Module] = []
    register = torch.nn.Module.to

    def to(self, *arguments, **named):
        models.append(self)
        return register(self, *arguments, **named)

    torch.nn.Module.to = to
    place, said = Place(), {"workload": name, "size": size}
    with FakeTensorMode(allow_non_fake_inputs=True):
        tracker = MemTracker()
        try:
            with tracker:
                step = workloads.load(name).prepare(place, size, place.seed(7))
                for index in range(STEPS):
                    step(index)
                    tracker.reset_mod_stats()
            peak = tracker.get_tracker_snapshot("peak")
            said["MemTracker"] = sum(int(p["Total"]) for d, p in peak.items() if d.type == "cuda")
        except Exception as error:
            said["MemTracker_failed"] = str(error).splitlines()[0][:200]
    parameters = [one for model in models[-1:] for one in model.parameters()]
    if parameters:
        held = sum(one.numel() * one.element_size() for one in parameters)
        is_training = name not in INFERENCE
        said["accelerate's rule"] = held * 4 if is_training else held
        if is_training:
            said["DeepSpeed's rule"] = 18 * sum(one.numel() for one in parameters)
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
