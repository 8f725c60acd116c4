"""Times matrix products whose sizes are not multiples of 8: what misalignment costs on this GPU.

Prints CSV: operation, dtype, m, n, k, alignment of n and of k in elements (8: or more), median
microseconds, TFLOP/s. data/profiles/weft/h200_alignment.csv is what it printed on an H200.
"""
import statistics
import torch

def median_us(call, repeats=30):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(); call(); end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)

def alignment(size):
    return size & -size if size & 7 else 8

def main():
    print("operation,dtype,m,n,k,align_n,align_k,us,tflops")
    for dtype in (torch.float16, torch.bfloat16):
        for name, batch, m, n, k in (("linear", 0, 4096, 4096, 4096), ("linear", 0, 4096, 918, 7344),
                                     ("linear", 0, 4096, 2754, 7344), ("linear", 0, 4096, 3672, 7344),
                                     ("linear", 0, 4096, 7344, 918), ("linear", 0, 4096, 7344, 3672),
                                     ("linear", 0, 4096, 920, 7344), ("linear", 0, 4096, 2752, 7344),
                                     ("linear", 0, 4096, 7344, 920),
                                     ("score", 24, 1024, 1024, 128), ("score", 24, 1024, 1024, 153),
                                     ("score", 24, 1024, 1024, 160), ("context", 24, 1024, 153, 1024),
                                     ("context", 24, 1024, 160, 1024), ("context", 24, 1024, 128, 1024)):
            deltas = (0, 1, 2, 4) if (n, k) == (4096, 4096) else (0,)
            for dn in deltas:
                for dk in deltas:
                    nn, kk = n + dn, k + dk
                    if batch:
                        a = torch.randn(batch, m, kk, device="cuda", dtype=dtype)
                        b = torch.randn(batch, kk, nn, device="cuda", dtype=dtype)
                        call = lambda: torch.bmm(a, b)
                    else:
                        a = torch.randn(m, kk, device="cuda", dtype=dtype)
                        b = torch.randn(nn, kk, device="cuda", dtype=dtype)
                        call = lambda: torch.nn.functional.linear(a, b)
                    us = median_us(call)
                    tflops = 2 * max(batch, 1) * m * nn * kk / us / 1e6
                    print(f"{name},{str(dtype)[6:]},{m},{nn},{kk},{alignment(nn)},{alignment(kk)},{us:.1f},{tflops:.1f}", flush=True)

main()
