"""Known causes of wrong values, recognised by the pattern that they leave."""

from collections.abc import Sequence

from musaagent.tools.opgraph import Trap
from musaagent.tools.results import FindingKind, MismatchKind, Verdict


def mismatch_hint(verdict: Verdict, traps: Sequence[Trap] = ()) -> str:
    """One likely cause; empty where no pattern is known."""
    kinds = {finding.kind for finding in verdict.findings}
    if FindingKind.RACE in kinds:
        return "threads race for the same element: put a barrier between write and read"
    if FindingKind.UNINITIALISED_READ in kinds:
        return "shared memory is read before it is written on every path"
    if verdict.kind not in (MismatchKind.NUMERIC, MismatchKind.NONFINITE):
        return ""
    names = {trap.name for trap in traps}
    buffers = [e for e in verdict.errors if e.output.startswith("buffer ")]
    if "train_mode_batchnorm" in names:
        if buffers and len(buffers) == len(verdict.errors):
            return (
                "the outputs are right and the running statistics are not: in train mode they are "
                "updated, with the unbiased variance and the momentum"
            )
        return (
            "the module runs in TRAIN mode: BatchNorm uses the mean and the biased variance of the "
            "batch itself, not running_mean and running_var"
        )
    pattern = next((e.pattern for e in verdict.errors if e.pattern), "")
    return _by_pattern(pattern, verdict)


def _by_pattern(pattern: str, verdict: Verdict) -> str:
    if "(a tail" in pattern:
        return (
            "the tail is not handled: the grid is too small or rounded down, or a tile or vector "
            "loop leaves out the elements after the last whole one"
        )
    if "in another order" in pattern:
        return "an axis or a stride is mixed up: compare the index arithmetic with the layout"
    if "every wrong value is 0:" in pattern:
        return "these elements are never written: the grid does not cover them, or a guard is wrong"
    if "NaN" in pattern:
        return "memory is read that nobody wrote (torch.empty), or 0/0"
    if "times the expected one" in pattern:
        return "a factor is wrong: the divisor of a mean, a missing scale, or something added twice"
    if "is off by" in pattern:
        return "a constant is added or missing: a bias, an epsilon, or a reduction's identity"
    if "only the first" in pattern:
        return "the first indices are treated otherwise: padding, an offset, or a reduction's start"
    passed = sum(trial.passed for trial in verdict.trials)
    if 0 < passed < len(verdict.trials):
        return (
            "some trials pass and some do not: a race, memory that was never written, or values "
            "of a range that the kernel does not handle"
        )
    return ""
