"""The table of routes under /api/, and the API description made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from equipoise.version import __version__
from equipoise.web.actions import Drain, Move, SpecChange, Weigh
from equipoise.web.facts import PAGE_MAX, SORTS

__all__ = ["ROUTES", "ApiRoute", "Parameter", "describe"]


Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    where: str
    schema: dict[str, Any]
    meaning: str


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """One address. `handler` is the name of a method in `app`."""

    method: str
    path: str
    handler: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    media: str = "application/json"
    answer: Schema = field(default_factory=dict)


def _object(**parts: Schema) -> Schema:
    """At least these parts; later versions may add some."""
    return {"type": "object", "properties": parts, "required": list(parts)}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _maybe(kind: str) -> Schema:
    return {"anyOf": [{"type": kind}, {"type": "null"}]}


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_TOPIC_ROW = _object(
    id=_TEXT,
    topic=_TEXT,
    homes=_list(_TEXT),
    mode=_TEXT,
    latency_s_p50=_maybe("number"),
    latency_s_p90=_maybe("number"),
    latency_s_p99=_maybe("number"),
    latency_s_max=_maybe("number"),
    latency_s_worst=_maybe("number"),
    latency_s_expected=_maybe("number"),
    latency_limit_ms=_maybe("number"),
    latency_quantile=_maybe("number"),
    latency_s_judged=_maybe("number"),
    is_held=_maybe("boolean"),
    site=_maybe("string"),
)
_SPOT = {"x_ms": {"type": "number"}, "y_ms": {"type": "number"}}
_CHANGES = _list(
    _object(
        version=_COUNT,
        at_s={"type": "number"},
        writer=_TEXT,
        moves=_COUNT,
        entries=_list(_object(id=_TEXT, topic=_TEXT, homes=_list(_TEXT), reason=_TEXT)),
        members=_list(_object(hub=_TEXT, reason=_TEXT)),
    )
)
_VERSION = _object(version=_COUNT)
_SPEC = _object(
    pattern=_TEXT,
    latency_ms=_maybe("number"),
    rate_per_s=_maybe("number"),
    burst_messages=_maybe("integer"),
    wait_ms=_maybe("number"),
    durability=_maybe("object"),
    site=_maybe("string"),
)
_ERROR = _object(error=_TEXT)
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 10_000_000}
_SECONDS = {"type": "number", "minimum": 0, "maximum": 10_000_000_000}
_TOPIC = Parameter(
    "topic",
    "path",
    {"type": "string"},
    "The topic's id: its name, every byte but letters, digits and _ - . as ~XX.",
)
_LIMIT = Parameter(
    "limit", "query", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX}, "How many at most."
)

ROUTES = (
    ApiRoute(
        "GET",
        "/api/overview",
        "overview",
        "Overview of the cluster.",
        answer=_object(
            state=_TEXT,
            leader=_maybe("string"),
            is_leading={"type": "boolean"},
            plan_version=_COUNT,
            view_age_s=_maybe("number"),
            hubs=_COUNT,
            topics=_COUNT,
            publications_per_s=_maybe("number"),
            deliveries_per_s=_maybe("number"),
            latency_ms=_object(p50=_maybe("number"), p99=_maybe("number")),
        ),
    ),
    ApiRoute(
        "GET",
        "/api/curves",
        "curves",
        "Rates, latencies and loads over time, as columns.",
        (Parameter("since_s", "query", _SECONDS, "Only samples after this time."),),
        answer=_object(at_s=_list({"type": "number"}), loads={"type": "object"}),
    ),
    ApiRoute(
        "GET",
        "/api/hubs",
        "hubs",
        "All hubs, alive or not.",
        answer=_list(_object(hub=_TEXT, is_alive={"type": "boolean"}, entries=_COUNT, load=_maybe("number"))),
    ),
    ApiRoute(
        "GET",
        "/api/topics",
        "topics",
        "A page of the topics with load.",
        (
            Parameter("search", "query", {"type": "string", "maxLength": 256}, "Part of the name."),
            Parameter(
                "sort", "query", {"type": "string", "enum": list(SORTS)}, "Largest first; names ascending."
            ),
            Parameter("offset", "query", _NUMBER, "Number to skip."),
            _LIMIT,
        ),
        answer=_object(total=_COUNT, topics=_list(_TOPIC_ROW)),
    ),
    ApiRoute(
        "GET",
        "/api/topics/{topic}",
        "topic",
        "One topic, with its curves.",
        (_TOPIC,),
        answer=_TOPIC_ROW,
    ),
    ApiRoute(
        "GET",
        "/api/topics/{topic}/plans",
        "topic_plans",
        "Its homes over time, and the reasons of its moves.",
        (_TOPIC, _LIMIT),
        answer=_CHANGES,
    ),
    ApiRoute(
        "GET",
        "/api/plans",
        "plans",
        "The latest changes of the plan, with reasons and numbers.",
        (_LIMIT,),
        answer=_CHANGES,
    ),
    ApiRoute(
        "GET",
        "/api/map",
        "map",
        "Hubs and topics by their network coordinates, on a plane, in milliseconds of round trip; topics above their "
        "limits first, then those that have one, then the busiest.",
        (_LIMIT,),
        answer=_object(
            is_located={"type": "boolean"},
            hubs=_list(_object(hub=_TEXT, site=_TEXT, load=_maybe("number"), **_SPOT)),
            topics=_list(
                _object(id=_TEXT, topic=_TEXT, homes=_list(_TEXT), is_held=_maybe("boolean"), **_SPOT)
            ),
        ),
    ),
    ApiRoute(
        "GET",
        "/api/durable",
        "durable",
        "Bookies, and the logs of topics with their owners, as of a few seconds ago.",
        answer=_object(
            bookies=_list(
                _object(
                    bookie=_TEXT,
                    state=_TEXT,
                    ledgers=_COUNT,
                    free_bytes=_maybe("integer"),
                    total_bytes=_maybe("integer"),
                    sync_s_p99=_maybe("number"),
                )
            ),
            logs=_list(
                _object(
                    id=_TEXT, topic=_TEXT, owner=_maybe("string"), ledgers=_COUNT, log_lag=_maybe("number")
                )
            ),
            ledgers=_COUNT,
            ledgers_under_replicated=_COUNT,
            is_partial={"type": "boolean"},
        ),
    ),
    ApiRoute(
        "GET", "/api/events", "events", "Overview and curves as they change.", media="text/event-stream"
    ),
    ApiRoute("POST", "/api/move", "move", "Place a topic.", body=Move, answer=_VERSION),
    ApiRoute(
        "POST",
        "/api/drain",
        "drain",
        "Drain a hub.",
        body=Drain,
        answer=_VERSION,
    ),
    ApiRoute(
        "POST",
        "/api/weigh",
        "weigh",
        "Change the weight of a hub; a positive weight ends a drain.",
        body=Weigh,
        answer=_object(version=_COUNT, weight={"type": "number"}),
    ),
    ApiRoute(
        "GET",
        "/api/limits",
        "specs",
        "All specs, the most specific pattern first.",
        answer=_list(_SPEC),
    ),
    ApiRoute(
        "POST",
        "/api/limits",
        "limits",
        "Change the spec of a pattern: only the given fields; an empty string removes a limit.",
        body=SpecChange,
        answer=_object(pattern=_TEXT, spec={"anyOf": [_SPEC, {"type": "null"}]}, behind=_list(_TEXT)),
    ),
)


def describe() -> dict[str, Any]:
    """The OpenAPI description of everything above."""
    bodies = [route.body for route in ROUTES if route.body is not None]
    _, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Equipoise", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.handler,
        "summary": route.summary,
        "parameters": [
            {
                "name": one.name,
                "in": one.where,
                "required": one.where == "path",
                "schema": one.schema,
                "description": one.meaning,
            }
            for one in route.parameters
        ],
        "responses": {
            "200": {"description": "As asked.", "content": {route.media: {"schema": route.answer}}},
            "400": _refusal("The request cannot be carried out; `error` has the reason."),
            "401": _refusal("The token is missing or wrong."),
            "503": _refusal("The store does not reply."),
        },
    }
    if route.body is not None:
        reference = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return described


def _refusal(why: str) -> dict[str, Any]:
    return {"description": why, "content": {"application/json": {"schema": _ERROR}}}
