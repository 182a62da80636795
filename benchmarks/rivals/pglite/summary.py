#!/usr/bin/env python3
"""A recorded comparison of embedded servers as tables: one a question and place, one line an engine.

Reads the lines of the programs in this folder and those of `lookaside-bench pg … --json`.
"""

import json
import statistics
import sys
from collections import defaultdict

OURS = "lookaside"
FIRST = "first database in a fresh process, to the first query"
WARM = "database in a warm process, to the first query"
# Where engines have different ways to the same end: what a name begins with, and the question.
QUESTIONS = [
    ("first database in a fresh process, ", FIRST),
    ("initdb and pg_ctl start, ", FIRST),
    ("pg_ctl start of a ready folder, ", FIRST),
    ("postgres in a ready folder, ", FIRST),
    ("temporary database in a warm process, ", WARM),
    ("CREATE DATABASE, ", WARM),
]


def question(run):
    """The question that a line answers, and in which way."""
    if "name" in run:
        name = run["name"]
        found = next((found for start, found in QUESTIONS if name.startswith(start)), None)
        return (found, name) if found else (name, "")
    bench, case = run["bench"], run["case"]
    if bench == "cold":
        return FIRST, f"{case}; begun with {run['from']}"
    if bench == "warm" and case.endswith(": first query answered"):
        return WARM, case
    return f"pg bench {bench}: {case}", ""


def figures(run):
    """Median, smallest, largest, CPU time of client and server in microseconds, count."""
    if "name" in run:
        return (run["median_us"], run["min_us"], run["max_us"], run["client_cpu_us"],
                run["server_cpu_us"], run["count"])
    wall, cpu = run["wall_ns_per_op"], run["client_cpu_ns_per_op"]
    return (wall["median"] / 1e3, wall["min"] / 1e3, wall["max"] / 1e3, cpu["median"] / 1e3, None,
            run["ops"] * run["rounds"])


def text(microseconds):
    return "-" if microseconds is None else f"{microseconds:,.1f}"


tables = defaultdict(lambda: defaultdict(list))
hashes = defaultdict(set)
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        run = json.loads(line)
        if "skipped" in run:
            continue
        asked, way = question(run)
        table, row = (asked, run["place"]), (run["engine"], way)
        tables[table][row].append(figures(run))
        if run.get("hash"):
            hashes[table, row].add(run["hash"])

print("microseconds an operation: median of the runs' medians, smallest and largest of all, CPU time of")
print("client and server (- where it is not known), the median in multiples of ours; the way, and the")
print("hash of the answers")
print(f"{'engine':<22} {'runs':>4} {'count':>7} {'median':>12} {'min':>12} {'max':>12} "
      f"{'client CPU':>12} {'server CPU':>12} {'x ours':>6}")
for (asked, place), rows in tables.items():
    print(f"\n{asked} ({place})")
    medians = {row: statistics.median(run[0] for run in runs) for row, runs in rows.items()}
    # Where we have several ways there is no one figure to compare with.
    ours = [median for (engine, _), median in medians.items() if engine == OURS]
    for row, runs in sorted(rows.items(), key=lambda item: medians[item[0]]):
        low, high = min(run[1] for run in runs), max(run[2] for run in runs)
        client = statistics.median(run[3] for run in runs)
        known = [run[4] for run in runs if run[4] is not None]
        server = statistics.median(known) if known else None
        ratio = f"{medians[row] / ours[0]:.2f}" if len(ours) == 1 else "-"
        said = "; ".join(part for part in (row[1], *sorted(hashes[(asked, place), row])) if part)
        print(f"{row[0]:<22} {len(runs):>4} {sum(run[5] for run in runs):>7} "
              f"{text(medians[row]):>12} {text(low):>12} {text(high):>12} "
              f"{text(client):>12} {text(server):>12} {ratio:>6}  {said}".rstrip())
