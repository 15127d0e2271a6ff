"""The tables of bench/ablate/ablate.py, and its place in a document."""
import math
import re

FIT = -1  # the last row of a workload; the first is that of the most memory


def mean_of_logs(ratios):
    ratios = [ratio for ratio in ratios if ratio > 0]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def mean_of_times(pairs, time_of):
    """Driver time without the mechanism over that with it, of the runs that cost something."""
    return mean_of_logs([time_of(off) / time_of(on) for on, off in pairs if time_of(on) > 0])


class Effect:
    """The loss without a mechanism, over all workloads."""

    def __init__(self, known, names, without):
        runs = [(name, known[name, ""], known[name, without]) for name in names]
        self.fits = {name: off[FIT]["fit_factor"] - on[FIT]["fit_factor"] for name, on, off in runs
                     if on[FIT]["fit_factor"] and off[FIT]["fit_factor"]}
        by_capacity = [[(on[at], off[at]) for _, on, off in runs]
                       for at in range(len(runs[0][1]) - 1)]
        both = [[(on, off) for on, off in pairs if on["completed"] and off["completed"]]
                for pairs in by_capacity]
        self.failures = sum(on["completed"] - off["completed"]
                            for pairs in by_capacity for on, off in pairs)
        self.reserved = mean_of_logs([off["peak_reserved_bytes"] / on["peak_reserved_bytes"]
                                      for on, off in by_capacity[0]])
        self.syncs = sum(off["host_syncs"] - on["host_syncs"]
                         for pairs in both for on, off in pairs)
        self.times = []  # by capacity: of whole runs by each price list, and of second halves
        for pairs in both:
            lists = pairs[0][0]["driver_time_by_list_us"] if pairs else []
            whole = [mean_of_times(pairs, lambda row, of=of: row["driver_time_by_list_us"][of])
                     for of in lists]
            later = mean_of_times(pairs, lambda row: row["driver_time_second_half_us"])
            self.times.append((whole or [1.0], later))

    def extreme(self, pick, sign):
        """The workload whose fit changes most in one direction."""
        name = pick(self.fits, key=self.fits.get, default=None)
        if name is None or sign * self.fits[name] <= 0:
            return "0" if self.fits else "-"
        return f"{self.fits[name]:+.3f} {re.sub('^stress:', '', name)}"


def percent(ratio):
    return f"{100 * (ratio - 1):+.0f}" if abs(ratio - 1) >= 0.005 else "0"


def times(whole, later):
    ends = dict.fromkeys(percent(end(whole)) for end in (min, max))
    return f"{' to '.join(ends)}; {percent(later)}"


def table(known, names, rows, capacities):
    """In Markdown, the largest costs first."""
    effects = {without: Effect(known, names, without) for without in rows}
    heads = ["without", "fit, mean", "most lost", "most gained", "out of memory", "reserved",
             *capacities, "host waits"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for without in sorted(rows, key=lambda row: -sum(effects[row].fits.values())):
        effect = effects[without]
        cells = [without.replace("policy.", "").replace(",", ", "),
                 f"{sum(effect.fits.values()) / max(len(effect.fits), 1):+.4f}",
                 effect.extreme(max, 1), effect.extreme(min, -1), f"{effect.failures:+d}",
                 percent(effect.reserved), *(times(*pair) for pair in effect.times),
                 f"{effect.syncs:+d}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tables(known, names, rows, capacities):
    """One for recordings, one for generated workloads: a mean of both hides the losses of
    either."""
    generated = [name for name in names if name.startswith("stress:")]
    kinds = (("recording", [name for name in names if name not in generated]),
             ("generated workload", generated))
    return "\n\n".join(f"{len(group)} {kind}{'s' if len(group) > 1 else ''}:\n\n"
                       f"{table(known, group, rows, capacities)}" for kind, group in kinds if group)


def keep(path, half, text):
    """Puts the tables between the marks of the half in the document."""
    name = half or "all"
    begin, end = f"<!-- {name}: made by ./run ablate -->", f"<!-- end of {name} -->"
    with open(path, encoding="utf-8") as file:
        document = file.read()
    if begin not in document or end not in document:
        raise SystemExit(f"{path}: without the marks of {name}")
    head, rest = document.split(begin, 1)
    tail = rest.split(end, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{begin}\n{text}\n{end}{tail}")
