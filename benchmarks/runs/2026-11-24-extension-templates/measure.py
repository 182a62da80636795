#!/usr/bin/env python3
"""CPU and wall time of `lookaside pg run -- true` without and with `--extension vector`, in turn.

    measure.py LOOKASIDE [ROUNDS]        needs root and the control groups of version 1; writes CSV

The CPU time is that of all processes of a run, the server's among them, by a control group.
"""

import os
import subprocess
import sys
import time

GROUP = f"/sys/fs/cgroup/cpuacct/lookaside-{os.getpid()}"
CASES = {"plain": [], "vector": ["--extension", "vector"]}


def usage_ms():
    with open(f"{GROUP}/cpuacct.usage") as file:
        return int(file.read()) / 1e6


def enter():
    with open(f"{GROUP}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))


os.mkdir(GROUP)
print("round,case,cpu_ms,wall_ms")
for number in range(int(sys.argv[2]) if len(sys.argv) > 2 else 20):
    for case, arguments in CASES.items():
        before, begin = usage_ms(), time.monotonic()
        command = [sys.argv[1], "pg", "run", "--pg-version", "18", *arguments, "--", "true"]
        subprocess.run(command, preexec_fn=enter, check=True, stderr=subprocess.DEVNULL)
        wall = (time.monotonic() - begin) * 1e3
        # The server's last processes end after the command.
        time.sleep(0.5)
        print(f"{number},{case},{usage_ms() - before:.0f},{wall:.0f}", flush=True)
