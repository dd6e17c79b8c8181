"""Reads the bodies of calls of MCP as servers in Python do: a line of base64 in, a line of JSON out, with what each way
to read the body makes of it, or null if it refuses the body. With an SDK, also as its server does."""

import base64
import json
import sys

MEMBERS = ["name", "uri", "taskId", "arguments"]


def read_json(body):
    return reading_of(json.loads(body))


def reading_of(message):
    if message["jsonrpc"] != "2.0":
        raise ValueError("no JSON-RPC")
    params = message.get("params", {})
    return {"method": message.get("method"), **{name: params.get(name) for name in MEMBERS}}


def read_first_sdk(body):
    from mcp.types import CallToolRequest, JSONRPCMessage

    message = JSONRPCMessage.model_validate(json.loads(body)).root
    return reading_of_sdk(message, CallToolRequest)


def read_second_sdk(body):
    import pydantic_core
    from mcp_types import CallToolRequest, jsonrpc_message_adapter

    message = jsonrpc_message_adapter.validate_python(pydantic_core.from_json(body), by_name=False)
    return reading_of_sdk(message, CallToolRequest)


def reading_of_sdk(message, call_type):
    reading = reading_of(message.model_dump(by_alias=True, exclude_none=True))
    if reading["method"] == "tools/call":
        call = call_type.model_validate({"method": message.method, "params": message.params})
        sent = call.params.model_dump(by_alias=True)
        reading |= {name: sent.get(name) for name in MEMBERS}
    return reading


def ways():
    yield "json", read_json
    try:
        import mcp_types  # noqa: F401

        yield "SDK 2", read_second_sdk
    except ImportError:
        try:
            import mcp.types  # noqa: F401

            yield "SDK 1", read_first_sdk
        except ImportError:
            pass


def attempt(read, body):
    try:
        reading = read(body)
    # Whatever it is, the server does not run a tool.
    except Exception:
        return None
    try:
        json.dumps(reading, allow_nan=False)
        return reading
    except ValueError:
        return reading | {"arguments": repr(reading["arguments"])}


WAYS = list(ways())
for line in sys.stdin:
    body = base64.b64decode(line)
    print(json.dumps({name: attempt(read, body) for name, read in WAYS}))
