"""From a server's chunks, or its one object, to a PolicyAnswer. Reads dicts, trusts none."""

import time
from collections.abc import Mapping
from typing import Any

from musaagent.policies.policy import Live, PolicyAnswer, Progress

_LIVE_EVERY_S = 0.1


class BadResponse(Exception):
    """The server answered, and it is no chat completion."""


class AnswerReader:
    """Gathers one answer."""

    def __init__(self, model: str, live: Live | None = None) -> None:
        self.model = model
        self.finish_reason = ""
        self._live = live
        self._began = self._shown = time.monotonic()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tool_calls = False
        self._choices = 0
        self._length = 0
        self._thinking = 0
        self._prompt_ids: tuple[int, ...] | None = None
        self._ids: list[int] = []
        self._ids_given = False
        self._logprobs: list[float] = []
        self._logprobs_given = False
        self._usage: dict[str, int] = {}
        self._extra: dict[str, str] = {}

    @property
    def characters(self) -> int:
        return self._length + self._thinking

    def read(self, chunk: Any) -> None:
        """One chunk of a stream, or a whole completion. Raises BadResponse."""
        if not isinstance(chunk, Mapping):
            raise BadResponse(f"{str(chunk)[:80]!r} is no JSON object")
        if chunk.get("error"):
            raise BadResponse(f"the stream holds an error: {str(chunk['error'])[:200]}")
        if "choices" not in chunk:
            raise BadResponse(f"no `choices` in {str(dict(chunk))[:120]!r}")
        self.model = _text(chunk.get("model")) or self.model
        if fingerprint := _text(chunk.get("system_fingerprint")):
            self._extra["system_fingerprint"] = fingerprint
        if identity := _text(chunk.get("id")):
            self._extra["request_id"] = identity
        self._read_usage(chunk.get("usage"))
        if (ids := _ids(chunk.get("prompt_token_ids"))) is not None:
            self._prompt_ids = ids
        choices = chunk["choices"] or []
        if choices and isinstance(choices[0], Mapping):
            self._choices += 1
            self._read_choice(choices[0])
        self._show()

    def expect_choice(self) -> None:
        """Raises BadResponse where the server sent no choice at all: that is not the model's."""
        if not self._choices:
            raise BadResponse("the answer has no choices")

    def answer(self, *, streamed: bool) -> PolicyAnswer:
        """What was gathered, with a remark on what the server left out."""
        remarks = []
        if not self._ids_given:
            remarks.append("the server gave no token ids")
        if not self._logprobs_given:
            remarks.append("the server gave no log-probabilities")
        both = self._ids_given and self._logprobs_given
        if both and len(self._ids) != len(self._logprobs):
            remarks.append(f"{len(self._ids)} token ids but {len(self._logprobs)} logprobs")
        reason = self.finish_reason or "none"
        if self._tool_calls and not "".join(self._text).strip():
            reason = "tool_calls"
        return PolicyAnswer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            model=self.model,
            finish_reason=reason,
            usage=self._usage,
            prompt_token_ids=self._prompt_ids,
            token_ids=tuple(self._ids) if self._ids_given else None,
            logprobs=tuple(self._logprobs) if self._logprobs_given else None,
            remarks=tuple(remarks),
            policy_state={**self._extra, "streamed": streamed},
        )

    def _read_choice(self, choice: Mapping[str, Any]) -> None:
        part = choice.get("delta") or choice.get("message") or {}
        if not isinstance(part, Mapping):
            raise BadResponse(f"a choice holds {str(part)[:80]!r} for a message")
        text = _text(part.get("content")) or _text(part.get("refusal"))
        # Servers disagree on the name of the field.
        thinking = _text(part.get("reasoning")) or _text(part.get("reasoning_content"))
        if text:
            self._text.append(text)
            self._length += len(text)
        if thinking:
            self._reasoning.append(thinking)
            self._thinking += len(thinking)
        self._tool_calls = self._tool_calls or bool(part.get("tool_calls"))
        if (ids := _ids(choice.get("token_ids"))) is not None:
            self._ids_given = True
            self._ids.extend(ids)
        self._read_logprobs(choice.get("logprobs"))
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason

    def _read_logprobs(self, value: Any) -> None:
        if not isinstance(value, Mapping) or not isinstance(value.get("content"), list):
            return
        self._logprobs_given = True
        for token in value["content"]:
            number = token.get("logprob") if isinstance(token, Mapping) else None
            self._logprobs.append(float(number) if isinstance(number, int | float) else -9999.0)

    def _read_usage(self, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, count in value.items():
                if isinstance(count, int):
                    self._usage[name] = count
                elif isinstance(count, Mapping):
                    inner = {f"{name}.{k}": v for k, v in count.items() if isinstance(v, int)}
                    self._usage.update(inner)

    def _show(self) -> None:
        now = time.monotonic()
        if self._live is None or now - self._shown < _LIVE_EVERY_S:
            return
        self._shown = now
        recent = "".join((self._text or self._reasoning)[-40:])
        inside = "".join(self._text[:40]).lstrip().startswith("<think>")
        if inside and "</think>" not in (whole := "".join(self._text)):
            thinking, answering = self._thinking + len(whole), 0
        else:
            thinking, answering = self._thinking, self._length
        tail = recent.rstrip("\n").rpartition("\n")[2]
        self._live(Progress(self.model, thinking, answering, now - self._began, tail))


def _text(value: Any) -> str:
    """Text content; a list of parts, as some servers send it, is joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = (part.get("text") for part in value if isinstance(part, Mapping))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _ids(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return tuple(value)
    return None
