"""What the measures of `lookaside enrich` with brokers share: the project, free ports, CPU time."""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RANGES = 411_961

MODEL = (ROOT / "crates/lookaside/src/cli/bench/full.oml").read_text(encoding="utf-8")
COPY_MODEL = "name : copy\n---\n* = take() ;\n"
CLOCK_MODEL = """name : clock
---
sent = take(sent) ;
ip : ip = take(ip) ;
text = take(text) ;
asn, org = select asn, org from asn
    where first_ip <= ip4_int(read(ip)) and last_ip >= ip4_int(read(ip)) ;
"""
CONFIG = """version = 2
[csv]
has_header = false
[[tables]]
name = "asn"
columns.by_index = [0, 1, 2, 3]
"""


def address(number):
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def write_project(folder):
    """Ranges that cover all addresses, as `lookaside bench enrich` has them."""
    table = folder / "asn"
    table.mkdir(parents=True)
    (folder / "models").mkdir()
    (folder / "knowdb.toml").write_text(CONFIG)
    for name, model in [("access", MODEL), ("copy", COPY_MODEL), ("clock", CLOCK_MODEL)]:
        (folder / f"models/{name}.oml").write_text(model)
    (table / "create.sql").write_text(
        "create table if not exists {table}\n  (first_ip integer, last_ip integer, asn integer, org text);\n")
    (table / "insert.sql").write_text(
        "insert into {table} values (ip4_int(?1), ip4_int(?2), ?3, ?4);\n")
    generator = random.Random(1)
    starts = [0, *sorted(generator.sample(range(1, 1 << 32), RANGES - 1)), 1 << 32]
    with open(table / "data.csv", "w", encoding="utf-8") as csv:
        for number in range(RANGES):
            asn = generator.randrange(1, 400_000)
            first, last = address(starts[number]), address(starts[number + 1] - 1)
            csv.write(f"{first},{last},{asn},AS{asn} Example Networks\n")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def measured(command, **options):
    """Runs a command; its CPU and wall seconds, and what it wrote to standard error."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stderr=errors, **options)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read()
    if process.returncode != 0:
        sys.exit(f"{command} failed:\n{text}")
    return usage.ru_utime + usage.ru_stime, wall, text
