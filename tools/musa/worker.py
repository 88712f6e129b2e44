"""The jailed process that runs one candidate on a Moore Threads card. Nothing it says is trusted.

It is the cuda target's worker with torch.musa in place of torch.cuda, and torch_musa's loaders in
place of torch's. No card was at hand when it was written: it was run over stand-ins only.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from musaagent.tools.cuda import device_api
from musaagent.tools.cuda import worker as cuda_worker
from musaagent.tools.cuda.worker import CudaWorker
from musaagent.tools.wire import Channel
from musaagent.tools.worker_candidate import load_pybind, request_fields, serve


def main(channel: Channel) -> None:
    """Entry point for the fork server."""
    device_api.choose("musa")
    serve(channel, MusaWorker(channel))


def probe(channel: Channel) -> None:
    """Whether MUSA comes up in this jail: one answer, then the end."""
    device_api.choose("musa")
    cuda_worker.probe(channel)


class MusaWorker(CudaWorker):
    def install(self, header: dict[str, Any]) -> None:
        if self.has_gpu:
            from musaagent.tools.musa.loaders import install_loaders

            install_loaders(self.build)
        else:
            # Nothing can run: torch without torch_musa passes for one that has it.
            from musaagent.tools.host import torch_shim

            torch_shim.install(self.build)

    @contextlib.contextmanager
    def mode(self, name: str) -> Iterator[None]:
        """Functions are made to fail; nothing of ours holds launches back here."""
        from musaagent.tools.host.bridge_functions import made_to_fail

        with made_to_fail(name == "failing"):
            yield

    def build(self, request: Any) -> Any:
        """Stand-in for the loaders: the parent compiles, this process only loads."""
        from musaagent.tools.musa.loaders import NotRunnable

        self.channel.send({"op": "build", **request_fields(request)}, [])
        header, _ = self.channel.recv(None)
        if not header["ok"]:
            raise RuntimeError(header["error"])
        if not header["library"]:
            return NotRunnable(str(header["module"]))
        return load_pybind(header["module"], header["library"])
