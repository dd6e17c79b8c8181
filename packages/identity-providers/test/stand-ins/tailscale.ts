import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** The local API of a Tailscale daemon on a socket of its own; `devices` are those that it knows. */
export async function startTailscale(t: Test) {
  // A socket's path may have 107 bytes at most, which t.testdir() alone can take up.
  const folder = mkdtempSync(join(tmpdir(), 'tailscale-'))
  const socket = join(folder, 'tailscaled.sock')
  const devices: Record<string, unknown> = {}
  const server = createServer(({ url = '/', headers }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://stand-in')
    const [, ip = ''] = /^\[?([0-9a-f.:]+)\]?:\d+$/.exec(searchParams.get('addr') ?? '') ?? []
    const answer = (status: number, body: string, type = 'text/plain') =>
      response.writeHead(status, { 'content-type': type }).end(body)
    if (headers.host !== 'local-tailscaled.sock') answer(403, 'invalid host')
    else if (pathname !== '/localapi/v0/whois') answer(404, '404 not found')
    else if (ip === '') answer(400, "invalid 'addr' parameter")
    else if (!devices[ip]) answer(404, 'no match for IP:port')
    else answer(200, JSON.stringify(devices[ip], undefined, '\t'), 'application/json')
  })
  async function stop() {
    if (!server.listening) return
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  async function start() {
    server.listen(socket)
    await once(server, 'listening')
  }
  await start()
  t.teardown(async () => {
    await stop()
    rmSync(folder, { recursive: true })
  })
  return { socket, devices, stop, start }
}

/** The device of a person, as whois tells it. */
export function deviceOf(id: number, login: string, node = `n${id}CNTRL`) {
  return {
    Node: {
      ID: id * 10,
      StableID: node,
      Name: `laptop-${id}.tail1234.ts.net.`,
      User: id,
      Hostinfo: {},
    },
    UserProfile: {
      ID: id,
      LoginName: login,
      DisplayName: 'Alice Arden',
      ProfilePicURL: 'https://example.com/alice.png',
    },
    CapMap: { 'acme.com/cap/wiki': [{ role: 'editor' }], 'acme.com/cap/other': [{}] },
  }
}
