#!/usr/bin/env bash
# `pip install .` in an environment of its own, used away from this tree: the module runs the example of
# docs/reference/python.md, `weft` and `python -m weft` plan, and the library and its databases are the wheel's own.
#
#   tools/wheel-check.sh FOLDER
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
rm -rf "$folder/venv" "$folder/away"
python3 -m venv "$folder/venv"
bin=$folder/venv/bin
"$bin/pip" install -q "$source"

mkdir "$folder/away"
ln -s "$source/data" "$folder/away/data" # the example opens a plan of it
cd "$folder/away"
# shellcheck disable=SC2016  # no command: a fence of Markdown
sed -n '/^```python$/,/^```$/{//!p}' "$source/docs/reference/python.md" >example.py
unset PYTHONPATH WEFT_LIBRARY
echo '== Python'
"$bin/python" example.py
test -s plan.json
echo '== the program'
"$bin/weft" plan gpt3-1.3b dgx-v100:1 --global-batch 16 --quick | sed -n '1p; /^iteration/p'
"$bin/weft" inspect gpt3-13b --on dgx-v100 --json | grep '"measured": ' >/dev/null # the databases are found
"$bin/python" -m weft --version
echo '== what is inside'
"$bin/pip" show -f weft | grep -c '^  weft/' | sed 's/$/ files/'
"$bin/python" - <<'TEXT'
import sys, weft
weft.version()
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libweft" in line}
assert maps and all(path.startswith(sys.prefix) for path in maps), maps
print("the library is the wheel's own")
TEXT
