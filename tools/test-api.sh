#!/bin/sh
# test-api.sh WEFT FOLDER [EXAMPLES] - has schemathesis ask the explorer's interface what its description allows, and what it does not.
#
# Installs schemathesis from the Python package index into FOLDER once. Exits 1 if an answer is none that openapi.json describes.
set -eu
weft=$1 folder=$2 examples=${3:-50}
here=$(dirname "$0")
if [ ! -x "$folder/bin/schemathesis" ]; then
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet "schemathesis==4.32.5"
fi
rm -f "$folder/address"
"$weft" serve --port 0 >"$folder/address" &
server=$!
trap 'kill $server' EXIT
until [ -s "$folder/address" ]; do sleep 0.1; done
address=$(sed 's/.* at //; s:/$::' "$folder/address")
"$folder/bin/schemathesis" --config-file "$here/test-api.toml" run "$address/api/v1/openapi.json" \
    --max-examples "$examples" --request-timeout 30
