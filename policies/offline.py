"""Rounds without a route to the model: requests go out as a batch file, answers come as another.

Both are OpenAI's Batch format, which `vllm run-batch` reads and writes too. A request's id follows
from task, target, model, seed and turn, so an answer finds its run whatever the order of the lines.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from musaagent.errors import AwaitingAnswer, UsageError
from musaagent.policies.completion import AnswerReader, BadResponse
from musaagent.policies.history import Message, estimated_tokens
from musaagent.policies.policy import PolicyAnswer, PolicyRequest
from musaagent.policies.served import fitted, sampling_fields, seed_text
from musaagent.policies.settings import DEFAULT_CONTEXT, ServedSettings
from musaagent.tools.candidate import content_hash

URL = "/v1/chat/completions"
_ESTIMATED = "prompt tokens were estimated: the request was written offline"


class RequestPending(AwaitingAnswer):
    """The turn's request, to be put into a batch file."""

    def __init__(self, line: dict[str, Any], why: str) -> None:
        super().__init__(why)
        self.line = line


@dataclass
class BatchAnswers:
    """The lines of a results file by their id, and what was odd about them."""

    good: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    duplicates: int = 0
    used: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)

    def remarks(self) -> list[str]:
        """What became of the lines, for a person."""
        left = self.good.keys() - self.used
        counts = (
            (len(self.used), "used"),
            (self.duplicates, "given twice (the first good one counts)"),
            (len(self.failed), "failed: " + "; ".join(sorted(set(self.failed.values()))[:3])),
            (len(left), "not asked for here, or answered before"),
        )
        return [f"answers {words}: {count}" for count, words in counts if count]


class OfflinePolicy:
    """Answers from a results file; where it has none, the request becomes pending."""

    name = "offline"

    def __init__(self, settings: ServedSettings, answers: BatchAnswers | None = None) -> None:
        self.settings = settings
        self._answers = answers or BatchAnswers()

    def propose(self, request: PolicyRequest) -> PolicyAnswer:
        """Raises RequestPending where the answer is still to come."""
        identity = request_id(request, self.settings)
        messages, remarks, sampling = self._request(request)
        self._answers.asked.add(identity)
        if (body := self._answers.good.get(identity)) is not None:
            self._answers.used.add(identity)
            answer = read_body(body, self.settings.model)
            noted = (*remarks, *answer.remarks)
            return answer.model_copy(
                update={"messages": tuple(messages), "sampling": sampling, "remarks": noted}
            )
        why = f"turn {request.turn} waits for the answer to request {identity}"
        if identity in self._answers.failed:
            why += f" (the last one failed: {self._answers.failed[identity]})"
        body = {"model": self.settings.model, "messages": messages, **sampling}
        line = {"custom_id": identity, "method": "POST", "url": URL, "body": body}
        raise RequestPending(line, why)

    def _request(
        self, request: PolicyRequest
    ) -> tuple[list[Message], tuple[str, ...], dict[str, Any]]:
        window = self.settings.context or DEFAULT_CONTEXT
        messages, remarks = asyncio.run(fitted(request, self.settings, window, _estimate))
        tokens = estimated_tokens(messages)
        sampling = {
            **sampling_fields(self.settings, window, tokens, seed_text(request)),
            "logprobs": True,
            "top_logprobs": 0,
            "return_token_ids": True,
        }
        return messages, (*remarks, _ESTIMATED), sampling


def request_id(request: PolicyRequest, settings: ServedSettings) -> str:
    sample = (request.plan.task, request.target, settings.model, request.seed)
    return f"musaagent-{content_hash('/'.join(map(str, sample)))}-{request.turn}"


def read_answers(path: Path) -> BatchAnswers:
    """Raises UsageError, naming the line, for what is no results file."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text; give the results file of the batch") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give the results file of the batch") from error
    found = BatchAnswers()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            _read_line(found, f"{path}:{number}", line)
    if not found.good and not found.failed:
        raise UsageError(f"{path}: holds no results")
    for identity in found.good:
        found.failed.pop(identity, None)
    return found


def _read_line(found: BatchAnswers, where: str, line: str) -> None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: not JSON ({error.msg}); was the file cut off?") from error
    if not isinstance(record, dict) or not isinstance(record.get("custom_id"), str):
        raise UsageError(f"{where}: no `custom_id`; give the results file of the batch")
    if "method" in record and "response" not in record:
        raise UsageError(f"{where}: a request, not a result; give the file that the batch wrote")
    identity = record["custom_id"]
    response = record.get("response") or {}
    body = response.get("body") if isinstance(response, dict) else None
    fault = _fault(record.get("error"), response, body)
    if identity in found.good:
        found.duplicates += 1
    elif fault:
        found.failed[identity] = fault
    elif isinstance(body, dict):
        found.good[identity] = body


def _fault(error: Any, response: Any, body: Any) -> str:
    """Why a line holds no answer, in one short phrase; empty where it does."""
    if error:
        inner = error.get("message") if isinstance(error, dict) else error
        return " ".join(str(inner or error).split())[:200]
    if not isinstance(response, dict) or not isinstance(body, dict):
        return "the line holds no response"
    status = response.get("status_code", 200)
    if status != 200:
        return f"HTTP {status}"
    try:
        read_body(body, "")
    except BadResponse as bad:
        return str(bad)
    return ""


def read_body(body: Any, model: str) -> PolicyAnswer:
    """A chat completion as an answer. Raises BadResponse."""
    reader = AnswerReader(model)
    reader.read(body)
    reader.expect_choice()
    return reader.answer(streamed=False)


async def _estimate(messages: Sequence[Message]) -> int:
    return estimated_tokens(messages)
