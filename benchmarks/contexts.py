"""What contexts on one card cost: made and ended side by side, with the driver's queues as they are
and with one.

`contexts.py [COUNT ...]` (1 and 16). Processes are forked with torch imported; seconds until all
have computed something, and until all are gone, each over how many they were. In between: what
`torch.cuda.init()` and the first tensor took one of them.
"""

import multiprocessing
import os
import sys
import time
from typing import Any

_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"


def work(ready: Any, found: Any, leave: Any, queues: str) -> None:
    if queues:
        os.environ[_QUEUES] = queues
    import torch

    ready.wait()
    start = time.monotonic()
    torch.cuda.init()
    begun = time.monotonic()
    value = torch.zeros(8, device="cuda")
    torch.cuda.synchronize()
    there = time.monotonic()
    (value + 1).cpu()
    found.put((begun - start, there - begun))
    leave.wait()
    os._exit(0)


def measure(count: int, queues: str) -> dict[str, float]:
    context = multiprocessing.get_context("fork")
    ready, found, leave = context.Barrier(count + 1), context.Queue(), context.Event()
    workers = [
        context.Process(target=work, args=(ready, found, leave, queues)) for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.monotonic()
    rows = [found.get(timeout=120) for _ in workers]
    up = time.monotonic() - start
    start = time.monotonic()
    leave.set()
    for worker in workers:
        worker.join()
    gone = time.monotonic() - start
    init, first = (sum(row[i] for row in rows) / count for i in range(2))
    return {"init": init, "context": first, "up_each": up / count, "gone_each": gone / count}


def main() -> int:
    import torch

    if not torch.cuda.is_initialized() and torch.cuda.device_count() == 0:
        print("there is no NVIDIA GPU here")
        return 1
    torch.zeros(2) + 1
    measure(1, "")  # what the machine does once
    for count in [int(word) for word in sys.argv[1:]] or [1, 16]:
        for queues in ("", "1"):
            told = {name: round(seconds, 3) for name, seconds in measure(count, queues).items()}
            print(f"{count:3} at once, queues {queues or 'as usual'}: {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
