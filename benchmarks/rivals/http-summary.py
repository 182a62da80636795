#!/usr/bin/env python3
"""What compare-http recorded, as a table for each measure and shape, and what was asked of ours."""

import json
import statistics
import sys
from collections import defaultdict

# What is asked, measure, shape, ours, theirs, figure, least ratio of ours to theirs; for CPU time and
# memory the ratio is theirs to ours. Theirs is a beginning of names, of which the best counts, or a
# number that is asked for as it stands.
CPU, RATE, MEMORY = "server_cpu_us", "ops_per_s", "server_resident_max"
MIB = 1 << 20
ASKED = [
    ("at least 0.35 M/s", "ok, socket, depth 1", "together", RATE, 350_000),
    ("at most 1.8 us", "ok, socket, depth 1", "together", CPU, 1.8),
    ("at least 3 M/s", "ok, socket, depth 16", "together", RATE, 3_000_000),
    ("batches: at least 1 M keys/s", "lookups, 1,000 keys at once", "apart", RATE, 1_000),
    ("lookups: of redis", "lookup", "apart", RATE, "redis"),
    ("at most 4 KiB a connection", "idle, 10,000 connections", "apart", MEMORY, 40 * MIB),
    ("at most 16 MiB", "upload, 8 of 20 MB", "apart", MEMORY, 16 * MIB),
]
for shape in ("apart", "together"):
    for rival in ("may_minihttp", "hyper"):
        for measure in ("baseline", "pipelined"):
            ASKED.append((f"CPU of {rival}", measure, shape, CPU, rival))
    for rival in ("sark", "actix-web"):
        for measure in ("async-db", "crud", "fortunes"):
            ASKED.append((f"CPU of {rival}", measure, shape, CPU, rival))

# Runs by measure and shape, name and round.
measures = defaultdict(lambda: defaultdict(dict))
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        run = json.loads(line)
        # Per answer that is one: a refusal is cheap, and no answer.
        good = sum(count for status, count in run.get("statuses", {}).items() if status[0] == "2")
        good += run.get("statuses", {}).get("404", 0) if run["measure"] == "lookup" else 0
        share = good / run["ops"] if "statuses" in run and run["ops"] else 1.0
        run["failed"] = 100 * (1 - share)
        if 0 < share < 1:
            for name in ("server_cpu_us", "client_cpu_us", "database_cpu_us"):
                if run.get(name) is not None:
                    run[name] /= share
            run["ops_per_s"] *= share
        measures[run["measure"], run["shape"]][run["name"]][run["round"]] = run


def figures(runs, name):
    return [run[name] for run in runs.values() if run.get(name) is not None]


def cell(runs, name, width, digits, size=1):
    found = figures(runs, name)
    return f"{statistics.median(found) / size:>{width}.{digits}f}" if found else f"{'-':>{width}}"


print("medians of the rounds; server CPU in microseconds a request with the smallest and the largest")
print("round; latencies in microseconds; memory in MiB at most; cores that others kept busy; share of")
print("answers that were none (2xx), which the figures do not count as answers")
for (measure, shape), names in measures.items():
    print(f"\n{measure}, {shape}")
    print(f"  {'':<26} {'rounds':>6} {'server CPU':>11} {'least':>8} {'most':>8} {'requests/s':>11} "
          f"{'p50':>9} {'p99':>9} {'client CPU':>11} {'database':>9} {'memory':>8} {'others':>7} {'failed':>7}")
    order = sorted(names.items(), key=lambda named: min(figures(named[1], CPU), default=1e9))
    for name, runs in order:
        cpu = figures(runs, CPU)
        spread = f"{min(cpu):>8.2f} {max(cpu):>8.2f}" if cpu else f"{'-':>8} {'-':>8}"
        print(f"  {name:<26} {len(runs):>6} {cell(runs, CPU, 11, 2)} {spread} "
              f"{cell(runs, RATE, 11, 0)} {cell(runs, 'p50_us', 9, 0)} {cell(runs, 'p99_us', 9, 0)} "
              f"{cell(runs, 'client_cpu_us', 11, 2)} {cell(runs, 'database_cpu_us', 9, 2)} "
              f"{cell(runs, MEMORY, 8, 1, MIB)} {cell(runs, 'foreign_cores', 7, 2)} "
              f"{cell(runs, 'failed', 6, 1)}%")

print("\nasked of ours: the ratio in each round, its median (least, most), and whether it is reached")
for what, measure, shape, figure, theirs in ASKED:
    names = measures.get((measure, shape), {})

    def best(beginning, turn):
        found = [runs[turn][figure] for name, runs in names.items()
                 if name.startswith(beginning) and runs.get(turn, {}).get(figure) is not None]
        return (max if figure == RATE else min)(found, default=None)

    ratios = []
    for turn in sorted({turn for runs in names.values() for turn in runs}):
        mine = best("lookaside", turn)
        other = best(theirs, turn) if isinstance(theirs, str) else theirs
        if mine and other:
            ratios.append(mine / other if figure == RATE else other / mine)
    if not ratios:
        continue
    median = statistics.median(ratios)
    verdict = "reached" if median >= 1 else "MISSED"
    print(f"  {measure}, {shape}: {what}: {median:.2f} ({min(ratios):.2f}, {max(ratios):.2f}): {verdict}")
