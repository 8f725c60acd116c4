#!/usr/bin/env python3
"""Reports in a real browser: they draw themselves, zoom, fit a phone, say nothing on the console.

    check-page.py WEFT [FOLDER]    with a folder, screenshots stay there to be looked at
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WEFT = sys.argv[1]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = {
    "plan": "plan gpt3-13b dgx-a100:4 --global-batch 64 --tp 4 --pp 4",
    "one-stage": "simulate gpt3-1.3b dgx-a100:1 --zero 3 --global-batch 16",
    "deep": "simulate gpt3-175b dgx-a100:96 --tp 8 --pp 96 --global-batch 192 --recompute full",
    "too-full": "simulate gpt3-175b dgx-a100:1 --tp 8 --global-batch 8",
    "cnn": "simulate vgg-19 titan-xp:1 --global-batch 256",
}
LIMIT_BYTES = 2_000_000
SIZES = ("1280,900", "500,900")
# What is done to the page once it is there; the page around it is told the answers.
PROBE = """
<script>
const answers = [];
const before = weft_timeline.range();
const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -500, clientX: box.left + 300, clientY: box.top + 20, bubbles: true, cancelable: true}));
const zoomed = weft_timeline.range();
answers.push("zooms " + (zoomed[1] - zoomed[0] < before[1] - before[0]));
for (let x = 80; x < box.width && !document.getElementById("tip").textContent; x += 4) // a stage may be idle for long
  canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + x, clientY: box.top + 25, bubbles: true}));
answers.push("hovers " + (document.getElementById("tip").textContent.length > 5));
canvas.dispatchEvent(new MouseEvent("dblclick", {bubbles: true}));
answers.push("resets " + (weft_timeline.range()[1] === before[1]));
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
answers.push("draws " + pixels.some(value => value > 0));
answers.push("sections " + document.querySelectorAll("section").length);
answers.push("wider " + (document.documentElement.scrollWidth - innerWidth));
answers.push("sure " + /\\d .* to \\d.* in 8 of 10: \\d+ runs? /.test((document.querySelector(".sure") || {}).textContent));
answers.push("ready " + document.documentElement.dataset.ready);
parent.postMessage([name, answers.join(", ")], "*");
</script></body>"""
# Every page in a frame of every size, one over the other, so that all are in the window: one browser is started, not ten.
AROUND = """<!doctype html><title></title><style>iframe { position: absolute; top: 0; left: 0; border: 0 }</style>
<script>
addEventListener("message", event => {
  const answer = document.createElement("p");
  answer.textContent = event.data.join(": ") + ";";
  document.body.append(answer);
});
</script><body>"""


def browse(page, *flags):
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=2000",
               *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def write(folder, name, arguments):
    page = folder / f"{name}.html"
    code = subprocess.run([WEFT, *arguments.split(), "--report", str(page)], capture_output=True).returncode
    assert code in (0, 1), f"{name}: exit code {code}"
    text = page.read_text()
    assert len(text.encode()) < LIMIT_BYTES, f"{name}: {len(text.encode())} bytes"
    foreign = re.findall(r"""(?:src|href)=|url\(|@import|fetch\(|XMLHttp""", text)
    assert not foreign, f"{name}: reaches out: {foreign}"
    (folder / f"{name}-probed.html").write_text(text.replace("</body>", PROBE))


def probe(folder):
    """{page at size: what its probe answered}"""
    frames = ""
    for name in PAGES:
        for size in SIZES:
            width, height = size.split(",")
            frames += f'<iframe name="{name} at {size}" width={width} height={height} src="{name}-probed.html"></iframe>\n'
    around = folder / "around.html"
    around.write_text(AROUND + frames)
    seen = browse(around, "--window-size=1280,900", "--dump-dom")
    complaints = [line for line in seen.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    return dict(re.findall(r"<p>([^:]*): ([^;]*);</p>", seen.stdout))


def check(name, answers):
    for wanted in ("zooms true", "hovers true", "resets true", "draws true", "sure true", "ready yes"):
        assert wanted in answers, f"{name}: {answers}"
    assert int(re.search(r"wider (-?\d+)", answers).group(1)) <= 0, f"{name}: wider than the window: {answers}"
    assert int(re.search(r"sections (\d+)", answers).group(1)) >= 4, f"{name}: {answers}"


def main():
    if not BROWSER:
        sys.exit("check-page: no browser; install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name, arguments in PAGES.items():
            write(folder, name, arguments)
            if len(sys.argv) > 2:
                browse(folder / f"{name}.html", "--window-size=1100,3400", f"--screenshot={folder / name}.png")
                browse(folder / f"{name}.html", "--window-size=500,3400", "--blink-settings=preferredColorScheme=0",
                       f"--screenshot={folder / name}-phone-dark.png")
        answers = probe(folder)
        for name in PAGES:
            for size in SIZES:
                check(f"{name} at {size}", answers.get(f"{name} at {size}", "the page did not finish"))


main()
