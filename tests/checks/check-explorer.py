#!/usr/bin/env python3
"""The explorer: its interface under hostile requests, and people's questions in a real browser, from paste to copied command.

    check-explorer.py WEFT                  the interface, and a few journeys
    check-explorer.py WEFT --all            all journeys
    check-explorer.py WEFT --drag           how long a slider's answer takes: 175B on 1,024 devices
    check-explorer.py WEFT --minutes N      eight clients for so long, hostile requests among them
    check-explorer.py WEFT --shots FOLDER   screenshots

Without chromium the journeys are left out, and the output says so.
"""
import atexit
import base64
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

WEFT = sys.argv[1]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SMALL = {"question": {"model": "gpt3-1.3b", "cluster": "dgx-a100:1", "batch": {"global": 16, "micro": 1}, "degrees": {"tp": 2}}}
LARGE = {"question": {"model": "gpt3-175b", "cluster": "dgx-a100:128", "batch": {"global": 1536, "micro": 1},
                      "degrees": {"tp": 8, "pp": 8, "recompute": "full"}}, "timeline": True}
LLAMA = json.dumps({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
                    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16"})


class Server:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([WEFT, "serve", "--port", "0", *arguments], stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        self.url = self.process.stdout.readline().split(" at ")[1].strip()
        self.port = int(self.url.split(":")[2].split("/")[0])

    def ask(self, path, body=None, headers=None, method=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method or ("POST" if body is not None else "GET"), path, raw,
                           {**({"content-type": "application/json"} if body is not None else {}), **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def allowed(self, path):
        """The status of a method that nothing takes, and what is allowed in its place."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        connection.request("DELETE", path)
        answer = connection.getresponse()
        connection.close()
        return answer.status, answer.headers["Allow"]

    def resident_kib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        return 0

    def core_s(self):
        """What the server took of a core so far, whatever else the machine does."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0, "the server did not end well"


# ---- the interface ------------------------------------------------------------------------------------

HOSTILE = [  # path, body, the statuses that are right
    ("/api/v1/simulate", b"", {400}), ("/api/v1/simulate", b"{", {400}), ("/api/v1/simulate", b"[" * 100000, {400}),
    ("/api/v1/simulate", b'{"question":' * 3000, {400}), ("/api/v1/simulate", b'{"question":"\xff\xfe"}', {400}),
    ("/api/v1/simulate", b"null", {400}), ("/api/v1/simulate", {"question": {}}, {422}), ("/api/v1/simulate", {"question": []}, {422}),
    ("/api/v1/simulate", {"question": {"model": "/etc/passwd", "cluster": "dgx-a100"}}, {422}),
    ("/api/v1/simulate", {"question": {"model": "../x.yaml", "cluster": "dgx-a100"}}, {422}),
    ("/api/v1/simulate", {"question": {"model": "gpt3-13b", "cluster": "/etc/hostname"}}, {422}),
    ("/api/v1/simulate", {"question": {"model": "gpt3-13b", "cluster": "dgx-a100:99999999999"}}, {422}),
    ("/api/v1/simulate", {"question": {"model": "gpt3-13b", "cluster": "dgx-a100:4", "degrees": {"tp": -1}}}, {422}),
    ("/api/v1/simulate", {"question": {"model": "gpt3-13b", "cluster": "dgx-a100:4", "degrees": {"tp": 2 ** 62}}}, {422}),
    ("/api/v1/simulate", {"question": {"model": "gpt3-13b", "cluster": "dgx-a100:4", "options": {"layers": 10 ** 9}}}, {422, 500}),
    ("/api/v1/simulate", {**SMALL, "what_if": {"network": 0}}, {422}), ("/api/v1/simulate", {**SMALL, "what_if": {"x": 2}}, {422}),
    ("/api/v1/simulate", {**SMALL, "files": {"../a": "x"}}, {422}), ("/api/v1/simulate", {**SMALL, "timeline": 7}, {422}),
    ("/api/v1/compare", {"rows": [SMALL] * 99}, {422}), ("/api/v1/compare", {"rows": [3]}, {200, 422}),
    ("/api/v1/compare", {"rows": [{**SMALL, "label": {}}]}, {200, 422}),
    ("/api/v1/grid", {**SMALL, "tp": [0]}, {422}), ("/api/v1/grid", {**SMALL, "tp": list(range(1, 99))}, {422}),
    ("/api/v1/export", SMALL, {422}), ("/api/v1/export", {**SMALL, "to": "nothing"}, {422}),
    ("/api/v1/plan", {**SMALL, "budget_s": -1}, {422}), ("/api/v1/plan", {**SMALL, "planner": "nobody"}, {422}),
    ("/api/v1/nothing", {}, {404}), ("/api/v1/models", {}, {405}), ("/api/v1/stop", {"search": "x"}, {404}), ("/api/v1/" + "a" * 3000, None, {404}),
    ("/api/v1/simulate", None, {405}), ("/../../etc/passwd", None, {404}), ("/x", None, {404}),
    ("/api/v1/simulate", {**SMALL, "timelin": True}, {400}), ("/api/v1/simulate", b'{"question": {"model": 1' + b"0" * 40 + b"}}", {422}),
    ("/api/v1/compare", {"rows": [{**SMALL, "lable": "x"}]}, {422}), ("/api/v1/plan?progress=2", SMALL, {400}),
]


NAMED_BY = {"formats": ("export", "--to"), "planners": ("plan", "--planner"), "schedules": ("simulate", "--schedule"), "dtypes": ("simulate", "--dtype")}


def check_choices(server):
    """What can be chosen is what the program expects where it is given something else."""
    choices = json.loads(server.ask("/api/v1/choices")[1])
    for key, (command, flag) in NAMED_BY.items():
        refused = subprocess.run([WEFT, command, "gpt2", "dgx-a100:1", "--global-batch", "8", flag, "nothing"], capture_output=True, text=True)
        expected = re.split(", | or ", re.search(r"expected (?:one of )?(.*)", refused.stderr)[1])
        assert [one if isinstance(one, str) else one["name"] for one in choices[key]] == expected, (key, choices[key], expected)


def check_interface(server):
    for path in ("models", "clusters", "choices", "openapi.json"):
        status, text = server.ask("/api/v1/" + path)
        assert status == 200 and json.loads(text), path
    check_choices(server)
    status, text = server.ask("/api/v1/simulate", LARGE)
    ours = json.loads(text)
    printed = subprocess.run([WEFT, "simulate", "gpt3-175b", "dgx-a100:128", "--tp", "8", "--pp", "8", "--global-batch", "1536", "--recompute",
                              "full", "--json"], capture_output=True, text=True)
    theirs = json.loads(printed.stdout)
    differ = [key for key in theirs if key not in ("wall_s", "compile_s", "simulate_s") and theirs[key] != ours.get(key)]
    assert status == 200 and not differ, f"simulate differs from the command's: {differ}"
    for path, body, key in (("values", SMALL, "degrees"), ("grid", SMALL, "cells"), ("check", SMALL, "targets"),
                            ("export", {**SMALL, "to": "megatron"}, "text"), ("compare", {"rows": [SMALL, SMALL]}, "rows"),
                            ("plan", {**SMALL, "quick": True}, "plan")):
        status, text = server.ask("/api/v1/" + path, body)
        assert status == 200 and key in json.loads(text), (path, status, text[:300])
    given_dp = {"question": {**SMALL["question"], "degrees": {"dp": 8}}}
    values = {one["value"]: one["why"] for one in json.loads(server.ask("/api/v1/values", given_dp)[1])["degrees"]["tp"]}
    assert values[2] is None and values[8] is None, "dp follows from the other degrees"
    pasted = {"question": {"model": "config.json", "cluster": "dgx-h100:1", "batch": {"global": 8}}, "files": {"config.json": LLAMA}}
    assert server.ask("/api/v1/simulate", pasted)[0] == 200
    memory = {**LARGE, "what_if": {"memory": 0.25}}
    assert json.loads(server.ask("/api/v1/simulate", memory)[1])["memory"][0]["limit"] < ours["memory"][0]["limit"] / 3
    network = json.loads(server.ask("/api/v1/simulate", {**LARGE, "what_if": {"network": 4}})[1])
    assert network["iteration_s"] < ours["iteration_s"]
    across = {"question": {**LARGE["question"], "degrees": {"tp": 16, "pp": 8, "recompute": "full"}}}
    brief, rested = (json.loads(server.ask("/api/v1/simulate", {**across, "brief": b})[1]) for b in (True, False))
    assert brief["sends_apart"] and brief["simulated_micro_batches"] and "sends_apart" not in rested, "groups of 16 leave their node"
    assert abs(brief["iteration_s"] / rested["iteration_s"] - 1) < 0.03


def check_hostile(server):
    for path, body, expected in HOSTILE:
        status, text = server.ask(path, body)
        assert status in expected, (path, str(body)[:100], status, text[:200])
        assert "error" in json.loads(text) or status == 200, (path, text[:100])
    assert server.ask("/api/v1/simulate", SMALL, {"content-type": "text/plain"})[0] == 415
    assert server.ask("/api/v1/simulate", SMALL, {"host": "evil.example"})[0] == 403
    assert server.ask("/api/v1/simulate", SMALL, {"origin": "http://evil.example"})[0] == 403
    for path, allowed in (("models", "GET, HEAD"), ("simulate", "POST"), ("stop", "POST")):
        assert server.allowed("/api/v1/" + path) == (405, allowed), path
    for piece in (b"POST /api/v1/simulate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{", b"GET /", b"\x00\xff" * 50, b"A" * 200000):
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            try:
                half.sendall(piece)
            except OSError:
                pass
    too_long = b'{"question": "' + b"x" * (2 << 20) + b'"}'
    try:
        status, _ = server.ask("/api/v1/simulate", too_long)
        assert status in (400, 413), status
    except (ConnectionError, http.client.HTTPException):
        pass  # read no further
    assert server.ask("/api/v1/simulate", SMALL)[0] == 200, "it answers no more"


def check_cancel(server):
    """A client that leaves does not keep the server busy; a search that is stopped has its best so far."""
    body = json.dumps({"question": {"model": "gpt3-175b", "cluster": "dgx-a100:128", "batch": {"global": 1536}}}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /api/v1/plan HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.5)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("POST", "/api/v1/plan?progress=1", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    number = json.loads(answer.readline())["search"]
    last = {}
    for line in answer:
        last = json.loads(line)
        if last.get("progress", {}).get("best_s"):
            server.ask("/api/v1/stop", {"search": number})
    assert "answer" in last and last["answer"]["stopped"], str(last)[:300]


def check_token():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("0123456789abcdef0123\n")
        file.flush()
        server = Server("--token-file", file.name)
        assert server.ask("/api/v1/models")[0] == 401
        assert server.ask("/api/v1/models", headers={"authorization": "Bearer 0123456789abcdef0124"})[0] == 401
        assert server.ask("/api/v1/models", headers={"authorization": "Bearer "})[0] == 401
        assert server.ask("/api/v1/models", headers={"authorization": "Bearer 0123456789abcdef0123"})[0] == 200
        server.end()


def check_growth(server):
    for _ in range(20):
        server.ask("/api/v1/simulate", LARGE)
    before = server.resident_kib()
    for _ in range(60):
        server.ask("/api/v1/simulate", LARGE)
        server.ask("/api/v1/grid", SMALL)
        server.ask(*random.choice(HOSTILE)[:2])
    grown = server.resident_kib() - before
    assert grown < 30000, f"memory grew by {grown} KiB"


def check_assistant():
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}},
             {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
             {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "simulate", "arguments": SMALL}},
             {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "validate", "arguments": SMALL}},
             {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "export", "arguments": {**SMALL, "to": "megatron"}}},
             {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "plan", "arguments": {**SMALL, "quick": True}}},
             {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "simulate", "arguments": {"question": {"model": "/etc/passwd", "cluster": "x"}}}},
             {"jsonrpc": "2.0", "id": 8, "method": "nothing"}]
    text = "\n".join(map(json.dumps, lines)) + "\nnot json\n[1]\n" + "x" * (3 << 20) + "\n"
    done = subprocess.run([WEFT, "mcp"], input=text, capture_output=True, text=True, timeout=120)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(answers) == 11, (done.returncode, len(answers), done.stderr)
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["plan", "simulate", "validate", "export"]
    for answer in answers[2:6]:
        assert not answer["result"]["isError"], answer
    assert answers[2]["result"]["structuredContent"]["iteration_s"] > 0
    assert answers[6]["result"]["isError"] and answers[7]["error"]["code"] == -32601
    assert [answer["error"]["code"] for answer in answers[8:]] == [-32700, -32600, -32700]


# ---- the browser ----------------------------------------------------------------------------------------

HELP = """
const ready = async () => { for (let i = 0; i < 600; i++) { await new Promise(r => setTimeout(r, 25)); if (document.documentElement.dataset.ready) return document.documentElement.dataset.ready; } return "never"; };
const until = async f => { for (let i = 0; i < 1600; i++) { if (f()) return true; await new Promise(r => setTimeout(r, 25)); } throw new Error("waited in vain for " + f); };
const set = async (id, v) => { const e = document.getElementById(id); e.focus(); e.value = v; e.dispatchEvent(new Event(e.tagName === "SELECT" ? "change" : "input", {bubbles: true})); e.blur(); return ready(); };
const click = async id => { document.getElementById(id).click(); return ready(); };
const degree = async (name, v) => { await until(() => [...document.querySelectorAll("#values-" + name + " button")].some(b => b.textContent == v)); [...document.querySelectorAll("#values-" + name + " button")].find(b => b.textContent == v).click(); return ready(); };
const text = id => document.getElementById(id).textContent;
const copied = async id => { window.weft_copied = undefined; document.getElementById(id).click(); await until(() => window.weft_copied !== undefined || text("copied")); return window.weft_copied || text("copied"); };
const gridReady = () => until(() => document.querySelectorAll("#grid button").length > 3);
"""
CONFIG = json.dumps(LLAMA)
JOURNEYS = {  # a person's question, and what must be true at its end
    "how long does gpt3-13b take on four nodes": 'await ready(); return /an iteration/.test(text("numbers")) && /weft simulate gpt3-13b dgx-a100:4 --tp 8/.test(await copied("copy-command"))',
    "what of my own config.json": f'await ready(); await set("model", "(pasted)"); await set("model-text", {CONFIG}); await set("cluster", "dgx-h100"); return document.documentElement.dataset.ready === "yes" && /weft simulate config.json dgx-h100:4/.test(await copied("copy-command"))',
    "the best plan for it": 'await ready(); await set("model", "gpt3-1.3b"); await set("nodes", 1); document.getElementById("find").click(); await until(() => !document.getElementById("find").disabled); await ready(); return /plans in/.test(text("search")) && /--tp/.test(await copied("copy-command"))',
    "why can tp not be 16": 'await ready(); await gridReady(); const b = [...document.querySelectorAll("#grid button.no")].find(b => /tp 16, pp 1:/.test(b.title)); b.click(); return text("cell").length > 20',
    "what Megatron needs": 'await ready(); return /--tensor-model-parallel-size 8/.test(await copied("copy-megatron"))',
    "a link that holds the question": 'await ready(); await degree("tp", 4); const link = await copied("copy-link"); location.hash = ""; await ready(); location.hash = link.split("#")[1]; await ready(); return text("value-tp") === "4"',
    "does it fit with less memory": 'await ready(); await set("range-memory", 0); return /does not fit/.test(text("verdict")) || /of 1[0-9.]+ GiB/.test(text("memory"))',
    "what a faster network brings": 'await ready(); const before = text("numbers"); await set("range-network", 0); return text("numbers") !== before',
    "two plans side by side": 'await ready(); await click("keep-plan"); await degree("tp", 4); await click("keep-plan"); await until(() => document.querySelectorAll("#compared tr").length === 3); return true',
    "at most four plans": 'await ready(); for (let i = 0; i < 6; i++) document.getElementById("keep-plan").click(); await until(() => document.querySelectorAll("#compared tr").length === 5); return true',
    "back to a plan that was kept": 'await ready(); await click("keep-plan"); await degree("tp", 2); await until(() => document.querySelector("#compared td button")); document.querySelector("#compared td button").click(); await ready(); return text("value-tp") === "8"',
    "a cell of the grid": 'await ready(); await gridReady(); [...document.querySelectorAll("#grid button")].find(b => /^tp 2, pp 2:/.test(b.title)).click(); await ready(); return text("value-tp") === "2" && text("value-pp") === "2"',
    "memory of the grid": 'await ready(); await gridReady(); document.getElementById("shown").value = "memory"; document.getElementById("shown").dispatchEvent(new Event("change")); return /GiB/.test(text("grid"))',
    "dragging a slider": 'await ready(); await until(() => document.getElementById("range-tp").max > 2); const r = document.getElementById("range-tp"); for (const v of [0, 1, 2, 3, 2]) { r.value = v; r.dispatchEvent(new Event("input")); } await ready(); return text("value-tp") === "4"',
    "full recomputation": 'await ready(); await set("recompute", "full"); return /recomputed/.test(text("times")) && /--recompute full/.test(await copied("copy-command"))',
    "state sharded over replicas": 'await ready(); await degree("tp", 1); await set("zero", "3"); return /--zero 3/.test(await copied("copy-command"))',
    "a pipeline with pieces": 'await ready(); await degree("pp", 2); await until(() => [...document.querySelectorAll("#values-virtual button")].some(b => b.textContent == 4)); await degree("virtual", 4); return document.documentElement.dataset.ready === "yes" && /--virtual 4/.test(await copied("copy-command"))',
    "a mixture of experts": 'await ready(); await set("model", "mixtral-8x7b"); await set("cluster", "dgx-h100"); await degree("tp", 1); await degree("ep", 8); return document.documentElement.dataset.ready === "yes" && /--ep 8/.test(await copied("copy-command"))',
    "longer sequences": 'await ready(); await set("seq", 4096); return /--seq 4096/.test(await copied("copy-command"))',
    "another type": 'await ready(); await set("cluster", "dgx-h100"); await set("dtype", "fp8"); return document.documentElement.dataset.ready === "yes" && /--dtype fp8/.test(await copied("copy-command"))',
    "a batch that does not divide": 'await ready(); await set("global", 63); return document.documentElement.dataset.ready === "error" && /63/.test(text("verdict"))',
    "a config with a mistake": 'await ready(); await set("model", "(pasted)"); await set("model-text", \'{"model_type": "llama",}\'); return document.documentElement.dataset.ready === "error" && /config.json:1/.test(text("verdict"))',
    "175B on 1,024 devices": 'await ready(); await set("model", "gpt3-175b"); await set("nodes", 128); await set("global", 1536); await degree("pp", 8); await set("recompute", "full"); await until(() => /1,024 devices/.test(text("about"))); return document.documentElement.dataset.ready === "yes"',
    "stopping a search": 'await ready(); await set("nodes", 16); document.getElementById("find").click(); await until(() => /plans|best/.test(text("search")) || document.getElementById("find").disabled === false); document.getElementById("stop").click(); await until(() => !document.getElementById("find").disabled); return text("search").length > 5',
    "my one GPU": 'await ready(); await set("model", "gpt2"); await set("cluster", "gh200"); await set("nodes", 1); await degree("tp", 1); await until(() => / 1 device$/.test(text("about"))); return /, 12 layers,/.test(text("about")) && /weft simulate gpt2 gh200:1/.test(await copied("copy-command"))',
    "nothing fits": 'await ready(); await set("model", "gpt3-175b"); await set("nodes", 1); return /does not fit/.test(text("verdict"))',
}
FEW = ["how long does gpt3-13b take on four nodes", "what of my own config.json", "a link that holds the question", "a cell of the grid", "a batch that does not divide", "my one GPU"]


class Browser:
    """Chromium, driven over a pipe by its own protocol."""

    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.frm, from_write = os.pipe()

        def ends():
            keep = os.dup(to_read), os.dup(from_write)
            os.dup2(keep[0], 3)
            os.dup2(keep[1], 4)
        self.process = subprocess.Popen([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                                         f"--user-data-dir={folder}", "about:blank"], preexec_fn=ends, close_fds=False, stderr=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        os.close(to_read), os.close(from_write)
        self.buffer, self.number, self.session, self.console = b"", 0, None, []

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                part = os.read(self.frm, 1 << 16)
                assert part, "the browser ended"
                self.buffer += part
            raw, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(raw)
            if answer.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                self.console.append(str(answer["params"])[:400])
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url, width=1300, dark=False):
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1150, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setTouchEmulationEnabled", enabled=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        for _ in range(400):
            time.sleep(0.025)
            seen = self.call("Runtime.evaluate", expression="document.documentElement?.dataset.ready", returnByValue=True)
            if seen["result"].get("value"):
                break
        return target

    def run(self, code):
        answer = self.call("Runtime.evaluate", expression="(async () => {" + HELP + code + "})()", awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, str(answer["exceptionDetails"])[:500]
        return answer["result"].get("value")

    def press(self, key, times=1):
        """A key of the keyboard, as a person presses it."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key]
        for _ in range(times):
            text = {"Enter": "\r", " ": " "}.get(key)
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=code,
                          **({"text": text} if text and kind == "keyDown" else {}))

    def picture(self, width, height):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                                          clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})["data"])

    def close(self, target):
        self.session = None
        self.call("Target.closeTarget", targetId=target)

    def end(self):
        self.process.terminate()
        self.process.wait()


STOPS = ("model cluster nodes global seq dtype range-tp range-pp zero recompute schedule sp offload range-network range-node_links range-host_links "
         "range-memory find keep copy-command copy-megatron copy-link timeline shown cell keep-plan clear").split()
FOCUSED = """const e = document.activeElement, s = getComputedStyle(e), box = e.getBoundingClientRect();
return {name: e.dataset.cell ? "cell" : e.id || e.tagName, seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && box.width > 0, inside: box.right <= innerWidth + 1}"""


def tab_stops(browser):
    """What the Tab key comes to, once around the page."""
    stops = []
    for _ in range(80):
        browser.press("Tab")
        at = browser.run(FOCUSED)
        if at["name"] == "BODY" or (stops and at["name"] == stops[0]["name"]):
            break
        stops.append(at)
    return stops


def check_names(browser):
    """Everything that a screen reader can come to has a name."""
    roles = {"button", "slider", "combobox", "textbox", "spinbutton", "checkbox", "image", "table", "application", "progressbar"}
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    nameless = [n["role"]["value"] for n in nodes if not n.get("ignored") and n.get("role", {}).get("value") in roles and not n.get("name", {}).get("value")]
    assert not nameless, f"without a name: {nameless}"
    assert sum(n.get("role", {}).get("value") == "slider" for n in nodes) >= 8


def check_keyboard(browser, server):
    """A person without a mouse: every control in order, visibly; sliders, grid, timeline, search and copy by keys alone."""
    target = browser.open(server.url)
    browser.run("await gridReady(); await until(() => +document.getElementById('range-tp').max > 2); return 1")
    stops = tab_stops(browser)
    names = [stop["name"] for stop in stops]
    assert [n for n in names if n in STOPS] == STOPS, f"the Tab key comes to {names}"
    assert all(stop["seen"] for stop in stops), f"no focus to be seen on {[s['name'] for s in stops if not s['seen']]}"
    check_names(browser)
    browser.run('document.getElementById("range-tp").focus(); return 1')
    browser.press("ArrowLeft")
    assert browser.run('await ready(); return text("value-tp") + document.getElementById("range-tp").getAttribute("aria-valuetext")') == "44"
    browser.run('await new Promise(r => setTimeout(r, 400)); await until(() => document.querySelector("#grid button.here")?.dataset.cell === "4,1"); document.querySelector("#grid button.here").focus(); return 1')
    browser.press("ArrowDown")
    browser.press("ArrowLeft")
    browser.press("Enter")
    assert browser.run('await until(() => document.querySelector("#grid button.here")?.dataset.cell === "2,2"); return document.activeElement.dataset.cell + text("value-pp")') == "2,22"
    assert browser.run('return document.querySelectorAll("#grid button[tabindex=\'0\']").length') == 1
    browser.run('document.getElementById("timeline").focus(); return 1')
    browser.press("ArrowRight", 2)
    browser.press("ArrowDown")
    assert browser.run('return text("tip")').startswith("stage 1"), browser.run('return text("tip")')
    browser.run('document.getElementById("copy-command").focus(); return 1')
    browser.press("Enter")
    assert "--tp 2 --pp 2" in browser.run('await until(() => window.weft_copied); return window.weft_copied')
    browser.run('document.getElementById("range-memory").focus(); return 1')
    browser.press("ArrowRight")
    assert "--what-if memory=1.25" in browser.run('await ready(); return copied("copy-command")')
    browser.run('document.getElementById("keep-plan").focus(); return 1')
    browser.press(" ")
    link = browser.run('await until(() => document.querySelectorAll("#compared tr").length === 2); return copied("copy-link")')
    browser.close(target)
    target = browser.open(link)
    assert browser.run('await until(() => document.querySelectorAll("#compared tr").length === 2); return text("value-memory") + text("value-tp")') == "1.25×2", "the link lost something"
    browser.close(target)


# Text against what is behind it, by the formula of WCAG 2.1 (1.4.3); controls that are disabled need none.
CONTRAST = """
const numbers = c => { const m = c.match(/[\\d.]+/g).map(Number), whole = c.startsWith("color(") ? 255 : 1; return [m[0] * whole, m[1] * whole, m[2] * whole, m[3] ?? 1]; };
const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = e => { const layers = []; for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] === 1) break; } return layers.reverse().reduce((below, c) => over(c, below), [255, 255, 255, 1]); };
const pale = [];
for (const e of document.querySelectorAll("body *")) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.disabled || e.tagName === "SCRIPT" || e.tagName === "OPTION") continue;
  const back = behind(e), ink = over(numbers(getComputedStyle(e).color), back), [x, y] = [light(ink), light(back)].sort((a, b) => b - a), ratio = (x + 0.05) / (y + 0.05);
  if (ratio < 4.5) pale.push([ratio.toFixed(2), e.tagName, e.id || e.className, e.textContent.trim().slice(0, 20)]);
}
const small = innerWidth > 600 ? [] : [...document.querySelectorAll("button, select, input")].filter(e => e.checkVisibility() && !e.disabled && e.type !== "checkbox").map(e => [e.id || e.textContent, e.getBoundingClientRect()]).filter(([, b]) => b.width < 24 || b.height < 24).map(([n, b]) => [n, b.width, b.height]);
return {pale, small, wider: document.documentElement.scrollWidth - innerWidth}"""


def check_sight(browser, server, width, dark):
    target = browser.open(server.url, width, dark)
    browser.run('await gridReady(); await click("keep-plan"); await degree("pp", 2); await until(() => document.querySelectorAll("#compared tr").length === 2); await new Promise(r => setTimeout(r, 500)); return 1')
    found = browser.run(CONTRAST)
    assert not found["pale"], f"too pale at {width} pixels{', dark' if dark else ''}: {found['pale'][:6]}"
    assert not found["small"], f"too small for a finger: {found['small'][:6]}"
    assert found["wider"] <= 0, f"{found['wider']} pixels wider than {width}"
    browser.close(target)


def journeys(server, names):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a browser ends in its own time
        browser = Browser(folder)
        failed = []
        for i, name in enumerate(names):
            target = browser.open(server.url, 360 if i % 4 == 3 else 1300, i % 3 == 1)
            try:
                good = browser.run(JOURNEYS[name])
                wider = browser.run("return document.documentElement.scrollWidth - innerWidth")
                if not good or wider > 0:
                    failed.append((name, f"wider {wider}" if good else browser.run('return text("verdict") + " | " + text("copied") + " | " + text("search")')))
            except AssertionError as error:
                failed.append((name, str(error)))
            browser.close(target)
        check_keyboard(browser, server)
        for width, dark in ((1300, False), (360, True)):
            check_sight(browser, server, width, dark)
        complaints = browser.console
        browser.end()
    assert not failed, failed
    assert not complaints, complaints
    print(f"{len(names)} journeys pass, and the page by keyboard, by touch and by its contrast")


def drag(server):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        browser.open(server.url)
        before = server.core_s()
        times = browser.run('await ready(); await set("model", "gpt3-175b"); await set("nodes", 128); await set("global", 1536); await set("recompute", "full"); await degree("pp", 8);'
                            'await until(() => document.getElementById("range-pp").max > 3); await new Promise(r => setTimeout(r, 3000)); window.weft_answers = [];'
                            'for (let i = 0; i < 200; i++) { const r = document.getElementById(i % 40 < 20 ? "range-pp" : "range-tp"); r.value = (i * 7) % (+r.max + 1); r.dispatchEvent(new Event("input")); await ready(); } return window.weft_answers')
        browser.end()
    times.sort()
    print(f"{len(times)} answers: median {times[len(times) // 2]:.0f} ms, 95th percentile {times[len(times) * 95 // 100]:.0f} ms, longest {times[-1]:.0f} ms; "
          f"{1e3 * (server.core_s() - before) / len(times):.0f} ms of a core each")
    return times[len(times) * 95 // 100]


def clients(server, minutes):
    until, counts, failures, longest = time.time() + 60 * minutes, {}, [], [0]

    def one(seed):
        rng = random.Random(seed)
        while time.time() < until:
            path, body, expected = rng.choice([("/api/v1/simulate", LARGE, {200}), ("/api/v1/grid", SMALL, {200}), ("/api/v1/values", {"question": LARGE["question"]}, {200}),
                                               ("/api/v1/plan", {**SMALL, "quick": True}, {200}), rng.choice(HOSTILE), rng.choice(HOSTILE)])
            began = time.time()
            try:
                status, _ = server.ask(path, body)
                counts[status] = counts.get(status, 0) + 1
                if status not in expected | {503}:
                    failures.append((path, status, str(body)[:100]))
            except (ConnectionError, http.client.HTTPException, TimeoutError) as error:
                failures.append((path, repr(error), str(body)[:100]))
            longest[0] = max(longest[0], time.time() - began)
    for _ in range(30):
        server.ask("/api/v1/simulate", LARGE)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    [thread.start() for thread in threads]
    time.sleep(min(60, 20 * minutes))
    early = server.resident_kib()
    [thread.join() for thread in threads]
    late = server.resident_kib()
    print(f"{minutes} minutes, 8 clients: statuses {counts}, longest {longest[0]:.1f} s, memory {early} KiB after the first minute, {late} KiB at the end")
    assert not failures, f"{len(failures)} unexpected: {failures[:3]}"
    assert late < early + 30000, f"memory grew by {late - early} KiB"


def shots(server, folder):
    folder = pathlib.Path(folder)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        browser = Browser(temporary)
        for name, width, dark in (("explorer", 1300, False), ("explorer-phone-dark", 390, True)):
            browser.open(server.url, width, dark)
            browser.run('await ready(); await set("model", "gpt3-175b"); await set("nodes", 128); await set("global", 1536); await set("recompute", "full"); await degree("pp", 8); await gridReady(); await click("keep-plan"); await degree("pp", 16); await click("keep-plan"); await new Promise(r => setTimeout(r, 4000)); return 1')
            (folder / f"{name}.png").write_bytes(browser.picture(width, 1500 if width > 600 else 2600))
        browser.end()


def main():
    options = sys.argv[2:]
    server = Server()
    if "--minutes" in options:
        clients(server, float(options[options.index("--minutes") + 1]))
    elif "--drag" in options:
        drag(server)
    elif "--shots" in options:
        shots(server, options[options.index("--shots") + 1])
    else:
        if "--all" not in options:
            check_interface(server)
            check_hostile(server)
            check_cancel(server)
            check_growth(server)
            check_token()
            check_assistant()
        if BROWSER:
            journeys(server, list(JOURNEYS) if "--all" in options else FEW)
        else:
            print("no journeys: chromium is not installed")
    server.end()


main()
