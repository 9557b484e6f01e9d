#!/bin/sh
# Record a small run of an installed compressor: COREBRAID is the command, FOLDER where recordings go.
# Usage: demo.sh COREBRAID FOLDER
set -eu
corebraid=$1 folder=$2
text=$folder/text
cat README.md docs/*.md > "$text"

record() {
    echo "# A Linux program as it is installed: $*"
    "$corebraid" record -o "$folder/compressor" -- "$@" < /dev/null > "$folder/compressed"
    "$corebraid" replay "$folder/compressor" --core 1
    "$corebraid" order "$folder/compressor" | tail -n 1
}

if command -v pigz > /dev/null; then
    record pigz -p 4 -c "$text"
    unpack="pigz -dc"
elif command -v zstd > /dev/null; then
    record zstd -T2 -qc "$text"
    unpack="zstd -qdc"
elif command -v gzip > /dev/null; then
    record gzip -c "$text"
    unpack="gzip -dc"
else
    echo "# No compressor is installed (pigz, zstd or gzip), so no Linux program is recorded here."
    exit 0
fi
$unpack < "$folder/compressed" | cmp - "$text"
echo "What it wrote unpacks to the original. The recording is $folder/compressor."
