#!/usr/bin/env python3
"""Writes a recording so that gzip packs it well: a tenth to a half of the usual size.

    python3 bench/recorder/packing.py big.csv.gz -o bench/traces/small.csv.gz

A block's number is the lowest that no live block has, `Time` and the size of a free are 0: none of
them means anything to a replay. Order, sizes and streams stay.
"""
import argparse
import gzip
import heapq
import zlib

COLUMNS = "Thread,Time,Action,Pointer,Size,Stream"


def packed_rows(events):
    """The rows of events (is_allocation, name of the block, bytes, stream)."""
    free, most, numbers = [], 0, {}
    for is_allocation, name, size, stream in events:
        if is_allocation:
            number = heapq.heappop(free) if free else most
            most = max(most, number + 1)
            numbers[name] = number
            yield f"0,0,allocate,{number},{size},{stream}\n"
        else:
            number = numbers.pop(name)
            heapq.heappush(free, number)
            yield f"0,0,free,{number},0,{stream}\n"


def write(path, events):
    rows = [COLUMNS + "\n", *packed_rows(events)]
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9)  # 31: gzip, without a name or a time
    data = packer.compress("".join(rows).encode()) + packer.flush()
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with gzip.open(path) as file:
        first, *lines = file.read().decode().splitlines()
    if first != COLUMNS:
        raise SystemExit(f"{path}: its columns are not {COLUMNS}")
    for line in lines:
        _, _, action, pointer, size, stream = line.split(",")
        yield action == "allocate", pointer, int(size), stream


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", metavar="FILE.csv.gz")
    parser.add_argument("-o", "--output", metavar="FILE.csv.gz", required=True)
    arguments = parser.parse_args()
    write(arguments.output, list(read(arguments.recording)))


if __name__ == "__main__":
    main()
