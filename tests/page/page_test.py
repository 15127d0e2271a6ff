#!/usr/bin/env python3
"""page_test.py PROGRAM PACKAGE [--picture PNG] [--measure]: the pages of `libmend report -o` in
headless Chromium without names. PACKAGE is Mend for Python, for a program with phases. `--picture`
keeps the first screen of a recording of PyTorch. `--measure` tells how large a page of a million
events is, and how fast.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import browser
import recording
import state

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CORPUS = os.path.join(ROOT, "tests", "fuzz", "corpus", "report")
MOMENTS = 40

KEYS = [("Home", 0), ("p", 0), ("ArrowLeft", 0), ("ArrowRight", 0), ("ArrowLeft", 8),
        ("End", 0), ("[", 0), ("p", 0), ("+", 0), ("-", 0), ("g", 0), ("Home", 0), ("End", 0)]


def make(program, file, page, *options):
    run = subprocess.run([program, "report", *options, "-o", page, file], capture_output=True,
                         text=True, check=False)
    assert run.returncode in (0, 1) and not run.stderr, (file, run.returncode, run.stderr)
    return run.stdout


def open_page(tab, page, width, theme):
    tab.open(page, width, theme)
    with open(os.path.join(ROOT, "tests", "page", "probe.js"), encoding="utf-8") as probe:
        tab.value(probe.read() + "; 0")


def check_states(tab, page, seed):
    file = state.File(page)
    many = file.model["rows"]
    rows = sorted({file.model["moment"], 0, many - 1} |
                  set(random.Random(seed).sample(range(many), min(MOMENTS, many))))
    shown = dict(zip(rows, tab.value(f"probe.states({json.dumps(rows)})")))
    for row, expected in file.states(set(rows)).items():
        if not file.model["knows_held"] and not file.model["knows_used"]:
            expected = {name: expected[name] for name in ("live", "waiting", "owners")}
        for name, value in expected.items():
            assert shown[row][name] == value, (page, row, name, shown[row][name], value)
    return len(rows)


def check_owners(tab, page):
    """The most that each held, and when. Its letter does not depend on the colors. Waiting memory
    has a name."""
    for h, (units, row) in state.File(page).most().items():
        assert tab.value(f"[most[{h}], mostAt[{h}]]") == [units, row], (page, h, units, row)
    tab.value("showsAll = true; drawOwners()")
    letters = {tab.value(f"setDim({i}); probe.letters()") for i in range(tab.value("DIMS.length"))}
    letters |= {tab.value(f"select({h}); probe.letters()") for h in (0, "M.owners.length - 1")}
    tab.value("setDim(0); showsAll = false; drawOwners()")
    assert letters == {tab.value("probe.ownLetters()")}, (page, letters)
    waits = tab.value("probe.waits()")
    assert all(word in text for text, *words in waits for word in words), (page, waits)
    return len(waits)


def check_groups(tab, page):
    """By phase, tag and line: the legend against the sums of all owners. No group outside the
    legend has more than one of it at the moment that the page begins with."""
    file = state.File(page)
    ends = {file.model["moment"], file.model["peak"]}
    rows = sorted(ends | {file.model["rows"] // 3})
    states = file.states(set(rows))
    parts = tab.value(f"probe.groups({rows})")
    for part, shown in parts:
        said, most = file.said(part), {}
        for row, groups in zip(rows, shown):
            sums = dict.fromkeys(said, 0)
            for owner, units in states[row]["owners"]:
                sums[said[owner]] += units
            assert sum(units for _, units, _ in groups) == states[row]["live"], (page, part, row)
            for name, units, is_told in groups:
                assert is_told and units == sums.get(name, units), (page, part, row, name, units)
            for name in sums if row in ends else ():
                most[name] = max(most.get(name, 0), sums[name])
        own = {name for name, *_ in shown[0]} & set(most)
        left = max((most[name] for name in most if name not in own), default=0)
        assert left <= min(most[name] for name in own), (page, part, own, most)
        assert left == 0 or len(own) == 8, (page, part, own, most)
    assert tab.value("countCalls(0, N - 1)[WAIT]") == file.waits(), page
    tab.value("setDim(0); go(M.moment)")
    return [part for part, _ in parts], file.waits()[0]


def check_curve(tab, page):
    """The line and the stack, against the same rows. A column has the highest of its rows."""
    file = state.File(page)
    rows = [i * file.model["rows"] // 300 for i in range(min(file.model["rows"], 300))]
    states = file.states({row for row in rows} | {row - 1 for row in rows})
    by_rows, by_parts = tab.value("probe.wide()")
    assert by_rows == by_parts, (page, by_rows, by_parts)
    counted = (state.TAKE, state.GIVE, state.REFUSE, state.WAIT)
    kinds = [file.columns["kind"].count(k) for k in counted]
    assert by_rows[2:] == kinds, (page, by_rows, kinds)
    for row, (top, held) in zip(rows, tab.value(f"probe.curve({rows})")):
        before, after = states.get(row - 1, {"live": 0, "held": 0}), states[row]
        assert top == max(before["live"], after["live"]), (page, row, top)
        if file.model["knows_held"]:
            assert held == max(before["held"], after["held"]), (page, row, held)


def check_report(tab, page, told):
    """The program's numbers of the moment are the page's."""
    if not told["memory"] or told["memory"]["is_what_was_used"]:
        return
    shown = tab.value("probe.states([M.moment])")[0]
    for name, value in (("live", told["live_bytes"]), ("held", told["memory"]["held_bytes"]),
                        ("whole", told["memory"]["whole_segments_bytes"]),
                        ("beside", told["memory"]["beside_blocks_bytes"]),
                        ("others", told["memory"]["other_streams_bytes"])):
        assert shown[name] * 512 == value, (page, name, shown[name], value)
    if told["failure"]:
        for name, value in (("waiting", told["memory"]["pending_bytes"]),
                            ("longest", told["memory"]["longest_piece_bytes"])):
            assert shown[name] * 512 == value, (page, name, shown[name], value)
    assert shown["pieces"] == told["memory"]["pieces"], (page, shown, told["memory"])


def press(tab, key, modifiers):
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers)
    tab.value("probe.drawn()")


def drag(tab, element, start, end):
    box = tab.value(f"probe.box('{element}')")
    for kind, part in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
        tab.call("Input.dispatchMouseEvent", type=kind, x=box[0] + part * box[2],
                 y=box[1] + box[3] / 2, button="left", buttons=1, clickCount=1)
    tab.value("probe.drawn()")


def check_hands(tab, page):
    def expect_change(what, act):
        before = tab.value("probe.view()")
        act()
        assert tab.value("probe.view()") != before, (page, what, "changes nothing")

    has_calls = tab.value("kind.some(k => k > FREE)")
    for key, modifiers in KEYS:
        if key in "[]" and not has_calls:
            continue
        expect_change(key, lambda: press(tab, key, modifiers))
    press(tab, "0", 0)
    expect_change("chart", lambda: drag(tab, "chart", .3, .6))
    expect_change("strip", lambda: drag(tab, "strip", .4, .7))
    expect_change("strip again", lambda: drag(tab, "strip", .55, .5))
    expect_change("owner", lambda: tab.value("document.querySelector('#who tbody tr').click()"))
    expect_change("Escape", lambda: press(tab, "Escape", 0))
    expect_change("sort", lambda: tab.value("document.querySelector('#who [data-k=most]').click()"))
    expect_change("theme", lambda: tab.value("$('theme').click()"))
    if tab.value("hasMap"):
        tab.value("go(M.moment)")
        expect_change("map", lambda: tab.value("probe.clickLargestBlock()"))


def check_width(tab, page, width):
    wide = tab.value("document.documentElement.scrollWidth")
    assert wide <= width, (page, f"{wide} pixels wide of {width}")


def write_log(path, has_addresses):
    """Blocks with addresses, or with numbers."""
    chance = random.Random(5)
    live = []
    with open(path, "w", encoding="ascii") as out:
        out.write("Thread,Time,Action,Pointer,Size,Stream\n")
        for i in range(2000):
            if live and chance.random() < .45:
                place, size = live.pop(chance.randrange(len(live)))
                out.write(f"0,0,free,{place},{size},0\n")
                continue
            size = 512 * chance.randint(1, 4000)
            slots = {place for place, _ in live}
            place = next(p for p in range(1, 5000) if p not in slots and p << 22 not in slots)
            place = place << 22 if has_addresses else i + 1
            live.append((place, size))
            out.write(f"0,0,allocate,{place},{size},0\n")


def record_phases(path, package, seed):
    """A program with scopes, tags, lines and streams, as Mend records it."""
    script = os.path.join(ROOT, "tests", "page", "phases.py")
    subprocess.run([sys.executable, "-B", script, str(seed)], check=True,
                   env={**os.environ, "PYTHONPATH": package, "MEND_RECORD": path})
    return path


def files(folder, program, package):
    for seed in range(4):
        path = os.path.join(folder, f"made-up-{seed}.json")
        recording.write(path, seed, 2500)
        yield path
    for has_addresses in (False, True):
        path = os.path.join(folder, f"log-{has_addresses}.csv")
        write_log(path, has_addresses)
        yield path
    path = os.path.join(folder, "one.csv")
    with open(path, "w", encoding="ascii") as out:
        out.write("Thread,Time,Action,Pointer,Size,Stream\n0,0,allocate,1,512,0\n")
    yield path
    leak, recorded = os.path.join(CORPUS, "torch-2.8-leak.gz"), os.path.join(folder, "run.mend")
    subprocess.run([program, "record", "-o", recorded, "--", program, "replay", "--allocator",
                    "mend",
                    "--capacity", "200MiB", leak], capture_output=True, check=False)
    yield leak
    yield recorded
    yield record_phases(os.path.join(folder, "phases.mend"), package, 1)
    yield os.path.join(CORPUS, "torch-2.8-last-events.gz")


def check(program, package, folder, tab):
    moments = pages = waits = host_waits = 0
    parts = set()
    for path in files(folder, program, package):
        page = os.path.join(folder, "page.html")
        told = json.loads(make(program, path, page, "--json", "--no-what-if"))
        for width, theme in ((1440, "light"), (390, "dark")):
            open_page(tab, page, width, theme)
            check_width(tab, path, width)
            moments += check_states(tab, page, pages)
            check_report(tab, path, told)
            waits += check_owners(tab, page)
            of_page, many = check_groups(tab, page)
            parts |= set(of_page)
            host_waits += many
            assert tab.value("root.dataset.theme") == theme
            if told["events"] > 1:
                check_curve(tab, page)
                check_hands(tab, path)
            check_width(tab, path, width)
            assert not tab.complaints, (path, tab.complaints)
            pages += 1
    for seed in (0, 1, 4):
        check_unknown(program, folder, tab, seed)
    assert waits > 0 and host_waits > 0 and parts == {"scope", "tag", "line"}, (host_waits, parts)
    print(f"{pages} pages, {moments} moments: as they are worked out again")


def check_unknown(program, folder, tab, seed):
    """Five questions about an unknown program, answered by the page before any click."""
    path, page = os.path.join(folder, "unknown.json"), os.path.join(folder, "unknown.html")
    true = recording.write_unknown(path, seed)
    make(program, path, page)
    open_page(tab, page, 1440, "light")

    def texts(what):
        return tab.value(f"[...document.querySelectorAll('{what}')].map(e => e.innerText)")

    tab.size(1280, 900)
    cut = "[...document.querySelectorAll('.two .scroll, .keys button span')]"
    assert tab.value(f"{cut}.filter(e => e.scrollWidth > e.clientWidth).length") == 0, path

    asked, leaked = (tab.value(f"size({true[name]} / 512)") for name in ("asked", "leaked"))
    owners, rows = texts("#who tbody tr"), texts("#others tr")
    # Which request failed, and why?
    why = f"Out of memory by a possible leak of [^:]*: {asked} asked for"  # more than what is free
    assert re.match(why, texts("h1")[0]), (true, texts("h1"))
    # Which owner leaks, and how much would the program need without it?
    tips = [tip for tip in texts("ol li") if tip.startswith("Stop the growth of")]
    assert len(tips) == 1 and true["leaking"] in tips[0] and "without it" in tips[0], (true, tips)
    # Which owner holds most, and how much? And the list that is emptied again is none that leaks.
    assert all(word in owners[0] for word in (true["leaking"], "leak?", leaked)), (true, owners)
    (of_list,) = [row for row in owners if true["listing"] in row]
    assert "leak?" not in of_list and "grows" not in of_list, (true, of_list)
    # Which blocks are in the way?
    assert true["leaking"] + " keeps in place" in texts("#tip")[0], (true, texts("#tip"))
    # Does it run with another allocator, on this device? As a replay on this device answers.
    replay = subprocess.run([program, "replay", path, "--capacity", "240MiB", "--json"],
                            capture_output=True, text=True, check=False)
    (row,) = [row for row in rows if row.startswith("Mend\t")]
    runs = json.loads(replay.stdout)["completed"]
    assert ("fits" in row, "fails" in row) == (runs, not runs), (true, row, replay.stdout)


def measure(program, folder, tab):
    """Against the budgets, in seconds of a processor: how busy the machine is does not count."""
    path, page = os.path.join(folder, "large.json"), os.path.join(folder, "large.html")
    recording.write_long(path, 1 << 20)
    make(program, path, page)
    began = tab.processor_s()
    open_page(tab, page, 1440, "light")
    drawn_s = tab.processor_s() - began
    events = tab.value("events[N - 1] + 1")
    each_bytes = os.path.getsize(page) * 100000 // events
    paint = tab.value("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    began = tab.processor_s()
    tab.value(f"probe.frames({MOMENTS})")
    frame_s = (tab.processor_s() - began) / (2 * MOMENTS)
    print(f"{events:,} events: {each_bytes:,} bytes each 100,000; first paint {paint:.0f} ms; of a "
          f"processor: drawn in {drawn_s:.2f} s, a frame in {1000 * frame_s:.0f} ms")
    print("milliseconds of the clock:", tab.value("perf"))
    assert each_bytes <= 250000 and drawn_s <= 1 and frame_s <= 1 / 30


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("package")
    parser.add_argument("--picture")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, browser.Browser(folder) as tab:
        if options.measure:
            measure(options.program, folder, tab)
        elif options.picture:
            page = os.path.join(folder, "page.html")
            make(options.program, os.path.join(CORPUS, "torch-2.8-leak.gz"), page)
            tab.open(page, 1440, "light")
            tab.picture(options.picture, 1440, 1560, .6)
        else:
            check(options.program, options.package, folder, tab)


if __name__ == "__main__":
    sys.exit(main())
