"""What test_shim.py checks, each in a process with the shim in place."""

import copy
from pathlib import Path

import pytest
import torch


def install(runtime: str, library: str) -> None:
    from musaagent.tools.host import bridge, torch_shim

    bridge.load_runtime(runtime)
    bridge.configure(threads=1)
    torch_shim.install(lambda request: (request, bridge.load_library(library)))


def devices(runtime: str, library: str) -> None:
    install(runtime, library)
    x = torch.randn(3, 4, device="cuda")
    assert str(x.device) == "cuda:0"
    assert x.is_cuda
    assert not x.is_cpu
    assert x.get_device() == 0
    assert x.to("cuda") is x
    assert x.cuda() is x
    assert x.to(x.device, torch.float16).dtype is torch.float16
    assert x.to(dtype=torch.float64, device="cuda:0").dtype is torch.float64
    assert x.to(torch.ones(1, dtype=torch.half)).dtype is torch.half
    host = x.cpu()
    host.zero_()
    assert x.abs().sum() > 0
    image = x.view(1, 1, 3, 4).to(memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)
    with torch.device("cuda"):
        assert torch.zeros(2).device.type == "cuda"
    assert x.type() == "torch.cuda.FloatTensor"
    assert "cuda:0" in repr(x)
    assert torch.zeros(2, device="meta").device.type == "meta"


def uninitialised_memory_is_poisoned(runtime: str, library: str) -> None:
    install(runtime, library)
    x = torch.ones(2, device="cuda")
    made = [torch.empty(3, device=x.device), torch.empty_like(x), x.new_empty(2)]
    made.append(torch.empty_strided((2, 2), (1, 2)))
    assert all(t.isnan().all() for t in made)
    assert torch.empty(2, dtype=torch.int32, device="cuda").tolist() == [-1, -1]


def modules_move_and_run(runtime: str, library: str) -> None:
    install(runtime, library)
    for module, shape in (
        (torch.nn.Linear(4, 5, device="cuda"), (2, 4)),
        (torch.nn.Conv2d(3, 4, 3), (1, 3, 8, 8)),
        (torch.nn.LSTM(3, 4), (2, 1, 3)),
        (torch.nn.BatchNorm1d(4), (3, 4)),
        (torch.nn.TransformerEncoderLayer(4, 2), (2, 1, 4)),
    ):
        moved = copy.deepcopy(module.cuda()).to("cuda:0").eval()
        moved(torch.randn(*shape, device="cuda"))
        assert next(moved.parameters()).device.type == "cuda"
        moved.load_state_dict(module.state_dict())


def the_cuda_interface(runtime: str, library: str) -> None:
    install(runtime, library)
    from musaagent.tools.host import torch_shim

    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count > 0
    stream = torch.cuda.Stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        start.record()
        end.record()
    stream.synchronize()
    assert start.elapsed_time(end) >= 0
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    with torch.autocast("cuda", dtype=torch.float16), torch.cuda.amp.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    torch.cuda.manual_seed(3)
    first = torch.randn(4, device="cuda")
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert torch.equal(torch.randn(4, device="cuda", generator=generator), first)
    with pytest.raises(RuntimeError, match="cannot capture graphs"):
        torch.cuda.CUDAGraph()
    model = torch.nn.Linear(2, 2)
    assert torch.compile(model) is model
    assert "torch.compile" in torch_shim.uses


def the_musa_spelling(runtime: str, library: str) -> None:
    install(runtime, library)
    import torch_musa
    from torch_musa.utils.musa_extension import load_inline

    x = torch.ones(2, device="musa")
    assert x.device.type == "musa"
    assert torch.device("musa:0").type == "musa"
    assert torch_musa.is_available()
    torch.musa.synchronize()
    assert torch.nn.Linear(2, 2).musa().to("musa")(x.musa()).device.type == "musa"
    request, _ = load_inline("m", "int a;", musa_sources=["int b;"], functions=["f"])
    assert request.cuda_sources == ("int b;",)


def load_inline_takes_stocks_parameters(runtime: str, library: str, tmp: str) -> None:
    install(runtime, library)
    import torch.utils.cpp_extension
    from torch.utils.cpp_extension import load, load_inline

    request, module = load_inline(
        name="n", cpp_sources="a", cuda_sources=["b"], functions=["f"], verbose=True
    )
    assert (request.cpp_sources, request.cuda_sources) == (("a",), ("b",))
    assert request.functions == ("f",)
    assert module.scaled(torch.ones(2, device="cuda"), 2.0).tolist() == [2, 2]
    assert torch.utils.cpp_extension.load_inline is load_inline
    with pytest.raises(TypeError, match=r"load_inline\(\) got an unexpected keyword"):
        load_inline(name="n", cpp_sources="a", cuda_flags=[])
    with pytest.raises(TypeError, match="missing a required argument"):
        load_inline(name="n")
    with pytest.raises(ValueError, match="list or dict"):
        load_inline(name="n", cpp_sources="a", functions=("f",))
    (Path(tmp) / "a.cu").write_text("text")
    (Path(tmp) / "a.cuh").write_text("header")
    request, _ = load("n", [str(Path(tmp) / "a.cu")])
    assert request.with_files == {
        str(Path(tmp) / "a.cu"): "text",
        str(Path(tmp) / "a.cuh"): "header",
    }
