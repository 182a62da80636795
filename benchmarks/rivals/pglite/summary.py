#!/usr/bin/env python3
"""A recorded comparison of embedded servers as a table: one line an engine, measure and place.

Reads the lines of the programs in this folder and those of `lookaside pg bench --json`.
"""

import json
import statistics
import sys
from collections import defaultdict

OURS = "lookaside"


def figures(run):
    """Name, place, median, smallest, largest, client's and server's CPU time in microseconds, count."""
    if "median_us" in run:
        return (run["name"], run["place"], run["median_us"], run["min_us"], run["max_us"],
                run["client_cpu_us"], run["server_cpu_us"], run["count"])
    wall, cpu = run["wall_ns_per_op"], run["client_cpu_ns_per_op"]
    return (f"pg bench {run['bench']}: {run['case']}", run.get("place", ""), wall["median"] / 1e3,
            wall["min"] / 1e3, wall["max"] / 1e3, cpu["median"] / 1e3, None,
            run["ops"] * run["rounds"])


def text(microseconds):
    if microseconds is None:
        return "-"
    return f"{microseconds:,.1f}"


runs = defaultdict(lambda: defaultdict(list))
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        run = json.loads(line)
        if "skipped" in run:
            continue
        name, place, *rest = figures(run)
        runs[name, place][run["engine"]].append(rest)

print("microseconds: median of the runs' medians, smallest and largest of all, CPU time of client and")
print("server, and by how much the median is more than ours")
print(f"{'engine':<34} {'runs':>4} {'count':>7} {'median':>14} {'min':>14} {'max':>14} "
      f"{'client CPU':>12} {'server CPU':>12} {'x ours':>7}")
for (name, place), engines in runs.items():
    print(f"\n{name}" + (f" ({place})" if place else ""))
    medians = {engine: statistics.median(run[0] for run in samples)
               for engine, samples in engines.items()}
    ours = next((median for engine, median in medians.items() if engine.startswith(OURS)), None)
    for engine, samples in sorted(engines.items(), key=lambda item: medians[item[0]]):
        low, high = min(run[1] for run in samples), max(run[2] for run in samples)
        client = statistics.median(run[3] for run in samples)
        servers = [run[4] for run in samples if run[4] is not None]
        server = statistics.median(servers) if servers else None
        ratio = f"{medians[engine] / ours:.2f}" if ours else "-"
        count = sum(run[5] for run in samples)
        print(f"{engine:<34} {len(samples):>4} {count:>7} {text(medians[engine]):>14} {text(low):>14} "
              f"{text(high):>14} {text(client):>12} {text(server):>12} {ratio:>7}")
