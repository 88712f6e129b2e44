"""Messages and tensors over a socket: what is sent arrives, and nonsense is an error."""

import json
import random
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from musaagent.tools import wire
from musaagent.tools.wire import Channel, WireClosed, WireError, decode_tensors, encode_tensors


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Channel]]:
    """A raw end to write anything to, and a Channel that listens."""
    raw, ours = socket.socketpair()
    channel = Channel(ours, max_bytes=1 << 20)
    yield raw, channel
    raw.close()
    channel.close()


def frame(header: bytes, *blobs: bytes, magic: bytes = b"MAW1") -> bytes:
    lengths = b"".join(struct.pack("<Q", len(blob)) for blob in blobs)
    return struct.pack("<4sIQ", magic, len(blobs), len(header)) + lengths + header + b"".join(blobs)


def test_the_frame_is_as_stated(pair: tuple[socket.socket, Channel]) -> None:
    raw, channel = pair
    raw.sendall(frame(b'{"a": 1}', b"xy", b"") + frame(b"{}"))
    assert channel.recv(5) == ({"a": 1}, [b"xy", b""])
    assert channel.recv(5) == ({}, [])


def test_any_cut_is_resumed(pair: tuple[socket.socket, Channel]) -> None:
    raw, channel = pair
    message = frame('{"text": "größer"}'.encode(), b"abc" * 100, b"z")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(20):
        cuts = sorted(draw.sample(range(1, len(message)), 5))
        for start, end in zip([0, *cuts], [*cuts, len(message)], strict=True):
            raw.sendall(message[start:end])
            if end < len(message):
                with pytest.raises(TimeoutError):
                    channel.recv(0.002)
        assert channel.recv(5) == ({"text": "größer"}, [b"abc" * 100, b"z"])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (frame(b"{}", magic=b"MAW2"), "no message"),
        (frame(b"[1, 2]"), "not a JSON object"),
        (frame(b'"text"'), "not a JSON object"),
        (frame(b"{"), "not JSON"),
        (frame(b"\xff\xfe{}"), "not JSON"),
        (frame(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"), "not JSON"),
        (frame(b'{"a": ' + b"9" * 10_000 + b"}"), "not JSON"),
        (struct.pack("<4sIQ", b"MAW1", 1 << 30, 2), "too large"),
        (struct.pack("<4sIQ", b"MAW1", 0, 1 << 60), "too large"),
        (struct.pack("<4sIQQ", b"MAW1", 1, 2, 1 << 62), "too large"),
    ],
)
def test_nonsense(pair: tuple[socket.socket, Channel], data: bytes, why: str) -> None:
    raw, channel = pair
    sender = threading.Thread(target=raw.sendall, args=(data,))
    sender.start()
    for _ in range(2):
        with pytest.raises(WireError, match=why):
            channel.recv(10)
    sender.join()


def test_closing(pair: tuple[socket.socket, Channel]) -> None:
    raw, channel = pair
    raw.sendall(frame(b"{}", b"half")[:-2])
    raw.close()
    with pytest.raises(WireClosed):
        channel.recv(5)
    with pytest.raises(WireClosed):
        channel.send({}, [bytes(1 << 20)])


def tensors() -> list[torch.Tensor]:
    base = torch.arange(24.0).reshape(2, 3, 4)
    return [
        base,
        base.transpose(0, 2),
        base[:, 1:, ::2],
        torch.arange(5)[2:4],
        torch.randn(4, 1).expand(4, 7),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.tensor(3.5),
        torch.empty(0, 3),
        torch.tensor([True, False, True]),
        torch.randn(6).bfloat16(),
        torch.randn(6).half(),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.tensor([float("nan"), float("inf"), -0.0]),
        torch.nn.Parameter(torch.ones(3)),
        torch.randint(0, 255, (7,), dtype=torch.uint8),
    ]


def test_tensors_arrive_with_strides() -> None:
    sent = tensors()
    metas, blobs = encode_tensors(sent)
    back = decode_tensors(json.loads(json.dumps(metas)), [bytes(blob) for blob in blobs])
    for ours, theirs in zip(sent, back, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert ours.numel() == 0 or ours.stride() == theirs.stride()
        assert not theirs.requires_grad
        same = torch.equal(
            torch.nan_to_num(ours.detach().contiguous()), torch.nan_to_num(theirs.contiguous())
        )
        assert same, (ours, theirs)
    back[0].add_(1)  # writable, and nobody else's storage
    assert torch.equal(sent[0], torch.arange(24.0).reshape(2, 3, 4))


def test_the_blob_is_the_span() -> None:
    metas, blobs = encode_tensors([torch.zeros(1000, 1).expand(1000, 50), torch.zeros(10, 10)[2:4]])
    assert [len(blob) for blob in blobs] == [4000, 80]
    assert metas[0] == {"dtype": "float32", "shape": [1000, 50], "stride": [1, 0]}


@pytest.mark.parametrize(
    ("change", "blob"),
    [
        ({"dtype": "object"}, bytes(24)),
        ({"dtype": ["float32"]}, bytes(24)),
        ({"dtype": "__class__"}, bytes(24)),
        ({"shape": [2, -3]}, bytes(24)),
        ({"shape": [2, 3.0]}, bytes(24)),
        ({"shape": [2, True]}, bytes(24)),
        ({"shape": "23"}, bytes(24)),
        ({"shape": [2, 3, 1]}, bytes(24)),
        ({"stride": [3, -1]}, bytes(24)),
        ({"stride": [1 << 40, 1]}, bytes(24)),
        ({"stride": None}, bytes(24)),
        ({}, bytes(23)),
        ({}, bytes(25)),
        ({"shape": [1 << 20] * 3, "stride": [0] * 3}, bytes(4)),
        ({"shape": [1] * 65, "stride": [1] * 65}, bytes(4)),
    ],
)
def test_tensor_nonsense(change: dict[str, Any], blob: bytes) -> None:
    meta = {"dtype": "float32", "shape": [2, 3], "stride": [3, 1], **change}
    with pytest.raises(WireError):
        decode_tensors([meta], [blob])


def test_tensor_lists_that_do_not_fit() -> None:
    meta = {"dtype": "float32", "shape": [1], "stride": [1]}
    with pytest.raises(WireError):
        decode_tensors([meta], [])
    with pytest.raises(WireError):
        decode_tensors([None], [b""])  # type: ignore[list-item]


def test_bytes_that_are_no_bool_become_true() -> None:
    meta = {"dtype": "bool", "shape": [3], "stride": [1]}
    assert decode_tensors([meta], [b"\x00\x01\x7f"])[0].tolist() == [False, True, True]


@pytest.mark.parametrize(
    "tensor",
    [torch.eye(3).to_sparse(), torch.empty(3, device="meta")],
    ids=["sparse", "meta"],
)
def test_tensors_without_plain_values_are_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(WireError):
        encode_tensors([tensor])


def test_too_many_blobs_are_our_own_mistake(pair: tuple[socket.socket, Channel]) -> None:
    with pytest.raises(ValueError, match="too large"):
        pair[1].send({}, [b""] * (wire.MAX_BLOBS + 1))
