"""Two Flask sites that share server-sent events over Redis pub/sub, each at a server of its own, and a page at each.

Arguments: the two ports. Prints what happened as JSON, a line each; a line on stdin has both sites publish it.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import queue
import sys
import threading

import flask
import flask_sse  # type: ignore[import-untyped]  # it ships no types
from werkzeug.serving import make_server

CHANNEL = "flask.room"


class Site:
    """A site at the server of one port, and the events that one of its pages receives."""

    def __init__(self, redis_port: str) -> None:
        self._app = flask.Flask(f"site-{redis_port}")
        self._app.config["REDIS_URL"] = f"redis://127.0.0.1:{redis_port}"
        self._app.register_blueprint(flask_sse.sse, url_prefix="/stream")
        self._server = make_server("127.0.0.1", 0, self._app, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.heard: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def publish(self, text: str) -> None:
        with self._app.app_context():
            flask_sse.sse.publish({"text": text}, type="told", channel=CHANNEL)

    def _listen(self) -> None:
        page = http.client.HTTPConnection("127.0.0.1", self._server.server_port)
        page.request("GET", f"/stream?channel={CHANNEL}")
        answer = page.getresponse()
        while line := answer.readline():
            name, _, value = line.decode().partition(":")
            if name == "data":
                self.heard.put(json.loads(value)["text"])


def main() -> None:
    # The test reads lines of JSON.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    sites = [Site(port) for port in sys.argv[1:]]
    print(json.dumps(["serving"]), flush=True)
    for line in sys.stdin:
        for number, site in enumerate(sites):
            site.publish(f"{line.strip()} of {number}")
        heard = [sorted(site.heard.get(timeout=60) for _ in sites) for site in sites]
        print(json.dumps(["heard", *heard]), flush=True)
    # Its threads wait for events for ever.
    os._exit(0)


main()
