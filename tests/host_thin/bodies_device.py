"""What test_device.py checks, each in a process of its own: tensors out of host code's reach."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from musaagent.tools.host import bridge, torch_shim
from musaagent.tools.host.bridge_device import following, host_tensors
from musaagent.tools.host.bridge_hidden import follow_threads, hidden
from musaagent.tools.host.host_access import host_access


def start(runtime: str, library: str) -> ModuleType:
    bridge.load_runtime(runtime)
    bridge.configure(threads=1)
    bridge.set_guard(True)
    return bridge.load_library(library)


def died(call: Callable[[], object]) -> str:
    """What stderr says of a forked process that must end in a fault."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        call()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), text
    assert os.WTERMSIG(status) == signal.SIGSEGV
    return host_access(text)


def host_code_of_cpp_cannot_read_or_write(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    x = torch.arange(6.0)
    told = died(lambda: functions.first_on_host(x))
    assert told.startswith("host code of first_on_host(at::Tensor) reads device memory"), told
    assert "float32[6]" in told
    assert "writes device memory" in died(lambda: functions.set_on_host(x, 1.0))
    assert "reads" in died(lambda: functions.accessed_on_host(x.view(2, 3)))
    assert "reads" in died(lambda: functions.first_in_a_thread(x))
    assert "reads" in died(lambda: functions.copied_by_memcpy(x))
    assert "cudaMalloc'd memory of 64 bytes" in died(functions.allocated_on_host)
    assert "reads" in died(lambda: functions.first_on_host(functions.scaled(x, 2.0)))
    torch.testing.assert_close(x, torch.arange(6.0))


def views_and_parameters_are_guarded_too(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    weight = torch.nn.Parameter(torch.randn(4, 6))
    for tensor in (weight, weight[1:], weight.t(), weight.detach().view(-1)[5:]):
        assert "reads" in died(lambda tensor=tensor: functions.first_on_host(tensor))  # type: ignore[misc]


def python_sees_the_same_address(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    x = torch.arange(4.0)
    address = bridge.data_pointer(x)
    assert address == functions.address_of(x) == bridge.storage_pointer(x.untyped_storage())
    assert bridge.data_pointer(x[1:]) == functions.address_of(x[1:]) == address + 4
    died(lambda: ctypes.c_float.from_address(address).value)


def torch_kernels_and_copies_use_it_as_ever(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    x = torch.randn(3, 5)
    expected = x * 2
    torch.testing.assert_close(functions.scaled(x, 2.0), expected)
    x.add_(1)  # through torch's own address, seen by the next kernel
    torch.testing.assert_close(functions.scaled(x, 2.0), expected + 2)
    view = x.t()[1:].contiguous()
    torch.testing.assert_close(functions.scaled(view, 1.0), view)
    assert functions.first_by_cuda_memcpy(x) == x[0, 0].item()
    torch.testing.assert_close(functions.through_cuda_malloc(x), x)
    torch.testing.assert_close(functions.from_blob_of(x), x)
    assert functions.managed_sum(5) == 10.0
    assert functions.item_of(x) == x[0, 0].item()


def host_tensors_stay_readable(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    sizes = torch.tensor([3.0, 4.0])
    host_tensors.add(sizes)
    assert functions.first_on_host(sizes) == 3.0
    with following():
        later = torch.cumsum(sizes, 0)
    assert functions.first_on_host(later) == 3.0
    assert functions.first_of_cpu_copy(torch.tensor([7.0])) == 7.0
    assert functions.first_of_cpp_cpu_tensor() == 5.0
    both = torch.stack([sizes, torch.ones(2)])
    died(lambda: functions.first_on_host(both))


def reported(call: Callable[[], object]) -> str:
    """What a forked process reports of it: an illegal access stays with the process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        bridge.take_report()
        call()
        os.write(writer, bridge.take_report().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return text


def kernels_cannot_reach_host_tensors(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    weight = torch.arange(8.0)
    host_tensors.add(weight)
    for tensor in (weight, weight[2:], weight.view(2, 4)):
        told = reported(lambda tensor=tensor: functions.scaled(tensor, 2.0))  # type: ignore[misc]
        assert ", which is in host memory" in told, told
        assert '"error":700' in told, told
        assert functions.first_on_host(weight) == 0.0
    host_tensors.discard(weight)  # as a parameter after .cuda()
    torch.testing.assert_close(functions.scaled(weight, 2.0), 2 * torch.arange(8.0))
    bridge.synchronize()
    assert "reads" in died(lambda: functions.first_on_host(weight))


def what_is_the_host_s_is_never_hidden(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    torch_shim.install(lambda request: None)
    numpy = torch._C.TensorBase.numpy
    x, kept = torch.arange(6.0, device="cuda"), torch.zeros(6)
    assert functions.first_on_host(kept) == 0.0
    with hidden(bridge.runtime().device, [x]):
        kept.copy_(x + 1)
        for tensor in (kept, torch.ones(6), (x + 1).cpu()):
            assert functions.first_on_host(tensor) == numpy(tensor)[0] == 1.0
            told = reported(lambda tensor=tensor: functions.scaled(tensor, 2.0))  # type: ignore[misc]
            assert ", which is in host memory" in told, told
        pinned = (x + 1).pin_memory()
        functions.scaled_into(pinned, 2.0)
        assert functions.first_on_host(pinned) == numpy(pinned)[0] == 2.0


def what_becomes_the_device_s_is_hidden(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    x, kept = torch.ones(6), torch.ones(6)
    host_tensors.add(kept)
    address = bridge.data_pointer(kept)
    side = bridge.runtime().library.musahost_device_alias
    assert side(address) == address
    host_tensors.add(x)
    with hidden(bridge.runtime().device, [x]):
        assert "reads" in died(lambda: torch._C.TensorBase.numpy(x).sum())
        host_tensors.discard(kept)
        functions.scaled(kept, 2.0)
        for place in (address, side(address), torch._C.TensorBase.data_ptr(kept)):
            assert "reads" in died(lambda place=place: ctypes.string_at(place, 4))  # type: ignore[misc]


def results_written_to_the_device_stay_there(runtime: str, library: str) -> None:
    start(runtime, library)
    torch_shim.install(lambda request: None)
    x, kept = torch.ones(6, device="cuda"), torch.ones(6)
    with following():
        torch.add(kept, kept, out=x)
        assert kept + kept in host_tensors
    assert x not in host_tensors


def pinned_memory_is_of_both_and_counted(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    pinned = torch.arange(1000.0)
    host_tensors.pin(pinned)
    bridge.take_host_use()
    assert functions.first_on_host(pinned) == 0.0
    functions.scaled_into(pinned, 2.0)
    bridge.synchronize()
    torch.testing.assert_close(pinned, 2 * torch.arange(1000.0))
    assert bridge.take_host_use()[0] != []


def launches_with_addresses_of_the_host_are_refused(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    for name, words in (
        ("given_a_local", "a local variable of host code"),
        ("given_a_vector", "memory of the host's"),
        ("given_a_variable", "variable 'on_host'"),
        ("given_a_device_variable", "variable 'on_device'"),
    ):
        told = reported(getattr(functions, name))
        assert words in told, (name, told)
    for name in ("given_a_symbol", "given_managed"):
        told = reported(getattr(functions, name))
        assert '"findings":[]' in told, (name, told)


def what_goes_to_the_host_is_counted(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    copies: list[str] = []
    bridge.runtime().on_host_copy = lambda tensor, way: copies.append(f"{tensor.numel()} {way}")
    x = torch.randn(1000)
    bridge.take_host_use()
    functions.first_by_cuda_memcpy(x)
    assert bridge.take_host_use() == ([], [])
    functions.through_cuda_malloc(x)
    assert bridge.take_host_use() == ([], [])  # between addresses of the device
    functions.all_by_cuda_memcpy(x)
    assert bridge.take_host_use() == (["4000 bytes"], [])
    functions.managed_sum(1000)
    assert bridge.take_host_use() == (["4000 bytes"], [])
    assert copies == []
    functions.first_of_cpu_copy(x)
    assert copies == ["1000 to in C++"]


def memory_is_given_back(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    for _ in range(300):
        functions.scaled(torch.ones(50_000), 2.0)
    device = bridge.runtime().device
    assert device is not None
    assert len(device._pieces) < 100
    assert len(list(Path("/proc/self/fd").iterdir())) < 200
    assert device.unwatched == 0


def memory_that_was_lent_can_be_resized(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    x = torch.arange(4.0).view(2, 2)
    functions.scaled(x, 1.0)
    assert functions.grown(x) == 510
    assert x.shape == (5, 2)
    torch.testing.assert_close(x.view(-1)[:4], torch.arange(4.0))
    x.zero_()
    assert functions.first_by_cuda_memcpy(x) == 0
    assert "reads" in died(lambda: functions.first_on_host(x))


def from_blob_makes_no_host_memory_of_it(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    assert "reads" in died(lambda: functions.first_of_a_blob(torch.ones(3)))


def numpy_tells_no_address_of_the_device(runtime: str, library: str) -> None:
    start(runtime, library)
    torch_shim.install(lambda request: None)
    x = torch.arange(3.0, device="cuda")
    x.numpy()[0] = 9
    assert x[0] == 0
    sizes = torch.tensor([1.0])
    sizes.numpy()[0] = 9
    assert sizes[0] == 9
    assert x.cuda() is x
    assert sizes.cuda() is not sizes
    assert sizes in host_tensors
    assert sizes.to(x.device) not in host_tensors
    assert x.cpu() in host_tensors


def reads_past_the_end_are_no_zeros(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    assert torch.isnan(functions.overread(torch.ones(5)))


def python_reads_nothing_while_it_is_hidden(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    follow_threads()
    numpy = torch._C.TensorBase.numpy
    x, weight = torch.arange(6.0), torch.nn.Parameter(torch.ones(6))
    with hidden(bridge.runtime().device, [x, weight]):
        assert "reads device memory (byte 0 of tensor float32[6]" in died(lambda: numpy(x).sum())
        doors: tuple[Callable[[], object], ...] = (
            x.untyped_storage().tolist,
            lambda: numpy(weight.detach()).sum(),
            lambda: numpy(x.clone()).sum(),
            lambda: numpy(torch.empty(6).copy_(x)).sum(),
            lambda: numpy(functions.scaled(x, 2.0)).sum(),
            lambda: numpy(x.clone().resize_(3)).sum(),
            lambda: ctypes.string_at(torch._C.TensorBase.data_ptr(x[2:])),
        )
        for door in doors:
            assert "reads" in died(door)
        assert functions.scaled(x, 2.0).clone().equal(x + x)
        made: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: made.append(x.clone()))
        thread.start()
        thread.join()
        assert made[0].equal(x)
        assert "reads" in died(lambda: numpy(made[0]).sum())
        functions.scaled(x, 1.0)
    assert numpy(x).sum() == 15
    assert numpy(weight.detach()).sum() == 6


def operators_of_its_own_are_not_lent_to(runtime: str, library: str) -> None:
    start(runtime, library)
    numpy = torch._C.TensorBase.numpy

    @torch.library.custom_op("device_bodies::copied", mutates_args=())
    def copied(x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous()

    @torch.library.custom_op("device_bodies::read", mutates_args=())
    def read(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(numpy(x).copy())

    x = torch.randn(3, 5)
    with hidden(bridge.runtime().device, [x]):
        assert copied(x).equal(x.t())
        assert "reads" in died(lambda: read(x))


def what_the_host_is_given_is_open_and_counted(runtime: str, library: str) -> None:
    start(runtime, library)
    torch_shim.install(lambda request: None)
    x = torch.arange(600.0, device="cuda")
    with hidden(bridge.runtime().device, [x]):
        assert x[:3].cpu().numpy().tolist() == [0, 1, 2]
        assert x[2:4].tolist() == [2, 3]
        assert bridge.take_host_use()[0] == []
        assert x.cpu().numpy().sum() == 179700
        assert bridge.take_host_use()[0]


def temporaries_are_given_back_while_hidden(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    device = bridge.runtime().device
    assert device is not None
    x = torch.ones(1000)
    with hidden(device, [x]):
        for _ in range(1500):
            x = functions.scaled(x.clone(), 1.0)
        assert len(list(Path("/proc/self/fd").iterdir())) < 200
    assert x.sum() == 1000
    assert device.unwatched == 0


def memory_that_was_shared_before_is_told(runtime: str, library: str) -> None:
    functions = start(runtime, library)
    x = torch.ones(1000)
    x.untyped_storage()._share_fd_cpu_()
    functions.scaled(x, 1.0)
    assert bridge.take_host_use()[1] == ["3 KB of tensors could not be guarded"]
