#!/usr/bin/env bash
# Kernels and runs on this machine's GPU, by the tests that hold the CPU's: what `make test-gpu` runs after it has built them.
#
#   tools/test-gpu.sh BUILD PROCESSES              all of it
#   tools/test-gpu.sh BUILD PROCESSES PART...      some of it
#
#   kernels    every kernel, 300 random shapes of each, whole and in parts, in fp32, bf16, fp16 and fp8
#   choices    products by algorithms that are chosen by measuring, whatever the shape; algorithms that cuBLASLt refuses
#   runs       plans of up to 8 ranks over 20 steps, random delays, failures at any time, ranks by MPI and NCCL
#   sanitizer  every kernel's memory accesses and races under compute-sanitizer, where it is there
#   losses     plans of processes that share the GPU under NCCL against one rank
#   failures   a rank killed at 30 moments
#
# Most of a test's time is the reference's on the CPU, so a test is shared by several processes (tests/support/rounds.h).
set -uo pipefail
build=$1
processes=$2
shift 2
[ $# -gt 0 ] || set -- kernels choices runs sanitizer losses failures
bench=$(cd "$(dirname "$0")/../bench" && pwd)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export WEFT_TEST_DEVICE=cuda

# begin NAME COMMAND...: in the background, which says how it ended
begin() {
    (
        "${@:2}" >"$logs/$1" 2>&1
        code=$?
        [ $code = 0 ] && echo "$1: passed, $((SECONDS - began)) s" && exit
        echo "$1: failed with $code, $((SECONDS - began)) s"
        tail -n 40 "$logs/$1"
        touch "$logs/failed"
    ) &
}
in_parts() {
    for ((i = 1; i <= $2; i++)); do
        begin "$1-$i" env WEFT_TEST_PERCENT=340 "WEFT_TEST_PART=$i/$2" "$build/tests/$1"
    done
}

for part in "$@"; do
    began=$SECONDS
    case $part in
    kernels)
        in_parts test_kernels "$processes"
        in_parts test_precision $((processes / 4 + 1))
        ;;
    choices)
        begin test_choices "$build/tests/test_choices"
        for test in test_kernels test_precision; do
            for ((i = 1; i <= processes / 4 + 1; i++)); do
                begin "chosen-$test-$i" env WEFT_TEST_PERCENT=20 WEFT_TEST_CHOICES=1 \
                    "WEFT_TEST_PART=$i/$((processes / 4 + 1))" "$build/tests/$test"
            done
        done
        ;;
    runs)
        in_parts test_run $((processes / 2 + 1))
        in_parts test_run_order $((processes / 4 + 1))
        for test in test_run_network test_run_limits test_run_bf16 test_run_precision test_run_state test_run_mpi; do
            begin $test env WEFT_TEST_PERCENT=340 "$build/tests/$test"
        done
        ;;
    sanitizer)
        command -v compute-sanitizer >/dev/null || { echo "sanitizer: compute-sanitizer is not here"; continue; }
        for test in test_kernels test_precision test_run; do
            begin "memcheck-$test" env WEFT_TEST_PERCENT=2 compute-sanitizer --error-exitcode 9 "$build/tests/$test"
        done
        # What is inside cuDNN's attention is reported, and not ours.
        begin racecheck-test_kernels env WEFT_TEST_PERCENT=2 WEFT_ATTENTION=own compute-sanitizer --tool racecheck \
            --error-exitcode 9 "$build/tests/test_kernels"
        ;;
    losses) begin losses "$bench/same_losses.py" "$build/weft" --device cuda ;;
    failures) begin failures "$bench/failures.py" "$build/weft" --device cuda --at-once 4 ;;
    *) echo "no part is called $part" && exit 2 ;;
    esac
    wait
    case $part in losses | failures) cat "$logs/$part" ;; esac
done
[ ! -e "$logs/failed" ]
