"""Runs a program of PyTorch's and notes what it uses and holds after each operation.

    python -m mend.simulate bench/held/sample.py PROGRAM FILE.csv

FILE.csv gets one line for each operation: bytes in use, bytes held. A program that ends by an
error ends its lines there; the error goes on.
"""
import runpy
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Sampling(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.lines = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        stats = torch.cuda.memory_stats()
        self.lines.append(f"{stats.get('allocated_bytes.all.current', 0)},"
                          f"{stats.get('reserved_bytes.all.current', 0)}\n")
        return result


def main():
    program, path = sys.argv[1:]
    sampling = Sampling()
    try:
        with sampling:
            runpy.run_path(program, run_name="__main__")
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(sampling.lines)


if __name__ == "__main__":
    main()
