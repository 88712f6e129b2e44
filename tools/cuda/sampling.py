"""The judged repetition where outputs are too large to be sent: some elements of both sides.

The candidate's worker keeps the outputs; which elements are looked at is drawn here, after them.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from musaagent.tools.cuda.looked_at import ENDS, MOST_RANDOM
from musaagent.tools.judge import Judgement, judge_run
from musaagent.tools.reference_session import Expected
from musaagent.tools.results import MismatchKind, Status
from musaagent.tools.session import CandidateFailure, CandidateSession
from musaagent.tools.tolerance import ToleranceRule
from musaagent.tools.wire import WireError, checked_meta

MOST_SENT_BYTES = 64 << 20
"""Outputs of one repetition that are sent whole."""
_MOST_OUTPUTS = 64


@dataclass(frozen=True)
class Kept:
    """What the candidate answered in the repetition that is judged."""

    index: int
    """Of the input set."""
    answer: dict[str, Any]
    blobs: list[bytes]
    """Of the outputs (where they are sampled, of the sample), then of the buffers."""
    whole: list[dict[str, Any]] = field(default_factory=list)
    """Metas of the outputs that were sampled; empty where all was sent."""
    places: list[np.ndarray] = field(default_factory=list)
    """Flat indices of the elements that were looked at, for each output."""

    @property
    def counts(self) -> list[int]:
        return [math.prod(meta["shape"]) for meta in self.whole]

    @property
    def looked_at(self) -> str:
        """`N of M values`, or `all values`."""
        if not self.whole:
            return "all values"
        return f"{sum(p.size for p in self.places)} of {sum(self.counts)} values"


def places_in(count: int, draw: random.Random) -> np.ndarray:
    """Ordered flat indices: all of a small output, else random ones and both ends."""
    if count <= MOST_RANDOM:
        return np.arange(count, dtype=np.int64)
    drawn = np.random.Generator(np.random.PCG64(draw.getrandbits(128)))
    return np.unique(
        np.concatenate(
            [
                np.arange(ENDS, dtype=np.int64),
                np.arange(count - ENDS, count, dtype=np.int64),
                drawn.integers(0, count, MOST_RANDOM, dtype=np.int64),
            ]
        )
    )


def keep(
    session: CandidateSession,
    index: int,
    answer: dict[str, Any],
    blobs: list[bytes],
    draw: random.Random,
) -> Kept:
    """The answer, with elements of the outputs that it did not hold. Raises CandidateFailure."""
    if "whole" not in answer:
        return Kept(index, answer, blobs)
    whole = _metas(answer)
    places = [places_in(math.prod(meta["shape"]), draw) for meta in whole]
    sampled, values = session.request(
        {"op": "sample"}, [p.tobytes() for p in places], doing="show its outputs"
    )
    metas = sampled.get("tensors")
    if not isinstance(metas, list) or not _fit(metas, values, whole, places):
        raise CandidateFailure(Status.RUNTIME_ERROR, "sent other values than it was asked for")
    buffers = answer["tensors"] if isinstance(answer.get("tensors"), list) else []
    return Kept(index, answer | {"tensors": metas + buffers}, values + blobs, whole, places)


def _fit(
    metas: list[Any],
    values: list[bytes],
    whole: list[dict[str, Any]],
    places: list[np.ndarray],
) -> bool:
    return len(metas) == len(values) == len(whole) and all(
        isinstance(m, dict) and m.get("dtype") == w["dtype"] and m.get("shape") == [p.size]
        for m, w, p in zip(metas, whole, places, strict=True)
    )


def _metas(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """What the worker, which is not trusted, says of its outputs."""
    metas = answer["whole"]
    try:
        if not isinstance(metas, list) or len(metas) > _MOST_OUTPUTS:
            raise WireError("too many outputs")
        for meta in metas:
            checked_meta(meta)
    except WireError as error:
        raise CandidateFailure(Status.RUNTIME_ERROR, f"sent no valid outputs: {error}") from None
    return [{"dtype": m["dtype"], "shape": m["shape"]} for m in metas]


def judge_sample(
    kept: Kept, expected: Expected, whole: Sequence[dict[str, Any]], rule: ToleranceRule
) -> Judgement:
    """Shapes and dtypes of the whole, then the values that were looked at, as any other run."""
    problem = _difference(kept.whole, whole)
    if problem is not None:
        kind, message = problem
        return Judgement(
            kind=kind, message=message, worst=float("inf"), reference=expected.reference
        )
    if len(expected.native) != len(kept.whole):
        raise ValueError("the reference sent no values for some outputs")
    judged = judge_run(kept.answer, kept.blobs, expected, rule, kernels_ran=1)
    if judged.kind is None:
        return judged
    return replace(judged, message=f"{judged.message}; {kept.looked_at} were looked at")


def _difference(
    got: Sequence[dict[str, Any]], want: Sequence[dict[str, Any]]
) -> tuple[MismatchKind, str] | None:
    if len(got) != len(want):
        return MismatchKind.SHAPE, f"{len(got)} outputs, the reference returns {len(want)}"
    for index, (have, expected) in enumerate(zip(got, want, strict=True)):
        if list(have["shape"]) != list(expected["shape"]):
            message = f"output {index}: shape {have['shape']}, expected {expected['shape']}"
            return MismatchKind.SHAPE, message
        if have["dtype"] != expected["dtype"]:
            message = f"output {index}: dtype {have['dtype']}, expected {expected['dtype']}"
            return MismatchKind.DTYPE, message
    return None
