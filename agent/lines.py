"""What a plan, a build, a verdict and a profile come to, as lines for a person."""

from musaagent.tools.feedback import diagnostic_lines, finding_line, first_errors, sample_lines
from musaagent.tools.opgraph import Plan
from musaagent.tools.results import Build, Launch, Profile, Verdict
from musaagent.traces.speed import speed_lines


def plan_lines(plan: Plan) -> list[str]:
    lines = [
        f"inputs {', '.join(plan.input_shapes) or 'none'} -> "
        f"{', '.join(plan.output_shapes) or 'none'}",
        f"{plan.flops:,} FLOPs, at least {plan.least_bytes:,} bytes to move",
    ]
    if plan.scaling:
        changed = ", ".join(f"{name} {own} -> {ran}" for name, (own, ran) in plan.scaling.items())
        lines.append(f"scaled for the CPU: {changed}; runs {', '.join(plan.scaled_shapes)}")
    if plan.trace_error:
        lines.append(f"not traced: {plan.trace_error}")
    return lines


def build_line(build: Build) -> str:
    took = (
        "cached"
        if build.cached
        else f"{build.seconds:.1f} s ({build.compiler_seconds:.1f} s of compilers)"
    )
    if build.ok and not build.level:
        return f"build: nothing to build yet ({build.log_tail or 'no load_inline call'})"
    outcome = "ok" if build.ok else "failed"
    headers = f", {build.level} headers" if build.level else ""
    real = f"; {build.real_compile}" if build.real_compile else ""
    return f"build: {outcome}{headers}, {took}{real}"


def verdict_lines(verdict: Verdict) -> list[str]:
    lines: list[str] = []
    if verdict.build is not None:
        for diagnostic in first_errors(verdict.build):
            lines += diagnostic_lines(diagnostic)
    for error in verdict.errors if verdict.kind else ():
        lines += sample_lines(error)
    lines += [finding_line(finding) for finding in verdict.findings]
    if verdict.trials:
        passed = sum(trial.passed for trial in verdict.trials)
        worst = max(trial.worst for trial in verdict.trials)
        checked = "with" if verdict.checked else "without"
        lines.append(
            f"{passed} of {len(verdict.trials)} trials passed, largest error {worst:.2%} of what "
            f"is allowed, {checked} a checked run"
        )
    if verdict.probes:
        held = sum(probe.passed for probe in verdict.probes)
        lines.append(
            f"{held} of {len(verdict.probes)} runs at other inputs, weights and sizes passed"
        )
    if verdict.shapes:
        lines.append(f"ran {', '.join(verdict.shapes)}")
    lines += [launch_line(launch) for launch in verdict.launches]
    if verdict.own_share is not None:
        lines.append(f"{verdict.own_share:.0%} of the device time is its own kernels")
    if verdict.timing is not None:
        lines += speed_lines(verdict.timing)
    if verdict.phase_seconds:
        parts = ", ".join(f"{name} {took:.2f}" for name, took in verdict.phase_seconds.items())
        lines.append(f"{verdict.seconds:.2f} s: {parts}")
    lines += [f"flag: {flag}" for flag in verdict.flags]
    if verdict.status != "passed" and verdict.details:
        lines += verdict.details.rstrip().split("\n")[-30:]
    return lines


def profile_lines(profile: Profile) -> list[str]:
    lines = [f"profile: {profile.engine}, bound by {profile.bound}"]
    lines += [f"    {launch_line(launch)}" for launch in profile.launches]
    for r in profile.resources:
        lines.append(
            f"    {r.kernel} on {r.arch}: {r.registers} registers, spills {r.spill_store_bytes}/"
            f"{r.spill_load_bytes} B, shared {r.static_shared_bytes} B, stack {r.stack_bytes} B"
        )
    if profile.suggestion:
        lines.append(f"    next: {profile.suggestion}")
    return lines


def launch_line(launch: Launch) -> str:
    moved = ""
    if launch.global_read_bytes or launch.global_write_bytes:
        moved = f", read {launch.global_read_bytes:,} B, wrote {launch.global_write_bytes:,} B"
    return (
        f"launched {launch.kernel} x{launch.count}: grid {launch.grid}, block {launch.block}, "
        f"shared {launch.shared_bytes} B{moved}"
    )
