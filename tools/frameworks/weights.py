#!/usr/bin/env python3
"""Weights from and for transformers: the same losses, the same logits, and the same numbers back.

  tools/frameworks/weights.py WEFT FOLDER      FOLDER is for files of its own

For small random models of the families gpt2 and llama, tied and not, with stretched positions, in one file and in several:

  1. transformers write a folder; `weft train --from` begins with it at a rate of nearly 0, and the loss of each step
     equals that of transformers for the same tokens;
  2. `--to` writes the weights again: the same numbers, and transformers load them to the same logits within 1e-4;
  3. after steps that learn, what `--to` wrote has, loaded by transformers, the loss of the run's next step.

Needs PyTorch and transformers; downloads nothing.
"""
import pathlib
import shutil
import subprocess
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

SEQ, SAMPLES = 32, 6
COMMON = {"vocab_size": 200}
CASES = {
    "gpt2": GPT2Config(n_layer=2, n_head=4, n_embd=64, n_positions=SEQ, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, **COMMON),
    "llama": LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=64,
                         intermediate_size=96, max_position_embeddings=SEQ, rms_norm_eps=0.02, **COMMON),
    "llama-tied": LlamaConfig(num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=8, hidden_size=128,
                              intermediate_size=160, max_position_embeddings=SEQ, rms_norm_eps=1e-5,
                              tie_word_embeddings=True, rope_theta=500000.0, **COMMON),
    # heads of 32 features, so that some pairs keep their rate, some turn slower, and some are in between
    "llama-3.1": LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, hidden_size=128,
                             intermediate_size=96, max_position_embeddings=16384, rms_norm_eps=1e-5, rope_theta=10000.0,
                             rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                           "original_max_position_embeddings": 8192}, **COMMON),
}


def train(weft, folder, model, tokens, *more):
    log = folder / "log.tsv"
    log.unlink(missing_ok=True)
    done = subprocess.run([weft, "train", str(model), "h200:1", "--dtype", "fp32", "--seq", str(SEQ), "--data",
                           str(tokens), "--data-format", "uint16", "--micro-batch", "1", "--global-batch", "1",
                           "--weight-decay", "0", "--log", str(log), *map(str, more)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [float(line.split("\t")[1]) for line in log.read_text().splitlines()[1:]]


def losses(model, tokens):
    """Of every window of the file: Weft's order of samples is not that of the file, so they are compared sorted."""
    windows = torch.tensor(tokens.astype(numpy.int64)).unfold(0, SEQ + 1, SEQ)
    with torch.no_grad():
        logits = model(windows[:, :-1]).logits
        each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none")
    return each.mean(dim=1).tolist(), logits


def differ(one, other):
    return max(abs(a - b) for a, b in zip(sorted(one), sorted(other)))


def check(weft, folder, name, config):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # biases and gains that are not all the same
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    source, copy, tuned = (folder / f"{name}-{what}" for what in ("source", "copy", "tuned"))
    model.save_pretrained(source, max_shard_size="60KB" if name == "llama" else "1GB")
    tokens = numpy.random.default_rng(1).integers(0, 200, SAMPLES * SEQ + 1).astype(numpy.uint16)
    tokens.tofile(folder / "tokens.bin")
    expected, logits = losses(model, tokens)
    same = train(weft, folder, source, folder / "tokens.bin", "--from", source, "--steps", SAMPLES, "--rate", 1e-30,
                 "--checkpoint", folder / f"{name}-run", "--to", copy)
    again = AutoModelForCausalLM.from_pretrained(copy, torch_dtype=torch.float32).eval()
    weights = max((a - b).abs().max().item() for a, b in zip(model.state_dict().values(), again.state_dict().values()))
    apart = (losses(again, tokens)[1] - logits).abs().max().item()
    learn = ["--from", source, "--rate", 1e-3, "--checkpoint", folder / f"{name}-learn"]
    train(weft, folder, source, folder / "tokens.bin", *learn, "--steps", 3, "--to", tuned)
    after = train(weft, folder, source, folder / "tokens.bin", *learn, "--resume", "--steps", 4)
    now = losses(AutoModelForCausalLM.from_pretrained(tuned, torch_dtype=torch.float32).eval(), tokens)[0]
    nearest = min(abs(after[-1] - loss) for loss in now)
    print(f"{name:12} losses {differ(same, expected):.1e} apart, weights {weights:.1e}, logits {apart:.1e}, after steps "
          f"{nearest:.1e}", flush=True)
    return differ(same, expected) < 1e-5 and weights == 0 and apart < 1e-4 and nearest < 1e-5


def main():
    weft, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wrong = [name for name, config in CASES.items() if not check(weft, folder, name, config)]
    return f"wrong: {', '.join(wrong)}" if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
