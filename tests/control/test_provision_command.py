"""A provision command as a real process: its calls, its failures, and that no process of it remains."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from equipoise.control.provision import CommandProvisioner, run_command
from equipoise.errors import ProvisionError
from equipoise.store import MemoryStore, MemoryTree, Tree, WantedServer
from support.polling import until

TREE = Tree("test")


def script(folder: Path, text: str) -> str:
    path = folder / "command"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_command_is_called_with_the_action_and_the_name_of_the_hub(tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.touch()
    command = script(tmp_path, f'echo "$# $*" >> {told}')

    async def main() -> None:
        store = await MemoryStore(MemoryTree(asyncio.get_running_loop().time)).open()
        provisioner = CommandProvisioner(f"{command} --zone 'east 1'", store, TREE)
        await provisioner.start([WantedServer(hub="hub-1")])
        assert list(await provisioner.wanted()) == ["hub-1"]
        await until(lambda: told.read_text() == "4 --zone east 1 start hub-1\n")
        await provisioner.stop(["hub-1"])
        await until(lambda: told.read_text().endswith("4 --zone east 1 stop hub-1\n"))
        async with asyncio.timeout(20):
            while await provisioner.wanted():  # noqa: ASYNC110  the store has no event here
                await asyncio.sleep(0.01)
        await provisioner.close()
        await store.close()

    asyncio.run(main())


def test_a_failed_command_is_reported_with_the_end_of_its_output(tmp_path: Path) -> None:
    command = script(tmp_path, "echo quota exceeded >&2; exit 3")
    with pytest.raises(ProvisionError, match="start hub-1 ended with status 3: quota exceeded"):
        asyncio.run(run_command([command, "start", "hub-1"]))


def test_a_missing_command_is_reported() -> None:
    with pytest.raises(ProvisionError, match="cannot run /nowhere/command start hub-1: No such file"):
        asyncio.run(run_command(["/nowhere/command", "start", "hub-1"]))


def is_alive(pid: int) -> bool:
    try:
        # An unreaped process counts as dead.
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    command = script(tmp_path, f"sleep 300 &\necho $! > {child}.new\nmv {child}.new {child}\nwait")

    async def main() -> None:
        with pytest.raises(ProvisionError, match="did not end within 1 s"):
            await run_command([command, "start", "hub-1"], patience_s=1.0)
        pid = int(child.read_text())
        await until(lambda: not is_alive(pid))

    asyncio.run(main())


def test_a_controller_that_ends_leaves_no_command_behind(tmp_path: Path) -> None:
    own = tmp_path / "own"
    command = script(tmp_path, f"echo $$ > {own}.new\nmv {own}.new {own}\nexec sleep 300")

    async def main() -> None:
        store = await MemoryStore(MemoryTree(asyncio.get_running_loop().time)).open()
        provisioner = CommandProvisioner(command, store, TREE)
        await provisioner.start([WantedServer(hub="hub-1")])
        await until(own.exists)
        await provisioner.close()
        assert not is_alive(int(own.read_text()))
        # The next leader finds the requests.
        assert list(await provisioner.wanted()) == ["hub-1"]
        await store.close()

    asyncio.run(main())
