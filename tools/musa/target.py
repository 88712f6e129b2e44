"""The musa target: candidates built by mcc and run on this machine's Moore Threads cards.

The cuda target with another vendor's parts: mcc for nvcc, torch_musa for torch's CUDA, the CPU as
judge. Without a card it compiles and says that nothing ran. It was never run on a card.
"""

from pathlib import Path

from musaagent.tools.candidate import Candidate
from musaagent.tools.cuda.bench import GpuBench
from musaagent.tools.cuda.builder import Builder
from musaagent.tools.cuda.devices import Gpu, GpuInfo
from musaagent.tools.cuda.target import CudaTarget
from musaagent.tools.host.sources import SourceSet
from musaagent.tools.host.target import TRACING_PRELOAD
from musaagent.tools.musa import gmi, health
from musaagent.tools.musa.builder import MusaBuilder
from musaagent.tools.musa.cards import DEFAULT_ARCH
from musaagent.tools.musa.profile import musa_profile
from musaagent.tools.port.checked_build import with_portability
from musaagent.tools.results import Build, Profile, Status, Verdict
from musaagent.tools.target import Capability, TargetName, VerifyOptions
from musaagent.tools.task import Task

UNTRIED = "the musa target was never run on a card: check what it says by hand"
UNCHECKED = "no checked run: the musa target has none; `--target host --arch ARCH --check` has one"
_PRELOAD = (
    "torch",
    *TRACING_PRELOAD,
    "torch._inductor.config",  # torch's profiler imports it at its first use, which takes seconds
    "torch.utils._python_dispatch",
    "torch.profiler",
    "musaagent.tools.cuda.clock",
    "musaagent.tools.musa.worker",
    "musaagent.tools.musa.worker_reference",
    "musaagent.tools.host.bridge",
    "musaagent.tools.host.torch_shim",
)


class MusaTarget(CudaTarget):
    """Fulfils `musaagent.tools.target.Target`; use as a context manager or call close()."""

    name: TargetName = "musa"
    preload = _PRELOAD
    candidate_entry = "musaagent.tools.musa.worker:main"
    reference_entry = "musaagent.tools.musa.worker_reference:main"
    probe_entry = "musaagent.tools.musa.worker:probe"
    holds_launches = False
    tries_sizes = False
    no_card = (
        "there is no Moore Threads GPU here, so nothing ran; `--target host --arch ARCH` runs it "
        "on the CPU"
    )

    def find_cards(self) -> tuple[GpuInfo, ...]:
        from musaagent.tools.musa.toolchain import find_torch_musa

        # A card without torch_musa is of no use to a candidate.
        return gmi.find_cards() if find_torch_musa() is not None else ()

    def make_builder(self, cache_dir: Path | None) -> Builder:
        cards = self.pool.gpus
        return MusaBuilder(cards[0].info.arch if cards else DEFAULT_ARCH, cache_dir)

    def device_files(self) -> tuple[str, ...]:
        return health.device_files()

    def card_state(self, gpu: Gpu) -> tuple[str, str]:
        return gmi.describe_state(gpu.info.index, gmi.states_now(), gmi.clock_now())

    def capabilities(self) -> tuple[Capability, ...]:
        return health.capabilities(tuple(gpu.info for gpu in self.pool.gpus))

    def arch_for(self, options: VerifyOptions) -> str:
        """A card that is here decides."""
        arch = self.builder.arch
        return arch if self.pool.gpus else options.arch or arch

    def compile(self, sources: SourceSet, timeout_s: float, arch: str) -> Build:
        """Portability first, then mcc."""
        builder = self.builder
        assert isinstance(builder, MusaBuilder)

        def by_mcc(sources: SourceSet) -> Build:
            return builder.build(sources, timeout_s=timeout_s, arch=arch)

        return with_portability(sources, arch, by_mcc)

    def make_checks(
        self,
        bench: GpuBench,
        task: Task,
        candidate: Candidate,
        options: VerifyOptions,
        verdict: Verdict,
    ) -> Verdict:
        """The checks of the cuda target are those of NVIDIA's compute-sanitizer."""
        if not options.check:
            return verdict
        return verdict.model_copy(update={"flags": (*verdict.flags, UNCHECKED)})

    def verify(self, task: Task, candidate: Candidate, options: VerifyOptions) -> Verdict:
        """A dispute between torch_musa and the CPU is a flag, and so is what was never tried."""
        verdict = super().verify(task, candidate, options)
        flags = list(verdict.flags)
        if "DISPUTE" in verdict.reference:
            flags.append(verdict.reference)
        if verdict.status is not Status.INFRA_ERROR:
            flags.append(UNTRIED)
        return verdict.model_copy(update={"flags": tuple(dict.fromkeys(flags))})

    def make_profile(
        self,
        bench: GpuBench,
        task: Task,
        candidate: Candidate,
        options: VerifyOptions,
        verdict: Verdict,
    ) -> Profile:
        return musa_profile(bench, task, candidate, options, verdict)
