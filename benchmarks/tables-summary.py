#!/usr/bin/env python3
"""What compare-tables recorded, as tables in Markdown: medians of all rounds, with the least and the largest."""

import json
import statistics
import sys
from collections import defaultdict

MIB = 1 << 20
WAYS = ("single", "batch of 64", "join of all keys")


def text(figures, digits=0, unit=1):
    """The median, and the least and the largest."""
    if not figures:
        return "–"
    shown = [f"{figure / unit:,.{digits}f}" for figure in (statistics.median(figures), min(figures), max(figures))]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("| --- " * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def notes(run):
    return dict(run.get("notes", []))


def main():
    with open(sys.argv[1]) as lines:
        runs = [json.loads(line) for line in lines]
    loads, probes, hashes = defaultdict(list), defaultdict(list), defaultdict(set)
    # The table that all engines have.
    ours_shared = "dense, columns 2, "
    for run in runs:
        if run["bench"] == "table-load":
            # The second process that loads the same folder.
            again = ", start 2" if run.get("start") == 2 else ""
            loads[run["engine"] + again].append(run)
            continue
        case, cost = run["case"], run["cpu_ns_per_op"]
        if case.startswith(ours_shared):
            case = case.removeprefix(ours_shared)
        elif "rows" in notes(run):
            case = (case, notes(run)["rows"], notes(run)["plan"])
        elif case not in WAYS:
            # The loop alone.
            continue
        probes[run["engine"], case].append(cost)
        if isinstance(case, str):
            hashes[run["hash"]].add(run["engine"])

    def bytes_per_row(load):
        return (load["resident"] - load["resident_empty"]) / row_count

    row_count = next(load["rows"] for each in loads.values() for load in each if "rows" in load)
    print(f"{row_count:,} rows; memory is beyond that of an empty process.\n")
    table(
        ("engine", "open, s", "first answer, s", "CPU, s", "memory, MiB", "largest, MiB", "bytes a row"),
        [
            (
                engine,
                text([load["open_s"] for load in each], 2),
                text([load["answer_s"] for load in each], 2),
                text([load["cpu_s"] for load in each], 2),
                text([load["resident"] - load["resident_empty"] for load in each], unit=MIB),
                text([load["resident_max"] - load["resident_empty"] for load in each], unit=MIB),
                text([bytes_per_row(load) for load in each], 1),
            )
            for engine, each in loads.items()
        ],
    )

    def cost(engine, case):
        each = probes.get((engine, case), [])
        figures = [figure for it in each for figure in (it["min"], it["max"])]
        medians = [it["median"] for it in each]
        if not each:
            return "–"
        return f"{statistics.median(medians):,.1f} ({min(figures):,.1f} to {max(figures):,.1f})"

    engines = list(dict.fromkeys(engine for engine, case in probes if isinstance(case, str)))
    print("CPU time of one lookup of two columns, ns.\n")
    table(("engine", *WAYS), [(engine, *(cost(engine, way) for way in WAYS)) for engine in engines])
    if len(hashes) > 1:
        print(f"The answers differ: {dict(hashes)}\n")

    reloads = [load for each in loads.values() for load in each if load.get("reload")]
    if reloads:
        by_percent = defaultdict(list)
        for load in reloads:
            by_percent[load["reload"]["percent"]].append(load["reload"])
        engine = reloads[0]["engine"]
        without_file = [load["bytes_per_row"] for load in reloads]
        print(f"{engine}: {text(without_file, 1)} bytes a row without the size of the file.\n")
        table(
            ("rows changed", "wall, s", "CPU, s", "largest memory over that before"),
            [
                (
                    f"{percent} %",
                    text([it["wall_s"] for it in each], 2),
                    text([it["cpu_s"] for it in each], 2),
                    text([it["resident_max"] / it["resident_before"] for it in each if it["resident_max"]], 2),
                )
                for percent, each in sorted(by_percent.items())
            ],
        )

    kinds = list(dict.fromkeys((engine, case) for engine, case in probes if isinstance(case, tuple)))
    if kinds:
        print("CPU time of one lookup by the kind of keys and the number of columns, ns.\n")
        table(
            ("keys, columns, way", "rows", "plan", "CPU, ns"),
            [(case[0], f"{int(case[1]):,}", case[2], cost(engine, case)) for engine, case in kinds],
        )


main()
