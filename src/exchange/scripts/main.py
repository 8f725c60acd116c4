# Rotary positions, the plan's numbers as the script takes them, and where it begins.


def angles(torch, seq, device):
    """Cosines and sines of every pair of a head at every position."""
    depth = PLAN["head_dim"]
    rate, size = stretched(torch, 1.0 / PLAN["rope_base"] ** (torch.arange(0, depth, 2, device=device) / depth))
    turn = torch.outer(torch.arange(seq, device=device), rate)
    turn = torch.cat((turn, turn), dim=-1)
    return size * turn.cos(), size * turn.sin()


def stretched(torch, rate):
    """Rates at which more positions are reached than were learned, and by how much what is turned grows."""
    factor, kind = PLAN["rope_scaling"], PLAN["rope_type"]
    if not factor:
        return rate, 1
    if kind == "linear":
        return rate / factor, 1
    if kind == "llama3":  # slow pairs turn slower, those in between by a share
        share = ((8192 * rate / (2 * math.pi) - 1) / 3).clamp(0, 1)
        return rate * (share + (1 - share) / factor), 1
    share = yarn_share(torch, len(rate)).to(rate.device)
    return rate * (share + (1 - share) / factor), 0.1 * math.log(factor) + 1


def yarn_share(torch, pairs):
    """From 1 where a pair turns 32 times in the positions that were learned, to 0 where it turns once."""
    low, high = (pairs * math.log(PLAN["rope_learned"] / (turns * 2 * math.pi)) / math.log(PLAN["rope_base"])
                 for turns in (32, 1))
    if PLAN["rope_type"] == "yarn":
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    return 1 - ((torch.arange(pairs) - low) / max(high - low, 0.001)).clamp(0, 1)


def accumulation_steps():
    step = PLAN["micro_batch"] * PLAN["dp"]
    if PLAN["global_batch"] % step:
        sys.exit(f"the global batch of {PLAN['global_batch']} is no multiple of {step}")
    return PLAN["global_batch"] // step


def type_of(torch, key):
    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[PLAN[key]]


def make_optimizer(torch, model, args, **how):
    """SGD has momentum or none; of the others, AdamW alone makes weights smaller by themselves."""
    name = PLAN["optimizer"]
    numbers = ({"momentum": PLAN["momentum"]} if name == "SGD" else
               {"betas": (0.9, 0.95), "weight_decay": 0.1 if name == "AdamW" else 0.0})
    return getattr(torch.optim, name)(model.parameters(), lr=args.lr, **numbers, **how)


def main():
    args = arguments()
    steps = accumulation_steps()
    if args.dry_run:
        for key, value in PLAN.items():
            print(f"{key}: {value}")
        print(f"accumulation_steps: {steps}")
        return
    train(args)


if __name__ == "__main__":
    main()
