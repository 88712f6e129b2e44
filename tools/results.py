"""What compile, test and profile return: frozen, validated, the same on disk and between processes.

A candidate's failure is one of these values. Our own failure is an exception (`musaagent.errors`).
"""

import warnings
from enum import StrEnum
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Every pydantic model still carries a deprecated classmethod of this name; the field may hide it.
warnings.filterwarnings("ignore", message='Field name "construct" in "Diagnostic"')


class Record(BaseModel):
    """Base of all result types: immutable, and strict about unknown fields."""

    # JSON has no NaN or infinity; as strings they survive the way to disk and back.
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="strings"
    )


class Status(StrEnum):
    """The one outcome of a verdict."""

    PASSED = "passed"
    """Compiled, ran, legal, and every trial agreed with the reference."""
    EXTRACTION_ERROR = "extraction_error"
    """The policy's answer holds no candidate that can be read."""
    COMPILE_ERROR = "compile_error"
    """A compiler, or the target's list of unsupported constructs, refused the source."""
    RUNTIME_ERROR = "runtime_error"
    """The candidate raised, crashed, made an invalid launch, or a checked run found a fault."""
    MISMATCH = "mismatch"
    """It ran and the values are wrong; `Verdict.kind` says how."""
    ILLEGAL = "illegal"
    """It did not do the work itself, or changed what it must not change."""
    TIMEOUT = "timeout"
    """It was still running at the time limit."""
    OOM = "oom"
    """It asked for more memory than the limit."""
    INFRA_ERROR = "infra_error"
    """Our failure; never charged to the candidate."""


class MismatchKind(StrEnum):
    """How the values of a `mismatch` are wrong."""

    SHAPE = "shape"
    DTYPE = "dtype"
    NONFINITE = "nonfinite"
    NUMERIC = "numeric"


class Diagnostic(Record):
    """One compiler message, in the candidate's own coordinates."""

    tool: str
    """`g++`, `nvcc`, `ld`, `host` (our list of unsupported constructs), `mcc`."""
    severity: Literal["error", "warning"]
    message: str
    source: str = ""
    """Which text: `cpp_sources[0]`, `cuda_sources[0]`, `candidate.py`."""
    line: int = 0
    """1-based line in that text, 0 where unknown."""
    column: int = 0
    text: str = ""
    """The source line itself."""
    notes: tuple[str, ...] = ()
    construct: str | None = None  # type: ignore[assignment]
    """Set where the target cannot run a construct: its name, as `inline PTX` or `wmma`."""


class KernelResources(Record):
    """What ptxas says of one kernel, and what its instructions show."""

    kernel: str
    arch: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int
    stack_bytes: int
    arithmetic: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Instructions by what they compute in, beside float32: `half`, `bfloat16`, `tf32`, `fp8`,
    `int8`, `double`, `approximate`. Empty where no disassembler was at hand, too."""


class Build(Record):
    """One compile: of every `load_inline` call that the candidate made."""

    ok: bool
    diagnostics: tuple[Diagnostic, ...] = ()
    level: str = ""
    """Which headers built it: `thin` or `full` (the slowest level of several libraries)."""
    cached: bool = False
    seconds: float = 0.0
    """Wall time of the build."""
    compiler_seconds: float = 0.0
    """Part of it that was spent in compiler and linker processes (0 when cached)."""
    libraries: tuple[str, ...] = ()
    """Paths of the built libraries."""
    resources: tuple[KernelResources, ...] = ()
    real_compile: str = ""
    """What the real compile for sm_90 came to: `nvcc 13.0, sm_90`, or why there is none."""
    log_tail: str = ""
    flags: tuple[str, ...] = ()


class FindingKind(StrEnum):
    """What a checked run can find."""

    OUT_OF_BOUNDS = "out_of_bounds"
    MISALIGNED = "misaligned"
    """An address that is no multiple of the access (cuda target only)."""
    RACE = "race"
    UNINITIALISED_READ = "uninitialised_read"
    DIVERGENT_BARRIER = "divergent_barrier"
    DEADLOCK = "deadlock"
    INVALID_LAUNCH = "invalid_launch"
    UNDEFINED_SHUFFLE = "undefined_shuffle"
    PARTIAL_WARP = "partial_warp"
    """A warp operation whose mask names lanes that never arrive. A remark: it does not decide."""
    TRAP = "trap"
    """`__trap()`, a failed device `assert`, or a stack overflow."""


class Finding(Record):
    """One fault seen in a checked run, with its place."""

    kind: FindingKind
    kernel: str
    message: str
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    source: str = ""
    line: int = 0


class Launch(Record):
    """One kernel launch, merged with its equals."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    count: int = 1
    global_read_bytes: int = 0
    """Bytes that the kernel's loads asked of global memory (checked runs only)."""
    global_write_bytes: int = 0


class ErrorSample(Record):
    index: tuple[int, ...]
    expected: float
    got: float


class OutputError(Record):
    """How one output differs from the float64 (or native) reference."""

    output: str
    """`output 0`, or `buffer bn.running_mean`."""
    max_abs: float
    max_rel: float
    mean_abs: float
    tolerance_abs: float
    """Largest error that would still have passed at the worst element."""
    bad_fraction: float
    samples: tuple[ErrorSample, ...] = ()
    pattern: str = ""
    """Where the wrong elements lie, in words, as `only the last 3 columns`."""


class Tolerance(Record):
    """What counted as equal: |got - expected| <= atol + rtol * |expected|, scaled as stated."""

    dtype: str
    atol: float
    rtol: float
    rule: str


class Trial(Record):
    """One seed on one set of shapes."""

    name: str
    passed: bool
    worst: float = 0.0
    """Largest |error| / allowed error over all outputs; below 1 passes."""


FASTER = 1.1
"""A candidate counts as faster above this ratio, as in MusaCoder's paper (arXiv 2606.04847)."""


class Latency(Record):
    """Device time of one implementation, in milliseconds."""

    median_ms: float
    low_ms: float
    """10th percentile."""
    high_ms: float
    """90th percentile."""
    count: int
    host_ms: float = 0.0
    """How long the CPU is busy with one call; hidden behind the device while time is taken."""


class Speedup(Record):
    """How many times faster than one baseline, with the interval over the rounds."""

    baseline: str
    """`eager`, `compile` (torch.compile) or `graph` (CUDA graph of eager)."""
    ratio: float
    low: float
    high: float

    @property
    def faster(self) -> bool:
        return self.ratio > FASTER


class Timing(Record):
    """Times of a passed candidate beside PyTorch's, taken in turns on the same card."""

    device: str
    candidate: Latency
    baselines: dict[str, Latency] = Field(default_factory=dict)
    speedups: tuple[Speedup, ...] = ()
    missing: dict[str, str] = Field(default_factory=dict)
    """Baselines that could not be had, and `shared memory` for inputs; each with its reason."""
    precision: str = ""
    """The matrix precision that both sides ran with."""
    card: str = ""
    """Load, memory, temperature and clock just before, where the target can read them."""
    floor_ms: float | None = None
    """The least time that the task's bytes and operations need on this card; None: not known."""
    flags: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    judged: str = ""
    """How much of the repetition that was judged while time was taken was looked at."""
    too_fast: bool = False
    """Twice below the floor, with data that cannot stay in the cache: nothing is earned by it."""

    def over(self, baseline: str = "eager") -> Speedup | None:
        return next((s for s in self.speedups if s.baseline == baseline), None)


class Verdict(Record):
    """The result of test. `flags` are remarks that never decide alone."""

    status: Status
    target: str
    kind: MismatchKind | None = None
    message: str = ""
    """One line: what is wrong and where; empty when passed."""
    details: str = ""
    """More lines for the next prompt or a person: traceback, expected and got."""
    fault: str = ""
    """Of an extraction error: its kind, an `ExtractionFault`."""
    build: Build | None = None
    trials: tuple[Trial, ...] = ()
    probes: tuple[Trial, ...] = ()
    """Runs beyond the task's own inputs and sizes; one that failed is told in `flags`."""
    errors: tuple[OutputError, ...] = ()
    findings: tuple[Finding, ...] = ()
    checked: bool = False
    """Whether the watched run (every load and store) was made."""
    tolerances: tuple[Tolerance, ...] = ()
    shapes: tuple[str, ...] = ()
    """Input shapes that ran, as `float32[64, 1000]`."""
    launches: tuple[Launch, ...] = ()
    own_share: float | None = None
    """The part of the device time of a call that is the candidate's own kernels, between 0 and 1;
    the rest are fills and copies. None without a GPU."""
    reference: str = ""
    """What the outputs were compared with: `float64` or the reference's own dtype, and why."""
    timing: Timing | None = None
    """Only where it passed, on targets that have a clock."""
    flags: tuple[str, ...] = ()
    seconds: float = 0.0
    phase_seconds: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.status is Status.MISMATCH) != (self.kind is not None):
            raise ValueError("kind belongs to status mismatch, and only there")
        if self.status is Status.PASSED and not (
            self.trials and all(t.passed for t in self.trials)
        ):
            raise ValueError("passed needs at least one trial, and all of them passed")
        if self.status is Status.COMPILE_ERROR and (self.build is None or self.build.ok):
            raise ValueError("compile_error needs the failed build")
        if self.timing is not None and self.status is not Status.PASSED:
            raise ValueError("only what passed is timed")
        return self


class Profile(Record):
    """What profile found. On host it is structure and traffic, never time."""

    target: str
    engine: str
    """How it was measured, in words, as `host checked run + ptxas sm_90`."""
    launches: tuple[Launch, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    bound: Literal["memory", "compute", "latency", "launch", "tail", "unknown"] = "unknown"
    counters: dict[str, float] = Field(default_factory=dict)
    suggestion: str = ""
    """One thing to try next; empty when the goal is met."""
