# The same for every plan: weights, micro-batches, and the loop over them. torch is imported when training starts, so that
# --help and --dry-run work without it.
MESH = {}  # by name, once the devices are known


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="iterations to train")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate")
    parser.add_argument("--clip", type=float, default=1.0, help="norm of gradients at most, 0: any")
    parser.add_argument("--data", help="token ids as 32-bit integers; without it they are random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: processes of this machine, connected by gloo")
    parser.add_argument("--placements", action="store_true", help="print how each weight lies")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, train nothing")
    return parser.parse_args()


def fill(torch, model):
    """Weights of products are drawn, those of norms 1, biases 0: the same on any number of devices."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        usual = 0.0 if name.endswith("bias") else 1.0
        whole = torch.empty(weight.shape).normal_(std=0.02) if weight.dim() > 1 else torch.full(weight.shape, usual)
        whole = whole.to(weight.device)
        with torch.no_grad():
            if isinstance(weight, DTensor):
                whole = distribute_tensor(whole, weight.device_mesh, weight.placements)
            weight.copy_(whole)


def batches(torch, args, device, replica):
    """All replicas draw the same micro-batches and take turns: any number of them trains on the same ones."""
    size = (PLAN["micro_batch"], PLAN["seq"] + 1)
    numbers = torch.Generator().manual_seed(args.seed)
    ids = torch.from_file(args.data, size=os.path.getsize(args.data) // 4, dtype=torch.int32) if args.data else None
    turn = 0
    while True:
        if ids is None:
            rows = torch.randint(PLAN["vocab"], size, generator=numbers)
        else:
            first = torch.randint(len(ids) - size[1], (size[0], 1), generator=numbers)
            rows = ids[first + torch.arange(size[1])].long()
        if turn % PLAN["dp"] == replica:
            yield rows.to(device)
        turn += 1


def clip(model, limit):
    """Weights lie on meshes of their own, so that torch's function does not add up their norms."""
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    norms = [gradient.norm().full_tensor().item() for gradient in gradients]
    norm = math.sqrt(sum(n * n for n in norms))
    for gradient in gradients if norm > limit else []:
        gradient.mul_(limit / norm)


def train(args):
    import torch
    import torch.distributed as dist

    local = int(os.environ["LOCAL_RANK"])
    if args.device == "cuda":
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    if dist.get_world_size() != PLAN["devices"]:
        sys.exit(f"the plan is for {PLAN['devices']} devices, not {dist.get_world_size()}")
    device = torch.device(args.device, local) if args.device == "cuda" else torch.device("cpu")
    model = distribute(torch, args, device)
    if args.placements and dist.get_rank() == 0:
        for name, weight in model.named_parameters():
            print(f"{name}: {tuple(weight.shape)} {weight.placements} over {weight.device_mesh.mesh_dim_names}")
    optimizer = make_optimizer(torch, model, args, foreach=False)
    data, passes = batches(torch, args, device, replica(dist.get_rank())), accumulation_steps()
    for step in range(args.steps):
        began = time.perf_counter()
        loss = torch.tensor(one_step(torch, model, data, passes), device=device)
        finish_gradients(torch, model)
        if args.clip:
            clip(model, args.clip)
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss)
        if dist.get_rank() == 0:
            taken = time.perf_counter() - began
            print(f"step {step}: loss {loss.item() / dist.get_world_size():.4f}, {taken:.3f} s", flush=True)
    dist.destroy_process_group()
