"""Runs large kernels again and again until the power limit decides: what this GPU sustains.

Prints CSV: kernel, type, second since its start, TFLOP/s of the last five seconds (causal attention: of the half that is
computed), watts, MHz and degrees as nvidia-smi has them while it runs. `layer` is the MLP of Llama 2 70B with its
activation and attention of 64 heads over 8,192 positions; its TFLOP/s count products only.
data/profiles/weft/h200_sustained.csv is what it printed on an H200 with a limit of 700 W.
"""
import subprocess
import time
import torch
import torch.nn.functional as F

TOKENS, HIDDEN, FFN, HEADS, DEPTH = 8192, 8192, 28672, 64, 128
EVERY = 5.0
MLP_FLOPS = 2 * TOKENS * HIDDEN * FFN


def sensors():
    query = "--query-gpu=power.draw,clocks.sm,temperature.gpu"
    out = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
    return ",".join(field.strip() for field in out.stdout.split(","))


def watch(kernel, dtype, call, flops, seconds):
    call()
    torch.cuda.synchronize()
    begin = time.time()
    call()
    torch.cuda.synchronize()
    batch = max(1, int(0.4 / (time.time() - begin)))
    begin = time.time()
    while time.time() - begin < seconds:
        start, calls = time.time(), 0
        while time.time() - start < EVERY:
            for _ in range(batch):
                call()
            calls += batch
            if calls > batch:
                torch.cuda.synchronize()
        seen = sensors()
        torch.cuda.synchronize()
        end = time.time()
        print(f"{kernel},{dtype},{end - begin:.1f},{flops * calls / (end - start) / 1e12:.1f},{seen}", flush=True)


class Product:
    """x W^T of three pairs of operands in turn, so that none is found in the cache."""

    def __init__(self, m, n, k, dtype):
        def random(rows, scale):
            return (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) * scale).to(dtype)

        self.operands = [(random(m, 1), random(n, 0.02)) for _ in range(3)]
        self.one = torch.ones((), device="cuda")
        self.calls = 0

    def __call__(self):
        x, w = self.operands[self.calls % 3]
        self.calls += 1
        if x.dtype == torch.bfloat16:
            return x @ w.t()
        return torch._scaled_mm(x, w.t(), self.one, self.one, out_dtype=torch.bfloat16, use_fast_accum=True)


def main():
    print("kernel,dtype,second,tflops,watts,mhz,celsius")
    fp8 = torch.float8_e4m3fn
    watch("8192 x 8192 x 8192", "bf16", Product(8192, 8192, 8192, torch.bfloat16), 2 * 8192**3, 60)
    watch("70B up", "bf16", Product(TOKENS, FFN, HIDDEN, torch.bfloat16), MLP_FLOPS, 15)
    up, down = Product(TOKENS, FFN, HIDDEN, fp8), Product(TOKENS, HIDDEN, FFN, fp8)
    watch("70B up", "fp8", up, MLP_FLOPS, 50)
    watch("70B down", "fp8", down, MLP_FLOPS, 15)
    q = torch.randn(1, HEADS, TOKENS, DEPTH, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(TOKENS, FFN, device="cuda", dtype=torch.bfloat16)

    def attention():
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    def layer():
        up()
        up()
        _ = F.silu(x) * x
        down()
        attention()

    watch("attention", "bf16", attention, 2 * HEADS * TOKENS * TOKENS * DEPTH, 10)
    watch("layer", "fp8", layer, 3 * MLP_FLOPS, 25)


if __name__ == "__main__":
    main()
