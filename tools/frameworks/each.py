"""Runs one check on many files, each in a process of its own, because the frameworks keep global state.

A check is a function of (path, devices) that raises what the framework raises. Files come from standard input as
lines `NAME DEVICES ARCHITECTURE PATH`; for each one line goes out, `NAME TAB passed` or `NAME TAB reason`.
"""
import importlib
import os
import socket
import sys
import traceback

LONGEST_REASON = 300  # characters


def reason(error):
    said = str(error).strip() or traceback.extract_tb(error.__traceback__)[-1].line
    if "Traceback" in said:  # of another process
        return said.splitlines()[-1][:LONGEST_REASON]
    return f"{type(error).__name__}: {' '.join(said.split())}"[:LONGEST_REASON]


def pretended_architecture():
    """Of the device that the file was written for."""
    return os.environ["WEFT_ARCHITECTURE"]


def in_a_process(check, path, devices, architecture):
    """What the check says, through a pipe; the process's own output goes to standard error."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(2, 1)
        said = "passed"
        os.environ["WEFT_ARCHITECTURE"] = architecture
        try:
            check(path, devices)
        except SystemExit as error:
            said = f"exit: {error.code}"
        except BaseException as error:  # the frameworks raise what they like
            traceback.print_exc()
            said = reason(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said or "ended without a word"


def each(check, *modules):
    """Modules that take long to load are loaded before the first process."""
    for module in modules:
        importlib.import_module(module)
    for row in sys.stdin:
        name, devices, architecture, path = row.split()
        print(f"{name}\t{in_a_process(check, path, int(devices), architecture)}", flush=True)


def pretend_devices(devices):
    """A process group of so many ranks of which this is the first: it sends nothing."""
    import torch.distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=devices)


def free_port():
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


def started(index, ranks, port, body, *words):
    import torch

    # A fork leaves PyTorch's pool of threads behind, which the next call replaces. Autograd's threads call it at once
    # with this one, and one of them may find no pool; now there is only one thread.
    torch.set_num_threads(1)
    os.environ.update(RANK=str(index), LOCAL_RANK=str(index), WORLD_SIZE=str(ranks), MASTER_ADDR="localhost",
                      MASTER_PORT=str(port))
    body(index, *words)


def on_ranks(ranks, body, *words):
    """body(index, *words) in so many processes of one thread each, which find each other as torchrun's do."""
    import torch.multiprocessing

    torch.multiprocessing.start_processes(started, (ranks, free_port(), body, *words), nprocs=ranks,
                                          start_method="fork")
