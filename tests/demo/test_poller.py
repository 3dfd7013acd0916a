"""The poller with an API, and without one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from equipoise.lab.demo import GAME, SHORT, Watcher
from equipoise.lab.workload.game import GameLoad
from equipoise.processes import free_port

ANSWERS: dict[str, Any] = {
    "/api/overview": {"state": "leading"},
    "/api/hubs": [
        {
            "hub": "a",
            "is_alive": True,
            "load": 0.5,
            "out_bytes_per_s": 1.0,
            "connections": 1.0,
            "weight": 16,
            "site": "west",
        },
        {
            "hub": "b",
            "is_alive": True,
            "load": None,
            "out_bytes_per_s": None,
            "connections": None,
            "weight": None,
            "site": "",
        },
    ],
    "/api/topics": {
        "topics": [
            {
                "topic": "t",
                "out_bytes_per_s": 5.0,
                "subscribers": 2.0,
                "mode": "all-publishers",
                "homes": ["a", "b"],
            }
        ]
    },
    "/api/plans": [
        {
            "version": version,
            "at_s": 1.0,
            "moves": 0,
            "entries": [],
            "members": [{"hub": "a", "weight": 16, "reason": "joined", "numbers": {}}],
        }
        for version in (2, 1)
    ],
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(ANSWERS[self.path.partition("?")[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return None


@contextmanager
def api() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_hubs_topics_and_changes_are_taken_from_the_api_and_each_change_once() -> None:
    async def look(url: str) -> None:
        watcher = Watcher(url, GameLoad([], GAME))
        scene = await watcher.look(SHORT[0], 0.0)
        assert watcher.is_seen and watcher.hubs == 1
        assert [hub.name for hub in scene.hubs] == ["a", "b"]
        assert watcher.homes_of("t") == 2 and watcher.homes_of("other") == 0
        await watcher.look(SHORT[0], 1.0)
        assert [change.version for change in watcher.changes] == [1, 2]
        assert len(watcher.scenes) == 2

    with api() as url:
        asyncio.run(look(url))


def test_without_an_api_the_scene_still_has_the_players() -> None:
    async def look() -> None:
        watcher = Watcher(f"http://127.0.0.1:{free_port()}", GameLoad([], GAME))
        scene = await watcher.look(SHORT[0], 0.0)
        assert not watcher.is_seen and list(scene.hubs) == [] and scene.lost == 0
        assert scene.act == SHORT[0].title

    asyncio.run(look())
