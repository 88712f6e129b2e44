"""An event loop in a thread of its own: async work for callers that wait, from any thread."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from musaagent.errors import PolicyUnavailable

T = TypeVar("T")
_CLOSING_S = 5.0


class BackgroundLoop:
    """run() blocks its caller; an interrupt there, or close(), cancels the work."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._pending: set[Future[Any]] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="model", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Raises PolicyUnavailable where the loop was closed meanwhile."""
        with self._lock:
            if self._closed:
                work.close()
                raise PolicyUnavailable("the policy was closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._pending.add(future)
        try:
            return future.result()
        except BaseException as error:
            # Ctrl-C lands here; the connection is closed, and the server stops writing.
            future.cancel()
            if self._closed and not isinstance(error, KeyboardInterrupt):
                raise PolicyUnavailable("the request was cancelled") from error
            raise
        finally:
            with self._lock:
                self._pending.discard(future)

    def close(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Cancel what is under way, then run `last`, then end the thread."""
        with self._lock:
            if self._closed:
                if last is not None:
                    last.close()
                return
            self._closed = True
            pending = list(self._pending)
        for future in pending:
            future.cancel()
        asyncio.run_coroutine_threadsafe(self._end(last), self._loop).result(_CLOSING_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_S)
        self._loop.close()

    async def _end(self, last: Coroutine[Any, Any, None] | None) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if last is not None:
            await last
        await self._loop.shutdown_asyncgens()
