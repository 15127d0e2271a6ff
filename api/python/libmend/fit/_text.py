"""The answer of `libmend fit` on one screen."""

from __future__ import annotations

from . import _answer, _cards
from ._answer import gib
from ._runs import ALL, ALLOCATORS

COMPARED = "2.8."  # of PyTorch: docs/fit.md#accuracy
MOST_OWNERS = 6
NO_STACK, NO_LINE = "no stack", "no line of Python: gradients, or a workspace of cuBLAS"
MOST_READS = 3
LIMITS = "docs/fit.md#limits"
_LIBRARIES = ("cufft", "cusolver", "cusparse", "nccl")


def failure(row) -> str:
    """The end of a run that failed, after "the program"."""
    ended = row.ended if hasattr(row, "ended") else row
    if ended == "out of memory":
        return "runs out of memory on a device of 1 TiB"
    if ended.startswith("exit "):
        return f"ended with status {ended[5:]}"
    hint = ""
    if any(name in ended.lower() for name in _LIBRARIES):
        hint = f"\nThat library does not run without a GPU yet: {LIMITS}"
    return ended + hint


def _cells(label: str, cells: list[str]) -> str:
    return f"  {label:<28}" + "".join(f"{cell:>22}" for cell in cells)


def _reads(reads: list) -> str:
    shown = [f"{line} ({count}x)" for line, count in reads[:MOST_READS]]
    more = len(reads) - len(shown)
    return ", ".join(shown) + (f" and {more} more lines" if more > 0 else "")


def wrong_values(row) -> str:
    """Why a run may have failed that computed nothing, in lines for people, or ""."""
    is_library = any(name in row.ended.lower() for name in _LIBRARIES)
    if not row.whole_reads or not row.ended.startswith("failed") or is_library:
        return ""
    return (
        f"It may be because of values that only a GPU computes. They are 0 here, at"
        f" {_reads(row.whole_reads)}.\nGive one: --value FILE:LINE=VALUE\n"
    )


def _apart(*sizes: int) -> list[str]:
    """Sizes that differ, in the largest unit that shows it."""
    units = (gib, lambda size: f"{size / _cards.MIB:,.2f} MiB", lambda size: f"{size:,} bytes")
    return next(words for unit in units if len(set(words := [unit(size) for size in sizes])) > 1)


def _ends(values: dict) -> list[str]:
    """The memory at the two ends of values."""
    sizes = [values["with_zeros_bytes"], values["with_ones_bytes"]]
    if sizes[1] is None:
        zeros, ones = gib(sizes[0]), f"it {failure(values['with_ones_ended'])}"
        ones += f", at {values['with_ones_line']}" if values["with_ones_line"] else ""
    else:
        zeros, ones = _apart(*sizes)
    is_all = values["other_end"]["value"] == ALL
    other = "all elements of each mask are kept" if is_all else "they are 1 or spread evenly"
    lines = [
        f"It {values['verb']} {zeros} where they are 0, and where {other}:"
        f" {ones}. They are read at",
        f"  {_reads(values['reads'])}",
    ]
    if is_all:
        most = [f"{line} (of {count:,})" for line, count in values["counts"][:MOST_READS]]
        lines += ["The largest masks are kept at", f"  {', '.join(most)}"]
    return lines


def _unknown(answer: dict) -> list[str]:
    """The reason why the results are no answer, which comes first."""
    lines = []
    values, row = answer["values"], answer["row"]
    if not values["is_known"]:
        lines += [
            "NOT KNOWN: the memory depends on values that only a GPU computes.",
            *_ends(values),
            "Give the value: --value FILE:LINE=balanced for a choice of experts, a fraction"
            " of a mask, or a number.",
        ]
    if row["ended"] == "time":
        lines.append(
            f"NOT THE END: a run was stopped after {row['seconds']:.0f} s (--seconds), at step"
            f" {row['steps']}. It may need more later."
        )
    return lines


def has_run_out(answer: dict) -> bool:
    """Of the random orders, at least one with the first allocator."""
    found = (answer.get("orders") or {"ran_out": {}})["ran_out"].values()
    return any(next(iter(counts.values()))[0] for counts in found)


def _orders(orders: dict) -> str:
    """How many of the random orders run out of memory."""
    parts = []
    for label, counts in orders["ran_out"].items():
        where = f" on {label}" if len(orders["ran_out"]) > 1 else ""
        for name, (out, of) in counts.items():
            parts.append(f"{out} of {of} with {ALLOCATORS[name]}{where}")
    return (
        f"Steps differ in their requests. Random orders of {orders['steps']:,} of them that run"
        f" out of memory: {', '.join(parts)}."
    )


def _assumed(answer: dict) -> list[str]:
    """The assumptions of an answer that were not computed, which come first, too."""
    lines = []
    values, row = answer["values"], answer["row"]
    if answer["world_size"] > 1:
        lines.append(
            "NOT KNOWN: the memory of NCCL on each GPU. It is not in these figures, which"
            f" are of rank 0 of {answer['world_size']}."
        )
    for line, value in row["given"].items():
        what = value if isinstance(value, str) else f"{value:g}"
        why = "the program fails otherwise" if line in answer["turned"] else "--value"
        lines.append(f"ASSUMED: {line} reads {what} ({why}).")
    if values["depends"] and values["is_known"]:
        lines += [
            "ASSUMED: the memory depends on masks and choices, which only a GPU computes, and lies"
            " between their two ends.",
            *_ends(values),
            "A verdict leaves room for that difference beyond both. --value FILE:LINE=VALUE narrows"
            " it: a number, or a fraction of a mask.",
        ]
    elif row["whole_reads"] and values["is_known"]:
        lines.append(
            "ASSUMED: memory does not depend on whole numbers and conditions that only a GPU"
            f" computes. It is the same with 0 as with 1 or spread values at"
            f" {_reads(row['whole_reads'])}."
        )
    if has_run_out(answer):
        lines.append("NOT SURE IN ANY ORDER: " + _orders(answer["orders"]))
    if answer["plans"]:
        lines.append(
            f"It asks how much memory there is, at {row['asks_free']}, and may plan by that: it was"
            " run on each GPU by itself."
        )
    return lines


def _ending(row: dict) -> str:
    steps = f"{row['steps']} steps of the optimizer" if row["steps"] else "no optimizer"
    if row["ended"] == "peaks repeat":
        return f"{steps}, peaks repeat since step {row['grew_at_step']}"
    return f"{steps}, to its end" if row["ended"] == "end" else steps


def _tail(answer: dict) -> list[str]:
    lines, values, row = [], answer["values"], answer["row"]
    count = sum(count for _, count in values["reads"])
    if count and not values["depends"] and not row["whole_reads"]:
        lines.append(
            f"It reads {count} value{'s' if count > 1 else ''} that only a GPU computes, at"
            f" {_reads(values['reads'])}: memory is the same with 0 and 1 in their place."
        )
    if row["asks_free"] and not answer["plans"]:
        lines.append(
            f"It asks how much memory there is, at {row['asks_free']}. It takes the same with less."
        )
    if (answer["cold_bytes"] or 0) > row["reserved_bytes"]:
        lines.append(
            f"torch.compile's first run measures kernels, and held {gib(answer['cold_bytes'])}."
        )
    for card, what in answer.get("elsewhere", {}).items():
        lines.append(f"On a {card} the program {what}.")
    if answer.get("orders"):
        lines += [] if has_run_out(answer) else [_orders(answer["orders"])]
    elif row["steps_differ"]:
        lines.append(
            f"Steps differ in their requests: {row['steps']} were run, and a later one may need"
            " more (--steps N runs more)."
        )
    if row["streams"] > 1:
        lines.append(
            f"{row['streams']} streams have memory, so it depends on time: kernels took 1 us, 20 us"
            " and 1 ms."
        )
    if row["unknown"]:
        lines.append(
            f"Not known without a GPU: the workspaces of {' and of '.join(row['unknown'])}. Figures"
            " go from none to a copy of what they work on."
        )
    if not answer["torch"].startswith(COMPARED):
        lines.append(
            f"PyTorch {COMPARED[:-1]} was compared with GPUs, yours was not: docs/fit.md#accuracy."
        )
    lines.append(f"{len(answer['runs'])} runs, {answer['seconds']} s.")
    return lines


def _head(answer: dict) -> str:
    major, minor = answer["capability"]
    return (
        f"{answer['program']}: PyTorch {answer['torch']} over a simulated GPU of compute capability"
        f" {major}.{minor}; {_ending(answer['row'])}."
    )


def _verdict_words(verdict: dict, answer: dict) -> str:
    left = verdict["left_bytes"]
    if verdict["what"] != _answer.FITS:
        return verdict["what"]
    if answer["world_size"] > 1:
        return f"fits if NCCL takes at most {gib(left or 0)}"
    if left is None:
        return "fits"
    return f"fits, {gib(left)} left" if left else "fits, at its limit"


def _first(answer: dict) -> list[str]:
    """The answer in a sentence, of the first allocator."""
    name, column = next(iter(answer["columns"].items()))
    who = ALLOCATORS[name]
    lines = []
    for target in answer["targets"]:
        verdict = target["verdicts"][name]
        lines.append(f"{target['label']}: {_verdict_words(verdict, answer)}, with {who}.")
        if verdict["line"]:
            lines.append(
                f"  It fails in step {verdict['step']} at {verdict['line']}, which asks for"
                f" {verdict['size_bytes'] / _cards.MIB:,.0f} MiB."
            )
    if not answer["targets"]:
        card = column["smallest_card"]
        beside = " without that" if answer["world_size"] > 1 else ""
        enough = (
            f"the smallest card of the list that is surely enough{beside} is {card}"
            f" ({gib(_cards.find(card).total_bytes)})"
            if card
            else "no card of the list is surely enough"
        )
        if "need" in column:
            need = _span(column["need"])
            nccl = " and the memory of NCCL" if beside else ""
            lines.append(f"It needs {need} of a GPU{nccl}, with {who}; {enough}.")
        else:
            lines.append(f"With {who} {enough}.")
    if answer["fail_above_bytes"] and "need" in column:
        most = column["need"]["most_bytes"]
        verb = "may need" if most > answer["fail_above_bytes"] else "needs at most"
        lines.append(f"--fail-above {gib(answer['fail_above_bytes'])}: it {verb} {gib(most)}.")
    return lines


def _later(row: dict) -> list[str]:
    """The gaps of the answer if the program was ended, beside the answer."""
    if row["ended"] not in ("peaks repeat", "steps"):
        return []
    return [
        f"That is of {row['steps']} steps. An evaluation or a checkpoint after them may need more:"
        " --steps all runs to the end."
    ]


def _span(need: dict) -> str:
    return str(_answer.Need(**need))


def _range(column: dict, what: str) -> str:
    least, most = column[f"{what}_least_bytes"], column[f"{what}_bytes"]
    return gib(most) if gib(least) == gib(most) else str(_answer.Need(least, most))


def _table(answer: dict) -> list[str]:
    columns = answer["columns"].values()
    is_known = answer["values"]["is_known"]
    lines = [_cells("", [ALLOCATORS[name] for name in answer["columns"]])]

    def add(label: str, cell) -> None:
        lines.append(_cells(label, [cell(column) for column in columns]))

    add("most in use", lambda column: _range(column, "allocated"))
    add("held", lambda column: _range(column, "reserved"))
    add("lost to fragmentation", lambda column: gib(column["lost_bytes"]))
    if is_known and not answer["plans"]:
        add("least that is enough", lambda column: gib(column["least_bytes"]))
        add("with context and libraries", lambda column: _span(column["need"]))
    for target in answer["targets"]:
        cells = []
        for name in answer["columns"]:
            verdict = target["verdicts"][name]
            words = _verdict_words(verdict, answer)
            if answer["world_size"] > 1 and verdict["what"] == _answer.FITS:
                words = f"{gib(verdict['left_bytes'] or 0)} for NCCL"
            cells.append(words)
        lines.append(_cells(target["label"], cells))
    if is_known and not answer["targets"] and not answer["plans"]:
        add("smallest card", lambda column: column["smallest_card"] or "none")
    for name, why in answer["failed"].items():
        lines.append(f"  {ALLOCATORS[name]}: not known: {why.splitlines()[0]}")
    return lines


def _size(size: int) -> str:
    return gib(size) if size >= _cards.GIB // 10 else f"{size / _cards.MIB:.0f} MiB"


def _owners(answer: dict) -> list[str]:
    peak = answer["peak_bytes"]
    if not peak:
        return []
    lines = ["", "Owners of the peak"]
    owners = [owner for owner in answer["owners"] if owner["bytes"] >= _cards.MIB]
    for owner in owners[:MOST_OWNERS]:
        line = owner["line"]
        line = NO_LINE if line == NO_STACK else line
        lines.append(f"  {_size(owner['bytes']):>10} {owner['bytes'] / peak:>4.0%}  {line}")
    shown = sum(owner["bytes"] for owner in owners[:MOST_OWNERS])
    rest = sum(owner["bytes"] for owner in answer["owners"]) - shown
    if rest >= _cards.MIB:
        lines.append(f"  {_size(rest):>10} {rest / peak:>4.0%}  others")
    return lines


def _largest(answer: dict) -> list[str]:
    low, high, _ = answer["span"]
    names = list(answer["targets"][0]["largest"])
    lines = [
        f"The largest {answer['knob']} of {low} to {high} that fits:",
        _cells("", [ALLOCATORS[name] for name in names]),
    ]
    for target in answer["targets"]:
        cells = [str(target["largest"][name] or "none") for name in names]
        lines.append(_cells(target["label"], cells))
    return lines


def write(answer: dict) -> str:
    """The answer in lines for people."""
    unknown = _unknown(answer)
    is_known = not unknown
    lines = unknown + _assumed(answer)
    if "knob" in answer:
        lines += [*_largest(answer), "", *_later(answer["row"]), _head(answer)]
    else:
        if is_known:
            lines += _first(answer)
        elif not answer["values"]["is_known"]:
            lines += ["The rest is with 0 in their place."]
        lines += [*_later(answer["row"]), _head(answer), "", *_table(answer), *_owners(answer), ""]
    return "\n".join([*lines, *_tail(answer)])
