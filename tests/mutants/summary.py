"""What the matrix of mutants and tests has shown, in words and tables."""
import statistics

BEGIN = "<!-- made by ./run mutants -->"
END = "<!-- end -->"


def rows(mutants, seen):
    """A line for each mutant: its room, how many tests saw it, the first of them."""
    width = max([len(mutant.name) for mutant in mutants] + [6])
    lines = [f"{'mutant':{width}}  {'room':8}  tests  the first (! ended by it)"]
    for mutant in mutants:
        names = sorted(seen[mutant.name])
        first = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        lines.append(f"{mutant.name:{width}}  {mutant.room:8}  {len(names):5}  {first}")
    return "\n".join(lines)


def document(mutants, seen, tests):
    """The summary as Markdown. `tests` has the count of each program's."""
    programs = ", ".join(f"`{program}` {count}" for program, count in tests.items())
    lines = [f"{len(mutants)} mutants against {sum(tests.values())} tests ({programs}); each is "
             "seen by its own test.", "",
             "| room | mutants | tests that see one: fewest, median, most | seen by one alone |",
             "|---|---|---|---|"]
    for room in sorted({mutant.room for mutant in mutants}):
        here = [mutant for mutant in mutants if mutant.room == room]
        counts = sorted(len(seen[mutant.name]) for mutant in here)
        alone = [mutant.name.split(".")[1] for mutant in here if len(seen[mutant.name]) == 1]
        lines.append(f"| `{room}` | {len(here)} | {counts[0]}, "
                     f"{statistics.median_low(counts)}, {counts[-1]} | "
                     f"{', '.join(f'`{name}`' for name in alone) or 'none'} |")
    return "\n".join(lines)


def write(path, mutants, seen, tests):
    """Puts the summary between its marks in a document."""
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    behind = rest.split(END)[1]
    text = document(mutants, seen, tests)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{behind}")
