#!/usr/bin/env python3
"""Recorded runs as a table: one line an engine, benchmark and case."""

import json
import statistics
import sys
from collections import defaultdict

runs = defaultdict(list)
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        run = json.loads(line)
        runs[run["bench"], run["case"], run["engine"]].append(run)


def spread(samples, figure):
    """Smallest, median and largest: of a single run its rounds, of several runs their medians."""
    figures = [run[figure] for run in samples]
    if len(figures) == 1 and isinstance(figures[0], dict):
        return figures[0]["min"], figures[0]["median"], figures[0]["max"]
    medians = [f["median"] if isinstance(f, dict) else f for f in figures]
    return min(medians), statistics.median(medians), max(medians)


print("nanoseconds an operation: smallest, median and largest run; hash of the answers")
print(f"{'benchmark':<8} {'case':<44} {'engine':<20} {'runs':>4} "
      f"{'CPU min':>12} {'median':>12} {'max':>12} {'wall median':>12}  hash, notes")
for (bench, case, engine), samples in runs.items():
    low, median, high = spread(samples, "cpu_ns_per_op")
    wall = spread(samples, "wall_ns_per_op")[1]
    said = sorted({run.get("hash", "") for run in samples})
    said += [f"{name}: {value}" for name, value in samples[-1].get("notes", [])]
    print(f"{bench:<8} {case:<44} {engine:<20} {len(samples):>4} "
          f"{low:>12.1f} {median:>12.1f} {high:>12.1f} {wall:>12.1f}  {'; '.join(said)}")
