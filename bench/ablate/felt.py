"""Delays that a program feels, by `libmend replay`. Each number is the median of five capacities
within half a percent, because single ones differ by more than policies do. There are several lags,
because programs run ahead of the GPU by more than 64 rows."""
import statistics

CAPACITIES = (1.4, 1.2, 1.1, 1.05, 1.02)
BESIDE = (-0.005, -0.0025, 0, 0.0025, 0.005)
LAGS = (0, 64, 1000, 5000)
HEADS = ("which", "lag", "capacity", "complete", "host waits", "driver ms", "longest, ms", "> 5 ms",
         "p99.9, ms", "added, GPU-bound, %", "added, host-bound, %")


def median_of(rows):
    """One workload near one capacity: how many complete, and medians of these. None if none does.
    """
    done = [row for row in rows if row["completed"]]
    figures = {name: statistics.median(row["felt"][name] for row in done)
               for name in (done[0]["felt"] if done else ())}
    return len(done), {**figures, "waits": statistics.median(row["host_syncs"] for row in done),
                       "us": statistics.median(row["driver_time_by_list_us"]["h200"]
                                               for row in done)} if done else None


def cells(medians):
    """Over all workloads: sums, the longest request, the worst p99.9, and means of added time."""
    known = [figures for _, figures in medians if figures]
    if not known:
        return ["0", *["-"] * 7]
    mean = {name: statistics.mean(figures[name] for figures in known)
            for name in ("gpu_bound_percent", "host_bound_percent")}
    return [f"{sum(count for count, _ in medians)} of {len(BESIDE) * len(medians)}",
            f"{sum(figures['waits'] for figures in known):.0f}",
            f"{sum(figures['us'] for figures in known) / 1000:.0f}",
            f"{max(figures['longest_us'] for figures in known) / 1000:.1f}",
            f"{sum(figures['above_5_ms'] for figures in known):.0f}",
            f"{max(figures['p999_us'] for figures in known) / 1000:.2f}",
            f"{mean['gpu_bound_percent']:.1f}", f"{mean['host_bound_percent']:.1f}"]


def table(replay, each, names):
    """In Markdown. replay(what, without, capacities, lag, policy) gives the rows of one workload.
    each(function, items) maps. `names` are policies, or mechanisms without which Mend runs."""
    capacities = [f"{capacity + beside:.4f}x" for capacity in CAPACITIES for beside in BESIDE]
    lines = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    for title, without, policy in names:
        for lag in LAGS:
            rows = each(lambda what, lag=lag, without=without, policy=policy:
                        replay(what, without, capacities, lag, policy))
            for at, capacity in enumerate(CAPACITIES):
                near = slice(at * len(BESIDE), (at + 1) * len(BESIDE))
                medians = [median_of(of_one[near]) for of_one in rows]
                row = [title, f"{lag:,}", f"{capacity}x", *cells(medians)]
                lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)
