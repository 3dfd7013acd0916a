"""Write the answers of a real redis-server into the transcripts.

    python tests/conformance/record.py [FILE …]     all of them by default

Run it after adding a dialogue (the lines that are sent suffice) and read the difference before committing it:
numbers that change from run to run become placeholders by hand, and are kept by the next recording. Dialogues
marked `! since` a later version than the server's are left alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.player import Player
from conformance.transcript import FOLDER, parse, render
from conformance.worlds import WORLDS, redis_in


def main(names: list[str]) -> None:
    paths = [path for path in sorted(FOLDER.glob("*.txt")) if not names or path.stem in names]
    files = {path: parse(path.read_text(), path.stem) for path in paths}
    for world in WORLDS:
        chosen = [
            d
            for dialogues in files.values()
            for d in dialogues
            if d.world == world and "since" not in d.notes
        ]
        if not chosen:
            continue
        with redis_in(world) as server:
            for dialogue in chosen:
                with Player((server.host, server.port)) as player:
                    player.record(dialogue)
    for path, dialogues in files.items():
        path.write_text(render(dialogues))


if __name__ == "__main__":
    main(sys.argv[1:])
