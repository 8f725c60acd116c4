"""Times causal attention with a sliding window, and without: what a window saves on this GPU.

Prints CSV: batch, heads, heads of keys, positions, depth of a head, keys of the window (0: all),
median microseconds forward and backward, by the FlashAttention-2 in PyTorch.
data/profiles/weft/h200_window.csv is what it printed on an H200.
"""
import statistics
import torch

SHAPES = [(1, 64, 8, 4096, 64), (4, 64, 8, 4096, 64), (1, 64, 8, 8192, 64), (1, 32, 8, 8192, 128),
          (2, 32, 8, 8192, 128), (1, 16, 8, 8192, 256), (1, 64, 8, 32768, 64), (1, 4, 1, 8192, 256),
          (2, 32, 8, 4096, 128)]
WINDOWS = [0, 128, 512, 1024, 2048, 4096]


def median_us(call, calls=10, repeats=7):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / calls * 1e3)
    return statistics.median(times)


def random(*size):
    return torch.randn(*size, device="cuda", dtype=torch.bfloat16)


def measured(batch, heads, kv_heads, positions, depth, window):
    q = random(batch, positions, heads, depth)
    k, v = random(batch, positions, kv_heads, depth), random(batch, positions, kv_heads, depth)
    span = {"window_size_left": window - 1, "window_size_right": 0} if window else {}
    sizes = (None, None, positions, positions, 0.0, True)
    attend = torch.ops.aten._flash_attention_forward
    out, sums, state, unused, _ = attend(q, k, v, *sizes, False, **span)
    gradient = torch.randn_like(out)
    forward = median_us(lambda: attend(q, k, v, *sizes, False, **span))
    backward = median_us(lambda: torch.ops.aten._flash_attention_backward(
        gradient, q, k, v, out, sums, *sizes, state, unused, **span))
    return forward, backward


def main():
    print("batch,heads,kv_heads,positions,depth,window,forward_us,backward_us")
    for shape in SHAPES:
        for window in WINDOWS:
            if window < shape[3]:
                forward, backward = measured(*shape, window)
                print(*shape, window, round(forward, 1), round(backward, 1), sep=",", flush=True)


if __name__ == "__main__":
    main()
