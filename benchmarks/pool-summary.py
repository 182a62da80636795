#!/usr/bin/env python3
"""What the examples `slow_query` and `shared_syncs` of the client crate printed, as a table."""

import json
import statistics
import sys
from collections import defaultdict

with open(sys.argv[1], encoding="utf-8") as lines:
    runs = [json.loads(line) for line in lines]

slow = [run for run in runs if run["measure"] == "slow query"]
if slow:
    print("latency of point reads behind a slow query, in milliseconds")
    print(f"{'server':<12} {'variant':<10} {'open':>4} {'delay':>6} {'reads':>6} {'median':>9} {'p99':>9} "
          f"{'max':>9} {'>25 ms':>7} {'conns':>6}")
    for run in slow:
        print(f"{run['server']:<12} {run.get('variant', ''):<10} {run['open']:>4} {run['delay_ms']:>6} "
              f"{run['reads']:>6} {run['median_ms']:>9.3f} {run['p99_ms']:>9.3f} "
              f"{run['max_ms']:>9.3f} {run['above_25_ms']:>7} {run['connections_max']:>6}")

cases = defaultdict(list)
for run in runs:
    if run["measure"].startswith("point read"):
        cases[run["measure"], run["way"], run["beside"]].append(run)
if cases:
    print("medians of the rounds, with the smallest and the largest; latencies in microseconds")
    print(f"{'way':<14} {'slow query':<10} {'rounds':>6} {'reads/s':>9} {'least':>9} {'most':>9} "
          f"{'ratio':>6} {'p50':>7} {'p99':>8} {'p999':>8}")
    for (measure, way, beside), samples in cases.items():
        rates = [run["per_second"] for run in samples]
        # Of each round, against tokio-postgres in the same round.
        theirs = {run["round"]: run["per_second"]
                  for run in cases.get((measure, "TokioPostgres", "Nothing"), [])}
        ratios = [run["per_second"] / theirs[run["round"]] for run in samples if run["round"] in theirs]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
        figures = [statistics.median(run[name] for run in samples)
                   for name in ("p50_us", "p99_us", "p999_us")]
        print(f"{way:<14} {beside:<10} {len(samples):>6} {statistics.median(rates):>9.0f} "
              f"{min(rates):>9.0f} {max(rates):>9.0f} {ratio:>6} "
              f"{figures[0]:>7.0f} {figures[1]:>8.0f} {figures[2]:>8.0f}")
