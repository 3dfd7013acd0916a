"""Check blocks that are not run: that they could be."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from docs.blocks import Block
from docs.playing import console_steps
from equipoise.cli.main import COMMANDS, make_app
from support.node import node_path

__all__ = ["check_command", "check_syntax"]

_TYPED = re.compile(r"^(?:\$ |(?:equipoise|redis-cli|make|pip|python3?|export|sudo) )", re.MULTILINE)
_MERMAID = ("sequenceDiagram", "stateDiagram", "flowchart", "graph")


def check_syntax(block: Block, folder: Path) -> None:
    """Raises AssertionError, or what the language's own parser raises."""
    match block.language:
        case "python":
            compile(block.program, "block", "exec")
        case "sh":
            _check_shell(block.text)
        case "console":
            _check_shell("\n".join(command for command, _ in console_steps(block.text)))
        case "toml":
            tomllib.loads(block.text)
        case "json":
            json.loads(block.text)
        case "js":
            _check_node(block.text, folder)
        case "mermaid":
            assert block.text.split(maxsplit=1)[0].startswith(_MERMAID)
        case "text" | "":
            # A drawing, or what was printed; what can be typed says so.
            assert not _TYPED.search(block.text), "it can be typed: say sh or console"
        case other:
            raise AssertionError(f"a block in {other!r}: there is no check for this language")


def _check_shell(text: str) -> None:
    checked = subprocess.run(
        ["bash", "-n", "-c", text], capture_output=True, text=True, check=False, timeout=20
    )
    assert checked.returncode == 0, checked.stderr
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and (re.match(r"\w+=", words[0]) or words[0] == "sudo"):
            words = words[1:]
        if words and Path(words[0]).name == "equipoise":
            check_command(words[1:])


def check_command(words: list[str]) -> None:
    """Whether our command line understands the words. Nothing is run."""
    assert words and words[0] in COMMANDS, f"equipoise {' '.join(words)}: there is no such command"
    command: Any = get_command(make_app(words[:1])).commands[words[0]]  # type: ignore[attr-defined]  # a group
    path, rest = words[0], words[1:]
    while hasattr(command, "commands"):
        if command.invoke_without_command and rest and rest[0].startswith("-"):
            break
        assert rest and rest[0] in command.commands, (
            f"equipoise {path} {' '.join(rest)}: there is no such command"
        )
        path, command, rest = f"{path} {rest[0]}", command.commands[rest[0]], rest[1:]
    try:
        with command.make_context(path, [word.replace("…", "x") for word in rest]):
            pass
    except typer.BadParameter as problem:
        # What has to be there is there on the machine that the words are for.
        assert "does not exist" in problem.message, problem.message


def _check_node(text: str, folder: Path) -> None:
    node = node_path()
    if node is None:
        return
    file = folder / "block.mjs"
    file.write_text(text)
    checked = subprocess.run(
        [node, "--check", str(file)], capture_output=True, text=True, check=False, timeout=20
    )
    assert checked.returncode == 0, checked.stderr
