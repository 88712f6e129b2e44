"""Workers of the cuda target over the CPU: torch.cpu with what it lacks of torch.cuda's interface.

Imported by forked workers of test_own_sizes.py only. Nothing here shows what a card does.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from musaagent.tools.cuda import card_memory, device_api
from musaagent.tools.cuda.host_memory import host_bytes_at
from musaagent.tools.cuda.regions import CARD, HOST, MappedSet, SharedSet
from musaagent.tools.cuda.worker import CudaWorker
from musaagent.tools.cuda.worker_reference import CudaReferenceWorker, Rooms
from musaagent.tools.wire import Channel
from musaagent.tools.worker_candidate import serve as serve_candidate
from musaagent.tools.worker_reference import serve as serve_reference

LIBRARY = "STANDIN_LIBCUDA"


class Event:
    """Of the host's clock."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, other: "Event") -> float:
        return max(1e3 * (other.at - self.at), 1e-6)


def take_the_cpu() -> None:
    card: Any = torch.cpu
    card.Event, card.empty_cache, card.init = Event, lambda: None, lambda: None
    card.get_device_properties = lambda index: SimpleNamespace(L2_cache_size=1 << 16)
    visible: Any = device_api._VISIBLE
    visible["cpu"] = "STANDIN_VISIBLE"
    device_api.choose("cpu")  # type: ignore[arg-type]
    card_memory.LIBRARY = os.environ.get(LIBRARY, "no such library")


class Reference(CudaReferenceWorker):
    def share(self, where: str, tensors: list[Any], metas: list[dict[str, Any]]) -> SharedSet:
        return SharedSet(tensors, metas, lambda: None, where, host_bytes_at)


class Candidate(CudaWorker):
    def install(self, header: dict[str, Any]) -> None:
        """Candidates here compile nothing."""

    def map_set(self, descriptor: int, header: dict[str, Any]) -> list[Any]:
        if header["where"] == HOST:
            return super().map_set(descriptor, header)
        given = MappedSet(descriptor, header["shared"], header["tensors"], CARD, host_bytes_at)
        self.mapped.append(given)
        return given.tensors

    def profile(self) -> tuple[dict[str, Any], list[Any]]:
        return {"ok": True, "kernels": [], "kernels_unseen": "no kernels on a CPU", "calls": 5}, []


class Runs(Candidate):
    """Trials too: with no runtime there is nothing to hold back."""

    @contextlib.contextmanager
    def mode(self, name: str) -> Iterator[None]:
        yield

    def run(self, header: dict[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[Any]]:
        return super().run(header | {"watch_kernels": False}, blobs)


class MapsNoCard(Candidate):
    def map_set(self, descriptor: int, header: dict[str, Any]) -> list[Any]:
        if header["where"] == CARD:
            raise card_memory.CardMemoryError("not the card's")
        return super().map_set(descriptor, header)


class CannotMap(Candidate):
    def map_set(self, descriptor: int, header: dict[str, Any]) -> list[Any]:
        raise card_memory.CardMemoryError("not in this process")


def reference(channel: Channel) -> None:
    take_the_cpu()
    serve_reference(channel, Rooms(Reference))


def candidate(channel: Channel) -> None:
    take_the_cpu()
    serve_candidate(channel, Candidate(channel))


def maps_no_card(channel: Channel) -> None:
    take_the_cpu()
    serve_candidate(channel, MapsNoCard(channel))


def cannot_map(channel: Channel) -> None:
    take_the_cpu()
    serve_candidate(channel, CannotMap(channel))


def pass_back(channel: Channel) -> None:
    """Takes one file, writes into it, sends it back."""
    header, _ = channel.recv(None)
    (descriptor,) = channel.recv_descriptors(header["descriptors"], 20)
    os.pwrite(descriptor, b"written in the jail", 0)
    channel.send({"descriptors": 1})
    channel.send_descriptors([descriptor])
    os.close(descriptor)


def pass_too_many(channel: Channel) -> None:
    files = [os.memfd_create("many") for _ in range(3)]
    channel.send({"descriptors": 1})
    channel.send_descriptors(files)
    channel.recv(None)


def probe(channel: Channel) -> None:
    channel.recv(None)
    channel.send({"ok": True, "error": ""})


def runs(channel: Channel) -> None:
    take_the_cpu()
    serve_candidate(channel, Runs(channel))
