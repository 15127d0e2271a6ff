#!/usr/bin/env python3
"""Measures the speed of the calls and prints the tables of bench/results/simulated.md.

    bench/speed_report.py --build build/bench                  measure and print
    bench/speed_report.py --build build/bench --keep           and keep them: in the document, raw
                                                               in bench/results, and the counts
    bench/speed_report.py --from bench/results/DATE-speed.json print what was measured then
    bench/speed_report.py --build build/release --device cuda --only latency,rmm --raw FILE

Sections: pair, threads, million, latency, rmm, counts. Figures are medians of --repetitions runs.
"""
import argparse
import datetime
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import counts  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results")
DOCUMENT = os.path.join(RESULTS, "simulated.md")
BEGIN = "<!-- speed: bench/speed_report.py --keep writes from here -->"
END = "<!-- speed: to here -->"
CONTENDERS = ["mend", "before", "mimalloc", "jemalloc"]
MODELS = ["mend", "caching", "expandable", "rmm-pool", "rmm-arena"]
REAL = ["mend", "cuda-malloc", "cuda-malloc-async"]
RMM_ALLOCATIONS = [1000, 10000, 100000]
RMM_MAX_MIB = [1, 4, 64, 256, 1024, 4096]
RMM_STREAMS = [1, 2, 4]
SECTIONS = ["pair", "threads", "million", "latency", "rmm", "counts"]


# ---- measuring -----------------------------------------------------------------------------------

def run(command, statuses=(0,)):
    print("running", os.path.basename(command[0]), *command[1:3], file=sys.stderr)
    # jemalloc keeps data for each thread, which a running program can load only if it was made for
    # that.
    environment = dict(os.environ, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=16384")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if done.returncode not in statuses:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def fields_of(name):
    """{"others": 1000, ...} of "cached_pair/mend/others:1000/size:512", the parts without a colon
    under their place: "0", "1", ..."""
    fields = {}
    for place, part in enumerate(name.split("/")):
        key, colon, value = part.partition(":")
        fields[key if colon else str(place)] = int(value) if value.isdigit() else value or part
    return fields


def benchmark_rows(build, program, repetitions, *options):
    """The medians of a program of Google Benchmark: a name, its processor time and its counters."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        run([os.path.join(build, "bench", f"mend_bench_{program}"),
             f"--benchmark_repetitions={repetitions}", *options,
             f"--benchmark_out={out}", "--benchmark_out_format=json"])
        with open(out, encoding="utf-8") as file:
            return medians(json.load(file)["benchmarks"])


def medians(rows):
    found = {}
    for row in rows:
        if row.get("error_occurred"):
            sys.exit(f"{row['name']}: {row.get('error_message', 'failed')}")
        if row.get("run_type", "iteration") == "iteration":
            found.setdefault(row["run_name"], []).append(row)
    figures = {"cpu_time", "calls_per_second", "cpu_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns",
               "fill_ns", "churn_ns", "drain_ns", "host_bytes"}
    return [{**fields_of(name),
             **{key: statistics.median(row[key] for row in of_name)
                for key in figures & of_name[0].keys()}} for name, of_name in found.items()]


def mend_program(build):
    return os.path.join(build, "api", "cli", "libmend")


def policies_known(program, device):
    text = run([program, "replay", "--help"])
    wanted = REAL if device == "cuda" else MODELS
    return [name for name in wanted if re.search(rf"\b{name}\b(?!-)", text)]


def replay_rows(program, device, policies, capacity, traces):
    command = [program, "replay", "--json", "--device", device, "--allocator", ",".join(policies),
               "--capacity", capacity, *traces]
    return [json.loads(line) for line in run(command, (0, 1)).splitlines()]


def measure_latency(program, device, policies, traces, repetitions):
    """Each figure is the median of the repetitions. None of a recording that ran out of memory."""
    runs = [replay_rows(program, device, policies, "unlimited", traces)
            for _ in range(repetitions)]
    return latency_medians(runs)


def latency_medians(runs):
    rows = []
    for same in zip(*runs):
        row = {"trace": re.sub(r"(\.csv)?(\.gz)?$", "", os.path.basename(same[0]["trace"])),
               "policy": same[0]["policy"], "device": same[0]["device"]}
        for kind in ("alloc_ns", "free_ns"):
            row[kind] = {key: statistics.median(one[kind][key] for one in same)
                         for key in ("mean", "p50", "p99", "p999", "max")} \
                if all(one["completed"] and one[kind] for one in same) else None
        rows.append(row)
    return rows


def rmm_workloads():
    mixes = [f"stress:rmm-random?allocations={count}&max={size}MiB"
              for count in RMM_ALLOCATIONS for size in RMM_MAX_MIB]
    return mixes + [f"stress:rmm-streams?streams={streams}" for streams in RMM_STREAMS]


def measure_rmm(program, device, policies):
    capacity = "unlimited" if device == "cuda" else "80GiB"
    keys = ["trace", "policy", "device", "completed", "events", "peak_live_bytes",
            "peak_reserved_bytes", "host_syncs", "alloc_ns", "free_ns"]
    return [{key: row[key] for key in keys}
            for row in replay_rows(program, device, policies, capacity, rmm_workloads())]


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.M)
    return {"processor": names[0] if names else "unknown", "cores": len(os.sched_getaffinity(0)),
            "load": round(os.getloadavg()[0], 1)}


def measure_counts(build, is_to_keep):
    """The kept ones, for all compilers. The present ones are compared on standard error."""
    command = [sys.executable, "-B", os.path.join(HERE, "counts.py"), "--build", build]
    print(run(command + (["--keep"] if is_to_keep else []), (0, 1)), file=sys.stderr)
    return counts.read_kept(counts.KEPT)


def measure(options):
    results = {"date": datetime.date.today().isoformat(), "machine": machine(),
               "repetitions": options.repetitions}
    wanted = options.only.split(",") if options.only else SECTIONS
    program = mend_program(options.build)
    if "pair" in wanted:
        results["pair"] = benchmark_rows(options.build, "cached_pair", options.repetitions,
                                         "--benchmark_min_time=0.05")
    for section in ("threads", "million"):
        if section in wanted:
            results[section] = benchmark_rows(options.build, section, options.repetitions)
    if "latency" in wanted or "rmm" in wanted:
        policies = policies_known(program, options.device)
    if "latency" in wanted:
        traces = options.traces or sorted(glob.glob(os.path.join(HERE, "traces", "*.csv.gz")))
        results["latency"] = measure_latency(program, options.device, policies[:3], traces,
                                             options.repetitions)
    if "rmm" in wanted:
        results["rmm"] = measure_rmm(program, options.device, policies)
    if "counts" in wanted:
        results["counts"] = measure_counts(options.build, options.keep)
    return results


# ---- tables --------------------------------------------------------------------------------------

def size_text(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def cell(values, form="{:.0f}"):
    return " / ".join("-" if value is None else form.format(value) for value in values)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def present(rows):
    names = {row["1"] for row in rows}
    return [name for name in CONTENDERS if name in names]


def index(rows, *keys):
    return {tuple(row[key] for key in keys): row for row in rows}


def pair_table(rows):
    names = present(rows)
    found = index(rows, "1", "others", "size")
    others = sorted({row["others"] for row in rows})
    body = [[size_text(size)] + [cell(found[name, count, size]["cpu_time"] for name in names)
                                 for count in others]
            for size in sorted({row["size"] for row in rows})]
    return f"Each cell: {' / '.join(names)}, nanoseconds of processor time for the pair.\n\n" + \
        table(["size"] + [f"{count:,} other blocks" for count in others], body)


def speedup(found, name, scene, count):
    return found[name, scene, count]["calls_per_second"] / \
        found[name, scene, 1]["calls_per_second"]


def threads_table(rows):
    names = present(rows)
    found = index(rows, "1", "2", "threads")
    columns = [("calls_per_second", 1e-6, "{:.1f}"), ("speedup", 1, "{:.2f}"),
               ("cpu_ns", 1, "{:.0f}"),
               ("p50_ns", 1, "{:.0f}"), ("p99_ns", 1, "{:.0f}"), ("p999_ns", 1e-3, "{:.1f}"),
               ("max_ns", 1e-6, "{:.1f}")]
    body = []
    for scene in dict.fromkeys(row["2"] for row in rows):
        for count in sorted({row["threads"] for row in rows}):
            same = [{**found[name, scene, count], "speedup": speedup(found, name, scene, count)}
                    for name in names]
            body.append([scene, str(count)] + [cell((row[key] * scale for row in same), form)
                                               for key, scale, form in columns])
    return f"Each cell: {' / '.join(names)}.\n\n" + table(
        ["work", "threads", "million calls a second", "times one thread's", "processor ns a call",
         "p50 ns", "p99 ns", "p99.9 us", "max ms"], body)


def million_table(rows):
    body = [[row["1"]] + [f"{row[key]:.0f}" for key in ("fill_ns", "churn_ns", "drain_ns")] +
            ([f"{row['host_bytes']:.0f}"] if row["1"] in ("mend", "before") else ["not measured"])
            for row in rows]
    return table(["", "ns an allocation, filling", "ns a free and an allocation, at a million",
                  "ns a free, draining", "host bytes a block"], body)


def latency_table(rows):
    names = list(dict.fromkeys(row["policy"] for row in rows))
    found = index(rows, "trace", "policy")
    body = []
    for trace in dict.fromkeys(row["trace"] for row in rows):
        for kind in ("alloc_ns", "free_ns"):
            same = [found[trace, name][kind] for name in names]
            body.append([trace, kind.removesuffix("_ns")] + [
                cell((figures and figures[key] * scale for figures in same), form)
                for key, scale, form in (("p50", 1, "{:.0f}"), ("p99", 1, "{:.0f}"),
                                         ("p999", 1e-3, "{:.1f}"), ("max", 1e-3, "{:.0f}"))])
    return f"Each cell: {' / '.join(names)}.\n\n" + table(
        ["recording", "call", "p50 ns", "p99 ns", "p99.9 us", "max us"], body)


def rmm_name(trace):
    parameters = dict(part.split("=") for part in trace.split("?")[1].split("&"))
    if "streams" in parameters:
        return f"multi-stream, {parameters['streams']} streams"
    largest = size_text(int(parameters["max"].removesuffix("MiB")) << 20)
    return f"random, {int(parameters['allocations']):,} of up to {largest}"


def host_ms(row):
    """Of the whole run: half of the events allocate, half free."""
    return (row["alloc_ns"]["mean"] + row["free_ns"]["mean"]) * row["events"] / 2 / 1e6


def rmm_table(rows):
    names = list(dict.fromkeys(row["policy"] for row in rows))
    found = index(rows, "trace", "policy")
    body = []
    for trace in dict.fromkeys(row["trace"] for row in rows):
        same = [found[trace, name] for name in names]
        done = [row if row["completed"] else None for row in same]
        body.append([rmm_name(trace)] + [
            cell((None if row is None else value(row) for row in done), form)
            for value, form in ((host_ms, "{:.1f}"),
                                (lambda row: row["peak_reserved_bytes"] / (1 << 30), "{:.1f}"))])
    return f"Each cell: {' / '.join(names)}.\n\n" + table(
        ["benchmark", "host ms a run", "GiB reserved"], body)


TABLES = {"pair": ("Cached pairs", pair_table), "threads": ("Threads", threads_table),
          "million": ("A million live blocks", million_table),
          "latency": ("Single calls under replay", latency_table),
          "rmm": ("RMM's benchmarks", rmm_table)}


def report(results):
    at = results["machine"]
    parts = [f"Measured {results['date']} on {at['cores']} cores of {at['processor']}, load "
             f"{at['load']} at the start; medians of {results['repetitions']} runs.\n"]
    for section, (title, make) in TABLES.items():
        if section in results:
            again = results.get("again", {}).get(section)
            dated = f"Measured again {again}.\n\n" if again else ""
            parts.append(f"### {title}\n\n{dated}{make(results[section])}")
    return "\n".join(parts)


def with_kept(results):
    """The last kept ones, with the sections that were measured now in place of its own."""
    kept = sorted(glob.glob(os.path.join(RESULTS, "*-speed.json")))
    if not kept:
        return results
    with open(kept[-1], encoding="utf-8") as file:
        before = json.load(file)
    measured = {section: results[section] for section in SECTIONS if section in results}
    at = f"{results['date']}, load {results['machine']['load']}"
    again = {**before.get("again", {}), **dict.fromkeys(measured, at)}
    return {**before, **measured, "again": again, "kept_as": os.path.basename(kept[-1])}


def put_between_marks(text, document):
    before, rest = document.split(BEGIN)
    behind = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{text}\n{END}{behind}"


def write_raw(results, path):
    """A line for each row, so that two runs can be compared line by line."""
    with open(path, "w", encoding="utf-8") as file:
        text = json.dumps(results)
        file.write(re.sub(r"(\[|\}, )(?=\{)", r"\1\n", text) + "\n")


def write_document(results):
    with open(DOCUMENT, encoding="utf-8") as file:
        document = put_between_marks(report(results), file.read())
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write(document)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--build", help="the folder of an optimised build")
    source.add_argument("--from", dest="source", help="results kept before")
    parser.add_argument("--keep", action="store_true",
                        help="keep figures, document and counts; with --only beside the others")
    parser.add_argument("--raw", help="write the raw figures to this file")
    parser.add_argument("--only", help="sections, separated by commas")
    parser.add_argument("--device", choices=["sim", "cuda"], default="sim")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("traces", nargs="*", help="recordings for the latencies; else the bundled")
    options = parser.parse_args()
    if options.source:
        with open(options.source, encoding="utf-8") as file:
            results = json.load(file)
    else:
        results = measure(options)
        if options.only and options.keep:
            results = with_kept(results)
    print(report(results))
    if options.keep:
        os.makedirs(RESULTS, exist_ok=True)
        name = results.pop("kept_as", f"{results['date']}-speed.json")
        write_raw(results, os.path.join(RESULTS, name))
        write_document(results)
    if options.raw:
        write_raw(results, options.raw)


if __name__ == "__main__":
    main()
