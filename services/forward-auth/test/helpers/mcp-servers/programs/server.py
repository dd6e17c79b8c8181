"""A server with notes, of an SDK for Python or of FastMCP: its arguments are a port, and "stateless" or "sessions"."""

import sys

port, stateless = int(sys.argv[1]), sys.argv[2] == "stateless"
try:
    from fastmcp import FastMCP

    notes = FastMCP("notes")
    options = {"transport": "http", "port": port, "stateless_http": stateless}
except ImportError:
    options = {"transport": "streamable-http"}
    try:
        from mcp.server.mcpserver import MCPServer

        notes = MCPServer("notes")
        options |= {"port": port, "stateless_http": stateless}
    except ImportError:
        from mcp.server.fastmcp import FastMCP

        notes = FastMCP("notes", port=port, stateless_http=stateless)


@notes.tool()
def read_note() -> str:
    print("ran read_note", flush=True)
    return "a note"


@notes.tool()
def delete_note() -> str:
    print("ran delete_note", flush=True)
    return "deleted"


notes.run(**options)
