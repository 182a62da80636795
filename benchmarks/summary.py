#!/usr/bin/env python3
"""Medians and spreads of recorded runs: one line an engine, benchmark and case."""

import json
import statistics
import sys
from collections import defaultdict


def median_of(figure):
    """A run of ours has a spread of its own, a rival's run one figure."""
    return figure["median"] if isinstance(figure, dict) else figure


runs = defaultdict(list)
hashes = defaultdict(set)
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        run = json.loads(line)
        runs[run["bench"], run["case"], run["engine"]].append(median_of(run["cpu_ns_per_op"]))
        hashes[run["bench"], run["case"], run["engine"]].add(run.get("hash", ""))

print(f"{'benchmark':<10} {'case':<12} {'engine':<22} {'runs':>4} "
      f"{'min':>10} {'median':>10} {'max':>10}  CPU ns an operation; hash of the answers")
for key, samples in runs.items():
    bench, case, engine = key
    print(f"{bench:<10} {case:<12} {engine:<22} {len(samples):>4} "
          f"{min(samples):>10.1f} {statistics.median(samples):>10.1f} {max(samples):>10.1f}  "
          f"{' '.join(sorted(hashes[key]))}")
