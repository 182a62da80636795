#!/usr/bin/env python3
"""What compare-pipeline recorded, as a table for each measure, and what was asked of ours."""

import json
import statistics
import sys
from collections import defaultdict

WALL, CPU, OVERHEAD, IDLE = "wall ns", "CPU ns", "overhead ns", "CPU %"
BATCHES = (1, 8, 64)

# measure -> name -> figure -> round -> what the rounds of that program measured
measures = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(list))))
sums = defaultdict(set)


def measure_of(stages, batch):
    return f"hand-over, 1 to {'1' if stages == 1 else '1 to 1'}, batch {batch}"


def add(measure, name, turn, figures):
    for figure, value in figures.items():
        measures[measure][name][figure][turn].append(value)


with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        run = json.loads(line)
        turn = run["round"]
        if "stages" in run:
            measure = measure_of(run["stages"], run["batch"])
            add(measure, run["engine"], turn, {WALL: run["wall_ns"], CPU: run["cpu_ns"]})
            sums[measure].add(run["hash"])
            continue
        case, wait, *how = run["case"].split(", ")
        wall, cpu = (run[name]["median"] for name in ("wall_ns_per_op", "cpu_ns_per_op"))
        notes = {name: float(value) for name, value in run["notes"]
                 if name in ("work ns", "period ns", OVERHEAD, IDLE)}
        if case in ("one-stage", "two-stages"):
            measure = measure_of(1 if case == "one-stage" else 2, how[0].split()[1])
            add(measure, f"lookaside bench, {wait}", turn, {WALL: wall, CPU: cpu})
        elif case == "headroom":
            add(f"headroom, {', '.join(how)}", wait, turn, notes)
        else:
            add("idle, two stages", wait, turn, notes)


def turns(measure, name, figure):
    """One value a round: the median of the rounds that the program itself had."""
    found = measures.get(measure, {}).get(name, {}).get(figure, {})
    return {turn: statistics.median(values) for turn, values in found.items()}


print("ns an item: median of the rounds, and the smallest and the largest of them")
for measure, names in measures.items():
    differ = f": sums differ: {sorted(sums[measure])}" if len(sums[measure]) > 1 else ""
    print(f"\n{measure}{differ}")
    figures = list(next(iter(names.values())))
    print(f"  {'':<28} {'rounds':>6}" + "".join(
        f" {figure:>12} {'least':>8} {'most':>8}" for figure in figures))
    for name in names:
        values = [sorted(turns(measure, name, figure).values()) for figure in figures]
        print(f"  {name:<28} {len(values[0]):>6}" + "".join(
            f" {statistics.median(found):>12.2f} {found[0]:>8.2f} {found[-1]:>8.2f}"
            for found in values))


def verdict(what, values, is_reached):
    if values:
        median = statistics.median(values)
        word = "reached" if is_reached(median) else "MISSED"
        print(f"  {what}: {median:.2f} ({min(values):.2f}, {max(values):.2f}): {word}")


def best(measure, beginning, turn):
    """The quickest in that round of those whose names begin so."""
    found = [turns(measure, name, WALL).get(turn) for name in measures.get(measure, {})
             if name.startswith(beginning)]
    return min((value for value in found if value is not None), default=None)


print("\nasked of ours: the median of the rounds (least, most), and whether it is reached")
for batch in BATCHES:
    measure = measure_of(1, batch)
    pairs = [(best(measure, "lookaside-", turn), best(measure, "disruptor-", turn))
             for turn in sorted({turn for name in measures.get(measure, {})
                                 for turn in turns(measure, name, WALL)})]
    verdict(f"{measure}: items a second, of disruptor with its best wait",
            [theirs / mine for mine, theirs in pairs if mine and theirs], lambda ratio: ratio >= 1)
for measure in [measure for measure in measures if measure.startswith("headroom, two stages")]:
    for wait in measures[measure]:
        verdict(f"{measure}, {wait}: overhead below 50 ns",
                list(turns(measure, wait, OVERHEAD).values()), lambda ns: ns < 50)
for wait in ("upstream-idle", "stage-empty"):
    verdict(f"idle, {wait}: 0 % of a core", list(turns("idle, two stages", wait, IDLE).values()),
            lambda share: share < 0.05)
