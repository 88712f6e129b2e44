"""What a candidate is worth to a trainer: MusaCoder's score s(c) and its terms."""

from musaagent.tools.results import Status, Verdict
from musaagent.traces.schema import RewardSettings, RewardTerms


def score(
    verdict: Verdict, speedup: float | None = None, settings: RewardSettings | None = None
) -> RewardTerms | None:
    """s(c) of the MusaCoder paper (arXiv 2606.04847); None for our own failure.

        -1                                 no candidate, no build, no run, or illegal
        -1                                 q = 0
        -0.5 + 0.5 q                       0 < q < 1
        1 + lambda min(max(nu-1, 0), nu_max)   q = 1 and legal

    q is the fraction of trials passed, nu the speed-up over PyTorch: `speedup`, or as the verdict's
    timing has it over eager. Without a timing the last line is 1: a functional check earns nothing
    for speed. A verdict that fails although every trial passed (a checked run found a fault) has no
    q of its own and scores -1.
    """
    settings = settings or RewardSettings()
    if speedup is None:
        speedup = measured_speedup(verdict)
    if verdict.status is Status.INFRA_ERROR:
        return None
    trials = len(verdict.trials)
    fraction = sum(trial.passed for trial in verdict.trials) / trials if trials else 0.0
    legal = verdict.status is not Status.ILLEGAL
    value = -1.0
    if verdict.status is Status.PASSED:
        gain = max((speedup or 1.0) - 1.0, 0.0)
        value = 1.0 + settings.speedup_weight * min(gain, settings.speedup_cap)
    elif verdict.status is Status.MISMATCH and 0.0 < fraction < 1.0:
        value = -0.5 + 0.5 * fraction
    return RewardTerms(
        score=value, fraction_passed=fraction, legal=legal, speedup=speedup, settings=settings
    )


def measured_speedup(verdict: Verdict) -> float | None:
    """Ratio of the medians over eager; None without a timing, or with one that cannot be true."""
    timing = verdict.timing
    over = None if timing is None or timing.too_fast else timing.over("eager")
    return None if over is None else over.ratio
