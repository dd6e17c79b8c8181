"""A client of FastMCP that registers itself: its arguments and lines are those of agent.py."""

import asyncio
import json
import sys
import threading
import webbrowser

from fastmcp import Client
from fastmcp.client.auth import OAuth


def say(**words):
    print(json.dumps(words), flush=True)


async def read_line():
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


class Browser(webbrowser.BaseBrowser):
    """It takes a second to open, so that the client listens for the person to come back."""

    def open(self, url, new=0, autoraise=True):
        threading.Timer(1, say, kwargs={"visit": url}).start()
        return True


class Agent(OAuth):
    async def callback_handler(self):
        result = await super().callback_handler()
        # Where the person has come back to, which was its own server.
        await read_line()
        return result


async def main(url):
    webbrowser.register("person", None, Browser(), preferred=True)
    async with Client(url, auth=Agent(client_name="Assistant")) as client:
        say(connected=True)
        while name := await read_line():
            try:
                result = await client.call_tool(name, {})
                say(text=result.content[0].text)
            except Exception as error:
                say(error=repr(error))


asyncio.run(main(*sys.argv[1:]))
