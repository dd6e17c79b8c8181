"""A client of the MCP SDK for Python, version 1 or 2: `agent.py URL [DOCUMENT]`.

It prints {"visit": URL} when a person has to go somewhere, and reads the URL to which they come back. Then it reads a
name of a tool from each line, and prints {"text": ...} or {"error": ...}.
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

try:
    import httpx2 as httpx
    from mcp.client.client import Client
    from mcp.shared.auth import AuthorizationCodeResult
except ImportError:
    import httpx
    from mcp import ClientSession

    Client = AuthorizationCodeResult = None


class Storage:
    """What it has, for as long as it runs."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def say(**words):
    print(json.dumps(words), flush=True)


async def read_line():
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


async def visit(url):
    say(visit=url)


async def come_back():
    query = parse_qs(urlsplit(await read_line()).query)
    answer = {name: query[name][0] for name in ("code", "state", "iss") if name in query}
    if AuthorizationCodeResult:
        return AuthorizationCodeResult(**answer)
    return answer["code"], answer.get("state")


async def use_tools(client):
    say(connected=True)
    while name := await read_line():
        try:
            result = await client.call_tool(name, {})
            say(text=result.content[0].text)
        except Exception as error:
            say(error=repr(error))


async def main(url, document=None):
    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(client_name="Assistant", redirect_uris=["https://assistant.example/callback"]),
        Storage(),
        redirect_handler=visit,
        callback_handler=come_back,
        client_metadata_url=document,
    )
    async with httpx.AsyncClient(auth=provider, timeout=120) as http:
        transport = streamable_http_client(url, http_client=http)
        if Client:
            async with Client(transport) as client:
                await use_tools(client)
        else:
            async with transport as (reads, writes, *_), ClientSession(reads, writes) as session:
                await session.initialize()
                await use_tools(session)


asyncio.run(main(*sys.argv[1:]))
