"""The page on writing policies keeps up with the protocol: what it shows is what a controller calls."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from control.control_world import World, play
from docs.blocks import Block, blocks_of
from equipoise.control.rounds import ControllerState
from equipoise.plan import Policy
from support.polling import until

PAGE = "docs/howto/write-a-policy.md"
FUTURE = "from __future__ import annotations\nfrom typing import Protocol\n"


def class_on_page(name: str) -> Any:
    """The class of that name, made from the page."""
    (block,) = (part for part in blocks_of(PAGE) if isinstance(part, Block) and f"class {name}" in part.text)
    made: dict[str, Any] = {"__name__": "page"}
    exec(FUTURE + block.text, made)
    return made[name]


def asked_for() -> dict[str, Any]:
    """What the protocol wants of a policy."""
    return {name: member for name, member in vars(Policy).items() if not name.startswith("_")}


def test_the_protocol_on_the_page_is_the_one_in_the_code() -> None:
    shown = {name: part for name, part in vars(class_on_page("Policy")).items() if not name.startswith("_")}
    wanted = asked_for()
    assert shown.keys() == wanted.keys() == {"name", "decide", "wakes"}
    for name in ("decide", "wakes"):
        assert str(inspect.signature(shown[name])) == str(inspect.signature(wanted[name]))


def test_the_policy_on_the_page_has_everything_that_the_protocol_asks_for() -> None:
    policy = class_on_page("ToTheLargest")
    for name, member in asked_for().items():
        if callable(member):
            assert str(inspect.signature(getattr(policy, name))) == str(inspect.signature(member))
        else:
            assert isinstance(getattr(policy, name), str)


def test_a_controller_runs_the_policy_on_the_page_without_a_complaint() -> None:
    async def scenario(world: World) -> None:
        controller = await world.controller(policy=class_on_page("ToTheLargest")())
        await world.hub("a")
        world.feed({"a": {b"t": 1.0}})
        await until(lambda: controller.status.state is ControllerState.LEADING)
        await asyncio.sleep(30.0)
        assert controller.status.failures == 0 and controller.status.state is ControllerState.LEADING
        assert not world.running["one"].done()

    play(scenario)
