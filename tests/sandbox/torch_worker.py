"""A worker that computes with torch, in several threads."""


def compute(channel):
    import torch

    from musaagent.tools.wire import encode_tensors

    request, _ = channel.recv(None)
    torch.set_num_threads(request["threads"])
    n = request["n"]
    product = torch.ones(n, n) @ torch.ones(n, n)
    _, blobs = encode_tensors([product])
    channel.send({"sum": product.sum().item(), "threads": torch.get_num_threads()}, blobs)
