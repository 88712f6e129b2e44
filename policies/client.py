"""The one way to a served model: OpenAI's protocol, one retry policy, streams, token ids.

Who retries what: this module alone, for connections that fail or break, silence, 429 and 5xx.
Never 4xx, and never an answer that came whole: a bad answer is the model's, and goes to revise.
A retried request is a new sample; the answer's remarks name every attempt before it.
"""

import email.utils
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from musaagent.errors import PolicyUnavailable
from musaagent.policies.completion import AnswerReader, BadResponse
from musaagent.policies.history import Message
from musaagent.policies.policy import Live, PolicyAnswer
from musaagent.policies.settings import ServedSettings

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 60.0
_LONGEST_RETRY_AFTER_S = 600.0
_CONNECT_S = 15.0
_COUNT_S = 60.0
_CHECKS = 2
# Fields that a server may refuse, in the order in which they are given up.
_OPTIONAL = ("return_token_ids", "logprobs", "top_logprobs", "stream_options", "seed", "top_p",
             "temperature")  # fmt: skip


class BrokenStream(Exception):
    """The connection ended before the answer did."""


class ModelClient:
    """One server and model. Its methods belong to one event loop; requests may run side by side."""

    def __init__(self, settings: ServedSettings) -> None:
        self.settings = settings
        self._key = os.environ.get(settings.key_env, "").strip()
        self._refused: set[str] = set()
        self._client: openai.AsyncOpenAI | None = None
        self._can_count: bool | None = None
        self._listed: tuple[str, ...] = ()

    async def complete(
        self, messages: Sequence[Message], sampling: Mapping[str, Any], live: Live | None = None
    ) -> PolicyAnswer:
        """One answer. Raises PolicyUnavailable where none can be had."""
        failures: list[str] = []
        began = time.monotonic()
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_transient),
            stop=stop_after_attempt(self.settings.attempts),
            wait=self._wait,
            before_sleep=lambda state: failures.append(self._failure(state)),
            reraise=True,
        )
        try:
            async for attempt in retrying:
                with attempt:
                    answer, sent = await self._negotiated(messages, sampling, live)
        except (openai.OpenAIError, BrokenStream, BadResponse, json.JSONDecodeError) as error:
            raise PolicyUnavailable(self._explain(error)) from error
        except Exception as error:
            if not is_transient(error):
                raise
            raise PolicyUnavailable(self._explain(error)) from error
        given_up = [f"the server does not take {name}" for name in sorted(self._refused)]
        return answer.model_copy(
            update={
                "messages": tuple(messages),
                "sampling": sent,
                "remarks": (*failures, *given_up, *answer.remarks),
                "latency_s": time.monotonic() - began,
            }
        )

    async def check(self) -> None:
        """Raises PolicyUnavailable where the server is not there or refuses the key.

        A server that lists no models, or others, may still have this one: then a request decides.
        """
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_transient),
            stop=stop_after_attempt(min(self.settings.attempts, _CHECKS)),
            wait=self._wait,
            reraise=True,
        )
        try:
            async for attempt in retrying:
                with attempt:
                    await self._list_models()
        except Exception as error:
            away = isinstance(error, openai.APIConnectionError)
            if away and not isinstance(error, openai.APITimeoutError):
                raise PolicyUnavailable(self._explain(error)) from error
            self._pass_on(error)

    async def _list_models(self) -> list[Any]:
        quick = openai.Timeout(_COUNT_S, connect=_CONNECT_S)
        listed = await self._connected().with_options(timeout=quick).models.list()
        self._listed = tuple(str(model.id) for model in listed.data)
        return listed.data

    async def context(self) -> int | None:
        """The context window that the server states for the model."""
        try:
            listed = await self._list_models()
        except Exception as error:
            self._pass_on(error)
            return None
        for model in listed:
            size = model.to_dict().get("max_model_len")
            if model.id == self.settings.model and isinstance(size, int) and size > 0:
                return size
        return None

    async def count(self, messages: Sequence[Message]) -> int | None:
        """Tokens of the rendered prompt by the server's own tokenizer; None where it has none."""
        if self._can_count is False:
            return None
        root = self.settings.base_url.removesuffix("/v1")
        body = {
            "model": self.settings.model,
            "messages": list(messages),
            "add_generation_prompt": True,
        }
        try:
            client = self._connected().with_options(base_url=root, timeout=_COUNT_S)
            answer = await client.post("/tokenize", body=body, cast_to=object)
        except Exception as error:
            self._pass_on(error)
            answer = None
        count = answer.get("count") if isinstance(answer, Mapping) else None
        self._can_count = isinstance(count, int)
        return count if isinstance(count, int) else None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _connected(self) -> openai.AsyncOpenAI:
        if self._client is None:
            silence = self.settings.timeout_s
            limits = openai.Timeout(silence, connect=_CONNECT_S)
            # Retries are ours alone: two layers would multiply, and hide attempts from the trace.
            self._client = openai.AsyncOpenAI(
                base_url=self.settings.base_url,
                api_key=self._key or "none",
                max_retries=0,
                timeout=limits,
            )
        return self._client

    async def _negotiated(
        self, messages: Sequence[Message], sampling: Mapping[str, Any], live: Live | None
    ) -> tuple[PolicyAnswer, dict[str, Any]]:
        """Ask, and ask again without a field that the server refuses by name."""
        while True:
            fields = self._fields(sampling)
            try:
                return await self._ask(messages, fields, live), fields
            except openai.BadRequestError as error:
                name = _refused_field(error, fields)
                if name is None:
                    raise
                log.warning("%s refuses %s; going on without", self.settings.base_url, name)
                self._refused.add(name)

    def _fields(self, sampling: Mapping[str, Any]) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            **sampling,
            "logprobs": True,
            "top_logprobs": 0,
            "return_token_ids": True,
        }
        if self.settings.stream:
            wanted["stream_options"] = {"include_usage": True}
        if "max_tokens" in self._refused:
            wanted["max_completion_tokens"] = wanted.pop("max_tokens")
        if "logprobs" in self._refused:
            wanted.pop("top_logprobs")
        return {name: value for name, value in wanted.items() if name not in self._refused}

    async def _ask(
        self, messages: Sequence[Message], fields: Mapping[str, Any], live: Live | None
    ) -> PolicyAnswer:
        client, reader = self._connected(), AnswerReader(self.settings.model, live)
        asked: dict[str, Any] = {"model": self.settings.model, "messages": list(messages)}
        # By extra_body every field goes out as it is, whatever this client's version knows.
        if not self.settings.stream:
            whole = await client.chat.completions.create(**asked, extra_body=dict(fields))
            reader.read(_plain(whole))
            reader.expect_choice()
            return reader.answer(streamed=False)
        stream = await client.chat.completions.create(**asked, stream=True, extra_body=dict(fields))
        if "event-stream" not in stream.response.headers.get("content-type", ""):
            await stream.close()
            raise BadResponse("it is no event stream")
        try:
            async for chunk in stream:
                reader.read(_plain(chunk))
        except Exception as error:
            if is_transient(error):
                raise BrokenStream(_after(reader, f": {error}")) from error
            raise
        finally:
            await stream.close()
        reader.expect_choice()
        if not reader.finish_reason:
            raise BrokenStream(_after(reader, " without a finish_reason"))
        return reader.answer(streamed=True)

    def _wait(self, state: RetryCallState) -> float:
        """What the server asks for, else exponential with jitter."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, openai.APIStatusError):
            asked = retry_after_s(error.response.headers.get("retry-after"))
            if asked is not None:
                return min(asked, _LONGEST_RETRY_AFTER_S)
        return wait_random_exponential(self.settings.backoff_s, max=_LONGEST_WAIT_S)(state)

    def _failure(self, state: RetryCallState) -> str:
        error = state.outcome.exception() if state.outcome else None
        line = f"attempt {state.attempt_number} failed: {self._explain(error)}"
        log.warning("%s", line)
        return line

    def _pass_on(self, error: Exception) -> None:
        """A refused key or a server that is not there must not read as a missing endpoint."""
        if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            raise PolicyUnavailable(self._explain(error)) from error

    def _advice(self) -> str:
        """What to do about a model or path that is not there."""
        if self._listed and self.settings.model not in self._listed:
            more = f" and {len(self._listed) - 5} more" if len(self._listed) > 5 else ""
            return f"; the server has {', '.join(self._listed[:5])}{more}"
        if not self.settings.base_url.endswith("/v1"):
            return "; does --base-url end in /v1?"
        return ""

    def _explain(self, error: BaseException | None) -> str:
        """One line: what, where, what to do. A key that a server repeats is taken out."""
        where = f"model {self.settings.model} at {self.settings.base_url}"
        match error:
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                state = "was refused" if self._key else "is not set"
                said = f"HTTP {error.status_code}: the key in ${self.settings.key_env} {state}"
            case openai.NotFoundError():
                said = f"HTTP 404: no such model or path ({_server_text(error)})" + self._advice()
            case openai.APITimeoutError():
                said = f"no answer in {self.settings.timeout_s:g} s"
            case openai.APIConnectionError():
                said = f"cannot connect ({error.__cause__ or error})"
            case openai.APIStatusError():
                said = f"HTTP {error.status_code}: {_server_text(error)}"
            case json.JSONDecodeError() | BadResponse() | openai.APIResponseValidationError():
                said = f"the answer is no chat completion ({error}); does --base-url end in /v1?"
            case _:
                said = str(error)
        line = " ".join(f"{where}: {said}".split())
        return line.replace(self._key, "***") if self._key else line


def is_transient(error: BaseException) -> bool:
    """Whether another try may help."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code == 429 or error.status_code >= 500
    if isinstance(error, openai.APIConnectionError | BrokenStream):
        return True
    if type(error) is openai.APIError:
        # An error that the server writes into its stream; its body has the code.
        code = error.body.get("code") if isinstance(error.body, Mapping) else None
        return not isinstance(code, int) or code == 429 or code >= 500
    # Older clients let the transport's own errors through in the middle of a stream.
    package = type(error).__module__.partition(".")[0]
    return package in ("httpx", "httpx2", "httpcore", "httpcore2")


def retry_after_s(header: str | None) -> float | None:
    """Seconds to wait: the header holds a number or a date."""
    if not header:
        return None
    try:
        return max(float(header), 0.0)
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(header).timestamp() - time.time(), 0.0)
    except ValueError:
        return None


def _refused_field(error: openai.BadRequestError, fields: Mapping[str, Any]) -> str | None:
    """The field that a 400 names, where the request can do without it."""
    body = error.body if isinstance(error.body, Mapping) else {}
    text = f"{body.get('param') or ''} {error}"
    if "max_tokens" in fields and "max_completion_tokens" in text and "instead" in text:
        return "max_tokens"
    words = set(re.findall(r"\w+", text))
    return next((name for name in _OPTIONAL if name in fields and name in words), None)


def _server_text(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        text = inner.get("message") if isinstance(inner, Mapping) else inner
        return str(text or body)[:300]
    return str(body or error)[:300]


def _after(reader: AnswerReader, how: str) -> str:
    return f"the stream broke after {reader.characters} characters{how}"


def _plain(value: Any) -> Any:
    """The dict behind one of the client's models; anything else as it is."""
    return value.to_dict() if hasattr(value, "to_dict") else value
