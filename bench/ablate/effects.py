"""The tables of bench/ablate/ablate.py, and its place in a document."""
import math
import re

UNLIMITED, ROOMY, NEAR, TIGHT, FIT = range(5)  # of the capacities of ablate.py


def mean_of_logs(ratios):
    ratios = [ratio for ratio in ratios if ratio > 0]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def later_calls(row):
    return sum(row["driver_calls_second_half"].values())


class Effect:
    """What is lost without a mechanism, over all workloads."""

    def __init__(self, known, names, without):
        pairs = [(name, known[name, ""], known[name, without]) for name in names]
        self.fits = {name: off[FIT]["fit_factor"] - on[FIT]["fit_factor"] for name, on, off in pairs
                     if on[FIT]["fit_factor"] and off[FIT]["fit_factor"]}
        self.failures = sum(on[at]["completed"] - off[at]["completed"]
                            for _, on, off in pairs for at in range(FIT))
        self.times = {}
        for at in range(FIT):
            both = [(on[at]["driver_time_by_list_us"], off[at]["driver_time_by_list_us"])
                    for _, on, off in pairs if on[at]["completed"] and off[at]["completed"]]
            lists = both[0][0] if both else ["none"]
            self.times[at] = [mean_of_logs([off[prices] / on[prices] for on, off in both
                                            if on[prices] > 0]) for prices in lists]
        self.reserved = mean_of_logs([off[UNLIMITED]["peak_reserved_bytes"] /
                                      on[UNLIMITED]["peak_reserved_bytes"] for _, on, off in pairs])
        self.calls = sum(later_calls(off[UNLIMITED]) - later_calls(on[UNLIMITED])
                         for _, on, off in pairs)
        self.syncs = sum(off[at]["host_syncs"] - on[at]["host_syncs"]
                         for _, on, off in pairs for at in range(FIT)
                         if on[at]["completed"] and off[at]["completed"])

    def worst(self):
        if not self.fits:
            return "-"
        name = max(self.fits, key=self.fits.get)
        return f"{self.fits[name]:+.3f} {short(name)}" if self.fits[name] > 0 else "0"

    def best(self):
        if not self.fits:
            return "-"
        name = min(self.fits, key=self.fits.get)
        return f"{self.fits[name]:+.3f} {short(name)}" if self.fits[name] < 0 else "0"


def short(name):
    return re.sub(r"^stress:", "", name)


def percent(ratio):
    return f"{100 * (ratio - 1):+.0f} %" if abs(ratio - 1) >= 0.005 else "0"


def times(effect, at):
    ends = (percent(end(effect.times[at])) for end in (min, max))
    return ", ".join(dict.fromkeys(ends))


def table(known, names, rows):
    """In Markdown, what costs most first."""
    effects = {without: Effect(known, names, without) for without in rows}
    lines = ["| without | fit, mean | most lost | most gained | out of memory | reserved | "
             "unlimited | 80 GiB | 1.05x | 1.02x | later calls | host waits |",
             "|" + "---|" * 12]
    for without in sorted(rows, key=lambda row: -sum(effects[row].fits.values())):
        effect = effects[without]
        count = max(len(effect.fits), 1)
        lines.append(
            f"| {without.replace('policy.', '').replace(',', ', ')} "
            f"| {sum(effect.fits.values()) / count:+.4f} | {effect.worst()} | {effect.best()} "
            f"| {effect.failures:+d} | {percent(effect.reserved)} | {times(effect, UNLIMITED)} "
            f"| {times(effect, ROOMY)} | {times(effect, NEAR)} | {times(effect, TIGHT)} "
            f"| {effect.calls:+d} | {effect.syncs:+d} |")
    return "\n".join(lines)


def tables(known, names, rows):
    """One for recordings, one for generated workloads: a mean of both hides what either loses."""
    generated = [name for name in names if name.startswith("stress:")]
    kinds = (("recording", [name for name in names if name not in generated]),
             ("generated workload", generated))
    return "\n\n".join(f"{len(group)} {kind}{'s' if len(group) > 1 else ''}:\n\n"
                       f"{table(known, group, rows)}" for kind, group in kinds if group)


def keep(path, half, text, does):
    """Puts the tables and what the mechanisms do between the marks of the half in the document."""
    name = half or "all"
    begin, end = f"<!-- {name}: made by ./run ablate -->", f"<!-- end of {name} -->"
    with open(path, encoding="utf-8") as file:
        document = file.read()
    if begin not in document or end not in document:
        raise SystemExit(f"{path}: without the marks of {name}")
    head, rest = document.split(begin, 1)
    tail = rest.split(end, 1)[1]
    lines = [f"- `{mechanism.split('.', 1)[1]}`: {what}." for mechanism, what in does.items()]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{begin}\n{text}\n\n" +
                   "\n".join(lines) + f"\n{end}{tail}")
