"""Framed messages between the trusted parent and a worker, over a socket; no pickle, no code.

One message: magic, blob count, header length, the length of each blob (little endian, 8 bytes
each), then a JSON object in UTF-8, then the blobs. What a candidate's process sends is untrusted:
anything that is not exactly this, or is too large, raises WireError, and memory grows only with
bytes that really came.

Open files may follow a message whose header announces them: one byte more, which carries them.
"""

import array
import json
import math
import os
import select
import socket
import struct
import time
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch

Blob: TypeAlias = bytes | bytearray | memoryview
Message: TypeAlias = tuple[dict[str, Any], list[bytes]]

_MAGIC = b"MAW1"
_PREFIX = struct.Struct("<4sIQ")
_CHUNK = 1 << 20
MAX_HEADER_BYTES = 8 << 20
MAX_BLOBS = 4096
MAX_MESSAGE_BYTES = 8 << 30
MAX_DIMENSIONS = 64
MAX_DESCRIPTORS = 8
_DESCRIPTORS = b"F"
DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "bool"),
    *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)


class WireError(Exception):
    """The other side sent what is no message. The candidate's doing, never ours."""


class WireClosed(WireError):
    """The other side is gone."""


class Channel:
    """One end. A message that is half in when a timeout strikes is finished by the next recv."""

    def __init__(self, sock: socket.socket, *, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._max_bytes = max_bytes
        self._broken = ""
        self._parts: list[bytes] = []
        self._frame = _read_frame(max_bytes)
        self._missing = next(self._frame)

    def close(self) -> None:
        self._socket.close()

    def send(
        self,
        header: Mapping[str, Any],
        blobs: Sequence[Blob] = (),
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Send one message. Raises WireClosed, or TimeoutError (the channel is of no use then)."""
        text = json.dumps(header).encode()
        views = [memoryview(blob).cast("B") for blob in blobs]
        if len(text) > MAX_HEADER_BYTES or len(views) > MAX_BLOBS:
            raise ValueError(f"message too large: {len(text)} header bytes, {len(views)} blobs")
        lengths = struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))
        start = _PREFIX.pack(_MAGIC, len(views), len(text)) + lengths + text
        deadline = _deadline(timeout_s)
        for view in (memoryview(start), *views):
            self._send_all(view, deadline)

    def send_descriptors(
        self, descriptors: Sequence[int], *, timeout_s: float | None = None
    ) -> None:
        """Open files, after a message that announced them; ours stay open.

        Raises WireClosed or TimeoutError.
        """
        if not 0 < len(descriptors) <= MAX_DESCRIPTORS:
            raise ValueError(f"{len(descriptors)} descriptors in one message")
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        deadline = _deadline(timeout_s)
        while True:
            try:
                self._socket.sendmsg([_DESCRIPTORS], [rights])
                return
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise WireClosed(f"the other side is gone ({error.strerror})") from None

    def recv_descriptors(self, count: int, timeout_s: float | None) -> list[int]:
        """Exactly the `count` files that the last message announced; the caller closes them.

        Files that come with anything else are closed: by the system, or here before WireError.
        Raises WireClosed or TimeoutError too.
        """
        if self._broken:
            raise WireError(self._broken)
        deadline = _deadline(timeout_s)
        room = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        while True:
            try:
                data, extra, flags, _ = self._socket.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
                break
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
            except OSError as error:
                raise WireClosed(f"the other side is gone ({error.strerror})") from None
        found = _passed(extra)
        if data == _DESCRIPTORS and len(found) == count and not flags & socket.MSG_CTRUNC:
            return found
        for descriptor in found:
            os.close(descriptor)
        if not data:
            raise WireClosed("the other side closed the channel")
        self._broken = f"{len(found)} files came where {count} were announced"
        raise WireError(self._broken)

    def pending(self) -> bool:
        """Whether the other side sent something that nobody has read."""
        try:
            return bool(self._parts) or bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def recv(self, timeout_s: float | None) -> Message:
        """The next message; None waits for ever. Raises WireError, WireClosed or TimeoutError."""
        if self._broken:
            raise WireError(self._broken)
        deadline = _deadline(timeout_s)
        while True:
            while self._missing > 0:
                self._read_some(deadline)
            data, self._parts = b"".join(self._parts), []
            try:
                self._missing = self._frame.send(data)
            except StopIteration as stop:
                self._frame = _read_frame(self._max_bytes)
                self._missing = next(self._frame)
                message: Message = stop.value
                return message
            except WireError as error:
                self._broken = str(error)
                raise

    def _read_some(self, deadline: float | None) -> None:
        try:
            data = self._socket.recv(min(self._missing, _CHUNK))
        except BlockingIOError:
            self._wait(select.POLLIN, deadline)
            return
        except OSError as error:
            raise WireClosed(f"the other side is gone ({error.strerror})") from None
        if not data:
            raise WireClosed("the other side closed the channel")
        self._parts.append(data)
        self._missing -= len(data)

    def _send_all(self, view: memoryview, deadline: float | None) -> None:
        sent = 0
        while sent < view.nbytes:
            try:
                sent += self._socket.send(view[sent : sent + _CHUNK])
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise WireClosed(f"the other side is gone ({error.strerror})") from None

    def _wait(self, event: int, deadline: float | None) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        left = None if deadline is None else deadline - time.monotonic()
        if (left is not None and left <= 0) or not poll.poll(None if left is None else left * 1000):
            raise TimeoutError("no message in time")


def _passed(extra: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors in a message's ancillary data."""
    found = array.array("i")
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _read_frame(max_bytes: int) -> Generator[int, bytes, Message]:
    """Yields how many bytes are wanted next, is sent exactly these, returns the message."""
    magic, count, header_length = _PREFIX.unpack((yield _PREFIX.size))
    if magic != _MAGIC:
        raise WireError("the other side sent something that is no message")
    if count > MAX_BLOBS or header_length > MAX_HEADER_BYTES:
        raise WireError(f"message too large: {header_length} header bytes, {count} blobs")
    lengths = struct.unpack(f"<{count}Q", (yield 8 * count))
    if sum(lengths) > max_bytes:
        raise WireError(f"message too large: {sum(lengths)} bytes")
    header = _parse_header((yield header_length))
    blobs = []
    for length in lengths:
        blobs.append((yield length))
    return header, blobs


def _parse_header(data: bytes) -> dict[str, Any]:
    try:
        header = json.loads(data)
    except (ValueError, RecursionError):
        raise WireError("a message header is not JSON") from None
    if not isinstance(header, dict):
        raise WireError("a message header is not a JSON object")
    return header


def encode_tensors(
    tensors: Sequence["torch.Tensor"],
) -> tuple[list[dict[str, Any]], list[Blob]]:
    """Metas (`dtype`, `shape`, `stride` in elements) and one blob each: the storage that is seen.

    A non-contiguous tensor keeps its strides; its blob is the span from its first to its last
    element. Raises WireError for tensors without a plain dense storage.
    """
    metas, blobs = [], []
    for tensor in tensors:
        meta, blob = _encode(tensor)
        metas.append(meta)
        blobs.append(blob)
    return metas, blobs


def tensor_meta(tensor: "torch.Tensor") -> dict[str, Any]:
    """dtype, shape and stride. Raises WireError for tensors without a plain dense storage."""
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided or tensor.is_quantized or dtype not in DTYPES:
        raise WireError(f"a {dtype} tensor with layout {tensor.layout} cannot be sent")
    if tensor.device.type == "meta":
        raise WireError("a meta tensor has no values to send")
    return {"dtype": dtype, "shape": list(tensor.shape), "stride": list(tensor.stride())}


def _encode(tensor: "torch.Tensor") -> tuple[dict[str, Any], Blob]:
    import torch

    tensor_meta(tensor)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    meta = tensor_meta(plain)
    span = storage_span(meta["shape"], meta["stride"])
    if span == 0:
        return meta, b""
    flat = torch.as_strided(plain, (span,), (1,), plain.storage_offset())
    # Through bytes, since numpy has neither bfloat16 nor float8.
    view: memoryview = flat.contiguous().view(torch.uint8).numpy().data
    return meta, view.cast("B")


def storage_span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Elements of storage from the first to the last element, both included."""
    if any(n == 0 for n in shape):
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))


def decode_tensors(
    metas: Sequence[Mapping[str, Any]],
    blobs: Sequence[Blob],
    *,
    max_bytes: int = MAX_MESSAGE_BYTES,
) -> list["torch.Tensor"]:
    """The tensors again, with their strides, writable, each with its own storage.

    Raises WireError on anything that does not fit together, or is over `max_bytes` when dense.
    """
    if not isinstance(metas, Sequence) or len(metas) != len(blobs):
        raise WireError("not one blob for each tensor")
    return [_decode(meta, blob, max_bytes) for meta, blob in zip(metas, blobs, strict=True)]


def _decode(meta: Mapping[str, Any], blob: Blob, max_bytes: int) -> "torch.Tensor":
    import torch

    dtype_name, shape, stride = checked_meta(meta)
    dtype: torch.dtype = getattr(torch, dtype_name)
    span = storage_span(shape, stride)
    if math.prod(shape) * dtype.itemsize > max_bytes:
        raise WireError(f"a tensor of shape {shape} is too large")
    if span * dtype.itemsize != len(blob):
        raise WireError(f"{len(blob)} bytes for a {dtype_name} tensor of shape {shape}")
    if span == 0:
        return torch.empty_strided(shape, stride, dtype=dtype)
    raw = torch.frombuffer(bytearray(blob), dtype=torch.uint8)
    # Other bytes than 0 and 1 are no bool.
    flat = raw != 0 if dtype == torch.bool else raw.view(dtype)
    return flat.as_strided(shape, stride)


def checked_meta(meta: Mapping[str, Any]) -> tuple[str, list[int], list[int]]:
    """dtype, shape and stride of a tensor as the other side tells them. Raises WireError."""
    if not isinstance(meta, Mapping) or meta.get("dtype") not in DTYPES:
        raise WireError("a tensor has no known dtype")
    shape, stride = _sizes(meta.get("shape")), _sizes(meta.get("stride"))
    if len(shape) != len(stride):
        raise WireError("a tensor's strides do not fit its shape")
    return meta["dtype"], shape, stride


def _sizes(value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) > MAX_DIMENSIONS:
        raise WireError("a tensor has no sound shape and strides")
    if not all(type(n) is int and 0 <= n < 1 << 48 for n in value):
        raise WireError("a tensor has no sound shape and strides")
    return value
