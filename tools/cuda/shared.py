"""What several threads ask for at once, and one of them makes."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shared(Generic[K, V]):
    """Thread-safe. An error is that of all who waited for it, and is not kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[K, Future[V]] = {}

    def get(
        self,
        key: K,
        make: Callable[[], V],
        *,
        keep: bool = True,
        usable: Callable[[V], bool] = lambda made: True,
    ) -> V:
        """`keep` false: whoever asks after it was made has it made again; as what is not `usable`
        any more is.
        """
        with self._lock:
            future = self._known.get(key)
            if future is not None and future.done() and not usable(future.result()):
                future = None
            mine = future is None
            if future is None:
                future = self._known[key] = Future()
        if mine:
            try:
                made = make()
            except BaseException as error:
                self._forget(key, future)
                future.set_exception(error)
            else:
                if not keep:
                    self._forget(key, future)
                future.set_result(made)
        return future.result()

    def take(self, wanted: Callable[[K], bool] = lambda key: True) -> list[V]:
        """Forget those keys; what was made for them."""
        with self._lock:
            futures = [self._known.pop(key) for key in [k for k in self._known if wanted(k)]]
        return [f.result() for f in futures if f.done() and f.exception() is None]

    def _forget(self, key: K, future: Future[V]) -> None:
        with self._lock:
            if self._known.get(key) is future:
                del self._known[key]
