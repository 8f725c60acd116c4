#!/usr/bin/env python3
"""How long the explorer's answer to a drag takes: every slider through all its values, for 175B on 1,024 devices.

    bench/drags.py WEFT [--rounds N]

Each base is a place of the sliders (pp 8 and pp 32 among them) from which one slider at a time is dragged, as the page asks:
a simulation with its timeline per value, brief where the iteration is long. Wall clock is the client's, from the request to the last byte of the answer; CPU is
what the server took, all its threads together. The last line is the 95th percentile over all answers, which is to be under
100 ms on an idle machine.
"""
import argparse
import atexit
import http.client
import json
import signal
import subprocess
import time

MODEL, CLUSTER, BATCH = "gpt3-175b", "dgx-a100:128", 1536
BASES = [{"tp": 8, "pp": 8}, {"tp": 8, "pp": 16}, {"tp": 4, "pp": 32}, {"tp": 8, "pp": 32}]
SLIDERS = ["tp", "pp", "cp", "micro", "virtual"]
FACTORS = ["network", "node_links", "host_links", "memory"]
FACTOR_VALUES = [0.25, 0.5, 0.75, 1.25, 1.5, 2, 3, 4, 8]


class Server:
    def __init__(self, weft):
        self.process = subprocess.Popen([weft, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        self.port = int(self.process.stdout.readline().split(" at ")[1].split(":")[2].split("/")[0])
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, call, body):
        self.connection.request("POST", "/api/v1/" + call, json.dumps(body), {"content-type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def cpu_s(self):
        """Of all threads, those that have ended among them (the process's own clock, by its number)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)


def question(place, what_if=None):
    degrees = {"tp": place["tp"], "pp": place["pp"], "sp": place["tp"] > 1, "zero": 1, "recompute": "full"}
    for name, key in (("cp", "cp"), ("virtual", "pieces")):
        if place.get(name, 1) > 1:
            degrees[key] = place[name]
    return {"question": {"model": MODEL, "cluster": CLUSTER, "batch": {"global": BATCH, "micro": place.get("micro", 1)}, "degrees": degrees},
            "what_if": what_if or {}, "timeline": True, "brief": True}


def drags(server, base):
    """(slider, request) for each value that each slider can have from here."""
    asked = {key: question(base)[key] for key in ("question", "what_if")}
    values = json.loads(server.ask("values", asked)[1])["degrees"]
    for slider in SLIDERS:
        for value in values.get(slider, []):
            if not value.get("why"):
                yield slider, question({**base, slider: value["value"]})
    for factor in FACTORS:
        for value in FACTOR_VALUES:
            yield factor, question(base, {factor: value})


def percentile(list_, share):
    return sorted(list_)[min(len(list_) - 1, int(len(list_) * share))]


def row(name, answers):
    wall, cpu = [1e3 * a[0] for a in answers], [1e3 * a[1] for a in answers]
    print(f"{name:18} {len(answers):7}  {percentile(wall, .5):6.0f} {percentile(wall, .95):6.0f} {max(wall):6.0f}"
          f"   {sum(cpu) / len(cpu):6.0f} {percentile(cpu, .5):6.0f} {percentile(cpu, .95):6.0f} {max(cpu):6.0f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    server = Server(options.weft)
    by_slider, by_base, everything, refused = {}, {}, [], 0
    print(f"{MODEL} on {CLUSTER}, {BATCH} samples an iteration; milliseconds\n")
    print(f"{'':18} {'':7}  {'wall clock':>20}   {'CPU of the server':>27}")
    print(f"{'drag of':18} {'answers':>7}  {'median':>6} {'p95':>6} {'most':>6}   {'mean':>6} {'median':>6} {'p95':>6} {'most':>6}")
    for turn in range(options.rounds):
        for base in BASES:
            for slider, body in drags(server, base):
                cpu, wall = server.cpu_s(), time.perf_counter()
                status, _ = server.ask("simulate", body)
                took = time.perf_counter() - wall, server.cpu_s() - cpu
                if status != 200:
                    refused += 1
                    continue
                pp = body["question"]["degrees"]["pp"]
                everything.append(took)
                by_slider.setdefault(slider, []).append(took)
                by_base.setdefault(pp, []).append(took)
    for slider, answers in by_slider.items():
        row(slider, answers)
    print()
    for pp in sorted(by_base):
        row(f"at pp {pp}", by_base[pp])
    print()
    row("all", everything)
    print(f"{refused} were refused")
    server.process.send_signal(signal.SIGTERM)
    server.process.wait()


main()
