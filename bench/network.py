#!/usr/bin/env python3
"""Prediction and reality over a real network: hosts are network namespaces of this machine (as root), joined by a bridge
through links that `tc` slows down, and the ranks of `weft train` are processes in them.

    bench/network.py build/weft            12 plans, predicted with a cluster file of those links: some minutes
    bench/network.py build/weft --launcher mpi     the same under mpirun, MPI over TCP, in place of torchrun's variables

What a host computes is measured on this machine as bench/reality.py does. What the links carry is not: the cluster file has
the rate that was asked of `tc`, less what the headers of TCP, IP and Ethernet take of full packets (1448 of 1514 bytes).
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys

import reality

PAYLOAD = 1448 / 1514
PLANS = [  # hosts, Mbit/s of each link, size of the model, degrees
    (2, 400, "medium", "--dp 2 --microbatch 4 --global-batch 8"),
    (2, 400, "medium", "--dp 2 --zero 1 --microbatch 4 --global-batch 8"),
    (2, 400, "medium", "--dp 2 --zero 3 --microbatch 4 --global-batch 8"),
    (2, 400, "medium", "--tp 2 --microbatch 4 --global-batch 8"),
    (2, 400, "medium", "--tp 2 --sp --microbatch 4 --global-batch 8"),
    (2, 400, "medium", "--pp 2 --microbatch 2 --global-batch 8"),
    (2, 100, "medium", "--dp 2 --microbatch 4 --global-batch 8"),
    (2, 100, "medium", "--dp 2 --bucket 1MiB --microbatch 2 --global-batch 8"),
    (2, 100, "medium", "--pp 2 --schedule gpipe --microbatch 2 --global-batch 8"),
    (2, 100, "medium", "--cp 2 --microbatch 4 --global-batch 8"),
    (4, 100, "medium", "--dp 4 --microbatch 2 --global-batch 8"),
    (4, 100, "medium", "--dp 2 --pp 2 --microbatch 2 --global-batch 8"),
]
CLUSTER = """
name: namespaces
source: bench/network.py, {rate} Mbit/s by tc, {payload:.3f} of it payload
nodes: {hosts}
{device}
node:
  devices: 1
  vertices: {{socket: [socket0], nic: [veth0]}}
  links:
    - {{between: [dev0, socket0], kind: socket, bandwidth: 30GB/s}}
    - {{between: [veth0, socket0], kind: pci, bandwidth: 30GB/s}}
nic:
  bandwidth: {bytes:.0f}B/s
fabric:
  kind: switch
  tiers:
    - {{name: bridge, latency: 30us}}
"""


def command(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, **options)


def host(number):
    return f"weft-host{number}"


def address(number):
    return f"10.77.31.{number + 1}"


@contextlib.contextmanager
def network(hosts, rate):
    """The namespaces, each with one link to the bridge, which is in a namespace of its own."""
    made = []
    try:
        for name in ["weft-bridge", *map(host, range(hosts))]:
            command("ip", "netns", "add", name)
            made.append(name)
        command("ip", "-n", "weft-bridge", "link", "add", "bridge", "type", "bridge")
        command("ip", "-n", "weft-bridge", "link", "set", "bridge", "up")
        for number in range(hosts):
            join(number, rate)
        yield
    finally:
        for name in made:
            command("ip", "netns", "del", name)


def join(number, rate):
    port = f"port{number}"
    command("ip", "-n", host(number), "link", "add", "veth0", "type", "veth", "peer", "name", port,
            "netns", "weft-bridge")
    command("ip", "-n", "weft-bridge", "link", "set", port, "master", "bridge", "up")
    command("ip", "-n", host(number), "addr", "add", f"{address(number)}/24", "dev", "veth0")
    for device in ("veth0", "lo"):
        command("ip", "-n", host(number), "link", "set", device, "up")
    for space, end in ((host(number), "veth0"), ("weft-bridge", port)):
        command("tc", "-n", space, "qdisc", "add", "dev", end, "root", "tbf", "rate", f"{rate}mbit",
                "burst", "64kb", "limit", "16mb")


class Network(reality.Bench):
    def write_cluster(self, hosts, rate):
        """This machine's core, measured with as many of them at work, on every host."""
        measured = self.cluster(hosts).read_text().split("node:")[0]
        device = "device:" + measured.split("device:")[1].rstrip()
        device = device.replace("overlap_slowdown: 2", "overlap_slowdown: 1")
        path = self.folder / f"network{hosts}-{rate}.yaml"
        path.write_text(CLUSTER.format(hosts=hosts, rate=rate, payload=PAYLOAD, device=device,
                                       bytes=rate * 1e6 / 8 * PAYLOAD))
        return path

    def measure(self):
        for ranks in sorted({row[0] for row in PLANS}):
            if not self.cluster(ranks).exists():
                self.weft("profile", "measure", "--collectives", "--ranks", ranks, "--most", "1MiB",
                          "--db", self.db(ranks), "-o", self.cluster(ranks))
        for hosts, rate, size, degrees in PLANS:
            self.weft("profile", "measure", *self.words(hosts, rate, size, degrees), "--db", self.db(hosts),
                      "--precision", self.options.precision)

    def words(self, hosts, rate, size, degrees):
        cluster = self.write_cluster(hosts, rate)
        return [reality.MODEL, cluster, *reality.SIZES[size].split(), *degrees.split()]

    def train(self, hosts, words):
        if self.options.launcher == "mpi":
            return [self.mpirun(hosts, words)]
        return [self.rank(hosts, number, words) for number in range(hosts)]

    def rank(self, hosts, number, words):
        variables = {"RANK": number, "WORLD_SIZE": hosts, "MASTER_ADDR": address(0), "MASTER_PORT": 29555}
        settings = [f"{name}={value}" for name, value in variables.items()]
        return ["ip", "netns", "exec", host(number), "env", *settings, self.options.weft, *words]

    def mpirun(self, hosts, words):
        """mpirun, in host 0, reaches the others by a program in the place of ssh that enters a namespace. Each has its own
        host name, so that Open MPI does not take them for one machine with shared memory."""
        agent = self.folder / "enter.sh"
        agent.write_text('#!/bin/sh\nnumber=$((${1##*.} - 1)); shift\n'
                         'exec ip netns exec weft-host$number unshare -u sh -c "hostname weft-host$number; $*"\n')
        agent.chmod(0o755)
        within = "10.77.31.0/24"
        return ["ip", "netns", "exec", host(0), "unshare", "-u", "sh", "-c", 'hostname weft-host0; exec "$@"', "mpirun",
                "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm_rsh_agent", agent,
                "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", within, "--mca", "oob_tcp_if_include", within,
                "--host", ",".join(f"{address(number)}:1" for number in range(hosts)), "-n", hosts,
                self.options.weft, *words]

    def run_plan(self, number, hosts, rate, size, degrees):
        log = self.folder / f"network{number}.tsv"
        log.unlink(missing_ok=True)
        plan = self.words(hosts, rate, size, degrees)
        words = ["train", *plan, "--data", reality.TEXT, "--steps", self.options.steps, "--log", log]
        with network(hosts, rate):
            ranks = [subprocess.Popen([str(w) for w in line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                     for line in self.train(hosts, words)]
            said = [rank.communicate()[1] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            sys.exit(f"{' '.join(map(str, words))}:\n" + "\n".join(said))
        tokens = int(degrees.split()[degrees.split().index("--global-batch") + 1]) * 128
        measured = tokens * statistics.median(self.step_seconds(log))
        predicted = self.answer("simulate", *plan, "--profile", self.db(hosts))["iteration_s"]
        return {"name": f"{hosts} hosts, {rate} Mbit/s, {size} {degrees}", "measured": measured, "predicted": predicted}


def tell(rows):
    print(f"{'measured':>10} {'predicted':>10} {'ratio':>6}  plan")
    for row in rows:
        print(f"{row['measured'] * 1e3:7.1f} ms {row['predicted'] * 1e3:7.1f} ms "
              f"{row['measured'] / row['predicted']:6.2f}  {row['name']}")
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    order = reality.correlation([row["measured"] for row in rows], [row["predicted"] for row in rows])
    print(f"{len(rows)} plans: mean error {100 * statistics.mean(errors):.1f} %, worst {100 * max(errors):.1f} %, "
          f"rank correlation {order:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--launcher", choices=["variables", "mpi"], default="variables")
    parser.add_argument("--folder", default="/tmp/weft-network")
    parser.add_argument("--steps", default=6, type=int)
    parser.add_argument("--precision", default="5%")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of plans")
    options = parser.parse_args()
    options.weft = pathlib.Path(options.weft).resolve()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    bench = Network(options)
    bench.measure()
    chosen = [(number, row) for number, row in enumerate(PLANS) if options.only is None or number in options.only]
    tell([bench.run_plan(number, *row) for number, row in chosen])


if __name__ == "__main__":
    main()
