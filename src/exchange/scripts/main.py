# The plan's numbers as the script takes them, and where it begins.


def accumulation_steps():
    step = PLAN["micro_batch"] * PLAN["dp"]
    if PLAN["global_batch"] % step:
        sys.exit(f"the global batch of {PLAN['global_batch']} is no multiple of {step}")
    return PLAN["global_batch"] // step


def type_of(torch, key):
    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[PLAN[key]]


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
