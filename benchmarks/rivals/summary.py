#!/usr/bin/env python3
"""What compare-drivers recorded, as a table for each measure, and what was asked of ours."""

import json
import statistics
import sys
from collections import defaultdict

# What is asked, measure, ours, theirs, figure, least ratio of ours to theirs. Names are beginnings:
# the best of those that begin so counts. For CPU time the ratio is theirs to ours.
ASKED = [
    ("blocking, of pgbench", "point read, window 1, TCP",
     "lookaside blocking", "pgbench", "ops_per_s", 1.0),
    ("blocking, of the raw loop", "point read, window 1, TCP",
     "lookaside blocking", "raw", "ops_per_s", 0.95),
    ("async, of the raw loop", "point read, window 1, TCP",
     "lookaside async", "raw", "ops_per_s", 0.85),
    ("async, of tokio-postgres", "point read, window 1, TCP",
     "lookaside async", "tokio-postgres", "ops_per_s", 1.0),
    ("blocking CPU, at most 1.3 of the raw loop", "point read, window 1, TCP",
     "lookaside blocking", "raw", "client_cpu_us", 1 / 1.3),
    ("of tokio-postgres", "point read, window 32, TCP",
     "lookaside", "tokio-postgres", "ops_per_s", 1.5),
    ("of pgbench's pipeline", "point read, window 32, TCP",
     "lookaside", "pgbench", "ops_per_s", 0.8),
    ("of wp-knowledge", "point read, 64 tasks, pool 8",
     "lookaside", "wp-knowledge", "ops_per_s", 4.0),
    ("of wp-knowledge one by one", "lookups of 1,000 keys",
     "lookaside", "wp-knowledge", "ops_per_s", 20.0),
    ("of wp-knowledge", "cached, concurrency 64, warm",
     "lookaside", "wp-knowledge", "ops_per_s", 4.0),
    ("of wp-knowledge's path", "record, provider, cache",
     "lookaside", "wp-knowledge", "ops_per_s", 5.0),
]
for server in ("MariaDB", "MySQL"):
    for rival in ("sqlx", "mysql_async"):
        for window, least in (("1", 2.0), ("32", 4.0)):
            for mode in ("default", "pinned"):
                ASKED.append((f"CPU of {rival}, {mode}, window {window}",
                              f"{server}, 50 columns x 1", f"lookaside {mode}, window {window}",
                              rival, "client_cpu_us", least))


def figures(run):
    """The figures of a line, ours or theirs, under the names of theirs."""
    def median(name, factor=1.0):
        value = run.get(name)
        value = value["median"] if isinstance(value, dict) else value
        return None if value is None else value * factor

    def first(*values):
        return next((value for value in values if value is not None), None)

    wall = median("wall_ns_per_op")
    return {
        "ops_per_s": first(median("ops_per_s"), wall and 1e9 / wall),
        "client_cpu_us": first(median("client_cpu_us"), median("cpu_ns_per_op", 0.001)),
        "server_cpu_us": median("server_cpu_us"),
        "p50_us": first(median("p50_us"), median("mean_us")),
        "p95_us": median("p95_us"),
        "hash": run.get("hash"),
    }


# Runs by measure, name and round.
measures = defaultdict(lambda: defaultdict(dict))
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        run = json.loads(line)
        measures[run["measure"]][run["name"]][run["round"]] = figures(run)


def cell(runs, name, width, digits):
    found = [run[name] for run in runs.values() if run[name] is not None]
    return f"{statistics.median(found):>{width}.{digits}f}" if found else f"{'-':>{width}}"


def best(names, beginning, figure, turn):
    found = [runs[turn][figure] for name, runs in names.items()
             if name.startswith(beginning) and turn in runs and runs[turn][figure] is not None]
    return (max if figure == "ops_per_s" else min)(found, default=None)


print("medians of the rounds; operations a second with the smallest and the largest round;")
print("CPU and latency in microseconds an operation (of pgbench the mean stands in the place of p50)")
for measure, names in measures.items():
    hashes = {run["hash"] for runs in names.values() for run in runs.values()} - {None}
    print(f"\n{measure}" + (f": hashes differ: {sorted(hashes)}" if len(hashes) > 1 else ""))
    print(f"  {'':<34} {'rounds':>6} {'ops/s':>10} {'least':>10} {'most':>10} "
          f"{'client CPU':>11} {'server CPU':>11} {'p50':>10} {'p95':>10}")
    for name, runs in names.items():
        rates = [run["ops_per_s"] for run in runs.values() if run["ops_per_s"] is not None]
        spread = f"{min(rates):>10.0f} {max(rates):>10.0f}" if rates else f"{'-':>10} {'-':>10}"
        print(f"  {name:<34} {len(runs):>6} {cell(runs, 'ops_per_s', 10, 0)} {spread} "
              f"{cell(runs, 'client_cpu_us', 11, 2)} {cell(runs, 'server_cpu_us', 11, 2)} "
              f"{cell(runs, 'p50_us', 10, 1)} {cell(runs, 'p95_us', 10, 1)}")

print("\nasked of ours: the ratio in each round, its median (least, most), and whether it is reached")
for what, measure, ours, theirs, figure, least in ASKED:
    names = measures.get(measure, {})
    ratios = []
    for turn in sorted({turn for runs in names.values() for turn in runs}):
        mine, other = best(names, ours, figure, turn), best(names, theirs, figure, turn)
        if mine and other:
            ratios.append(mine / other if figure == "ops_per_s" else other / mine)
    if not ratios:
        continue
    median = statistics.median(ratios)
    verdict = "reached" if median >= least else "MISSED"
    print(f"  {measure}: {what}: {median:.2f} ({min(ratios):.2f}, {max(ratios):.2f}), "
          f"asked {least:.2f}: {verdict}")
