"""What the measures of `lookaside enrich` with brokers share: the project, free ports, CPU time."""

import base64
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 4
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


class KafkaBroker:
    """A broker of one node in a folder of its own."""

    def __init__(self, folder):
        jars = subprocess.run([ROOT / "scripts/fetch-kafka"], check=True, stdout=subprocess.PIPE, text=True)
        self.java = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Djava.io.tmpdir={folder}",
                     "-cp", f"{jars.stdout.strip()}/libs/*"]
        port, internal = free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        settings = folder / "server.properties"
        settings.write_text(f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{internal}
listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{internal}
advertised.listeners=PLAINTEXT://{self.address}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
""")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        with open(folder / "broker.log", "wb") as log:
            subprocess.run([*self.java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", settings],
                           check=True, stdout=log, stderr=log)
            self.process = subprocess.Popen([*self.java, "kafka.Kafka", settings], stdout=log, stderr=log)
        while True:
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.process.poll() is not None:
                sys.exit(f"the broker does not start: {(folder / 'broker.log').read_text()}")
            time.sleep(0.1)

    def topic(self, action, name):
        options = ["--partitions", str(PARTITIONS)] if action == "create" else []
        subprocess.run([*self.java, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.address,
                        f"--{action}", "--topic", name, *options],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def message_count(self, topic):
        """How many messages a topic has had, by the request ListOffsets: https://kafka.apache.org/protocol#The_Messages_ListOffsets"""
        name = topic.encode()
        partitions = b"".join(struct.pack(">iq", number, -1) for number in range(PARTITIONS))
        request = (struct.pack(">hhihii", 2, 1, 0, -1, -1, 1) + struct.pack(">h", len(name)) + name
                   + struct.pack(">i", PARTITIONS) + partitions)
        host, port = self.address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                size, = struct.unpack(">i", answer.read(4))
                body = answer.read(size)
        # Each partition ends with its offset, behind the correlation, the count of topics, the name and the count of partitions.
        return sum(offset for _, _, _, offset in struct.iter_unpack(">ihqq", body[14 + len(name):]))

    def url(self, topic, options=""):
        return f"kafka://{self.address}/{topic}{options}"

    def stop(self):
        self.process.terminate()
        self.process.wait()


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
