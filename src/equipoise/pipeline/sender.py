"""Send views to the controller from a separate thread, for which the query never waits.

Always true: at most one view waits to be sent, the newest; a view that could not be sent is dropped, since the next one
follows within a second. The leader is looked up for each view, so that a new leader gets the next one.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable

from equipoise.errors import ProtocolError
from equipoise.pipeline.sliding_window import WindowedView
from equipoise.view.codec import encode_view, greeting
from equipoise.view.interest import Interest, decode_interest

__all__ = ["ViewSender"]

log = logging.getLogger("equipoise.pipeline")

# For connecting, and for each read; a view of 100,000 topics takes a tenth of a second on a fast network.
_TIMEOUT_S = 3.0
# A line with ten thousand names.
_ANSWER_BYTES_MAX = 4 * 1024 * 1024
_RECEIVE_BYTES = 65_536


class ViewSender:
    """Owned by the pipeline. `address` returns host:port of the leading controller; empty if unknown."""

    def __init__(self, address: Callable[[], str], token: str = "") -> None:
        # Accepted or rejected by the controller; failed to reach it; replaced by a newer one, or without a leader.
        self.counts: Counter[str] = Counter()
        # The topics that the controller requests by name, from its last reply.
        self.interest = Interest()
        self._address = address
        self._token = token
        self._slot: WindowedView | None = None
        self._wake = threading.Condition()
        self._is_closed = False
        self._socket: socket.socket | None = None
        self._connected_to = ""
        self._last_problem = ""
        self._thread = threading.Thread(target=self._run, name="equipoise-views", daemon=True)
        self._thread.start()

    def offer(self, view: WindowedView) -> None:
        """Send this view next, in place of a waiting one."""
        with self._wake:
            if self._slot is not None:
                self.counts["passed over"] += 1
            self._slot = view
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        self._thread.join(2 * _TIMEOUT_S)

    def _run(self) -> None:
        while (view := self._next()) is not None:
            try:
                self._send(view)
            except OSError as problem:
                self._drop()
                self.counts["failed"] += 1
                self._tell(f"the controller at {self._connected_to} cannot be reached: {problem}")
        self._drop()

    def _next(self) -> WindowedView | None:
        with self._wake:
            self._wake.wait_for(lambda: self._slot is not None or self._is_closed)
            view, self._slot = self._slot, None
            return view

    def _send(self, view: WindowedView) -> None:
        address = self._address()
        if not address:
            self.counts["passed over"] += 1
            self._tell("no controller leads: views are dropped until one does")
            return
        if address != self._connected_to or self._socket is None:
            self._connect(address)
        assert self._socket is not None
        self._socket.sendall(encode_view(*view))
        answer = self._answer()
        if answer.startswith(b"+"):
            self.counts["taken"] += 1
            self._last_problem = ""
            try:
                self.interest = decode_interest(answer[1:].strip())
            except ProtocolError as problem:
                self._tell(f"the controller's answer: {problem}")
        else:
            self.counts["refused"] += 1
            self._tell(f"the controller rejects a view: {answer[1:].decode(errors='replace').strip()}")

    def _connect(self, address: str) -> None:
        self._drop()
        self._connected_to = address
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S)
        self._socket.sendall(greeting(self._token))

    def _answer(self) -> bytes:
        assert self._socket is not None
        answer = b""
        while not answer.endswith(b"\n"):
            received = self._socket.recv(_RECEIVE_BYTES)
            answer += received
            if not received or len(answer) > _ANSWER_BYTES_MAX:
                raise ConnectionResetError("it closed the connection; does it have another token?")
        return answer

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _tell(self, problem: str) -> None:
        """Log it once, until the text changes."""
        if problem != self._last_problem:
            log.warning("%s", problem)
        self._last_problem = problem
