"""Values that a JSON schema of the API describes, and values that it does not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["anything", "fits", "matching"]

Schema = dict[str, Any]

# JSON has no surrogates and no NaN; everything else may come.
_texts = st.text(max_size=40)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)


def matching(schema: Schema, known: dict[str, Schema], hints: dict[str, list[Any]]) -> st.SearchStrategy[Any]:
    """Values that fit. `hints`: by property, values that mean something, to be drawn as often as others."""
    if "$ref" in schema:
        return matching(known[schema["$ref"].rpartition("/")[2]], known, hints)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(matching(one, known, hints) for one in schema["anyOf"]))
    match schema.get("type"):
        case "object":
            parts = {
                name: st.sampled_from(hints[name]) | matching(inner, known, hints)
                if name in hints
                else matching(inner, known, hints)
                for name, inner in schema["properties"].items()
            }
            needed = {name: parts.pop(name) for name in schema.get("required", [])}
            return st.fixed_dictionaries(needed, optional=parts)
        case "array":
            return st.lists(matching(schema["items"], known, hints), max_size=4)
        case "string":
            return st.text(max_size=schema.get("maxLength", 60))
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return st.floats(
                schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False
            )
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    raise AssertionError(f"a schema that the tests do not know: {schema}")


def fits(value: Any, schema: Schema, known: dict[str, Schema]) -> bool:
    """Whether a value is what the schema describes."""
    if "$ref" in schema:
        return fits(value, known[schema["$ref"].rpartition("/")[2]], known)
    if "enum" in schema:
        return value in schema["enum"]
    if "anyOf" in schema:
        return any(fits(value, one, known) for one in schema["anyOf"])
    match schema.get("type"):
        case "object":
            if not isinstance(value, dict) or not set(schema.get("required", [])) <= value.keys():
                return False
            parts = schema.get("properties", {})
            is_open = schema.get("additionalProperties", True)
            return all(
                fits(inner, parts[name], known) if name in parts else is_open for name, inner in value.items()
            )
        case "array":
            return isinstance(value, list) and all(fits(one, schema["items"], known) for one in value)
        case "string":
            return isinstance(value, str) and len(value) <= schema.get("maxLength", len(value))
        case "integer":
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return is_number and schema.get("minimum", value) <= value <= schema.get("maximum", value)
        case "number":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return is_number and schema.get("minimum", value) <= value <= schema.get("maximum", value)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
    return True
