import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { type Gate, startGate } from '../helpers/gate.ts'
import { missingProgram, PROXIES, type ProxyName } from '../proxies/index.ts'
import { CASES, cookiesOf } from './proxy-cases.ts'

expectWarnings(t, 'check refused')

/** Longer than the minute after which proxies end a request by default. */
const LONG = 75_000
const WEBSOCKET = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const PROXY_NAMES = Object.keys(PROXIES) as ProxyName[]
const EVENTS = ['data: first\n\n', 'data: last\n\n'] as const

/** An app that says nothing between two events, tells what was uploaded, and takes WebSockets. */
async function startApp(t: Test): Promise<number> {
  // Its own limit of five minutes is not what is tried here.
  const app = createServer({ requestTimeout: 0 }, async (request, response) => {
    if (request.method === 'POST') return response.end(await text(request))
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(EVENTS[0])
    await wait(LONG)
    response.end(EVENTS[1])
  })
  app.on('upgrade', ({ headers: { 'sec-websocket-key': key } }, socket) => {
    const accept = createHash('sha1').update(`${key}${WEBSOCKET}`).digest('base64')
    socket.on('error', () => {})
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    )
    socket.pipe(socket)
  })
  app.listen(0, '127.0.0.1')
  await once(app, 'listening')
  t.teardown(() => {
    app.closeAllConnections()
    app.close()
  })
  return (app.address() as AddressInfo).port
}

type Kind = (gate: Gate, cookie: string) => Promise<unknown>

const toApp = ({ port, certificate }: Gate, cookie: string) => ({
  ...{ host: '127.0.0.1', port, servername: 'app.example.com', ca: certificate.rootPem },
  ...{ agent: false as const, headers: { host: 'app.example.com', cookie } },
})
const STEPS = Array.from({ length: 15 }, (_, i) => `${i},`)

/** What takes long, and what each ends with. */
const KINDS: Readonly<Record<string, readonly [run: Kind, expected: unknown]>> = {
  'a stream that says nothing for a while': [
    async (gate, cookie) => {
      const sent = request(toApp(gate, cookie)).end()
      const [answer] = await once(sent, 'response')
      return [answer.statusCode, await text(answer)]
    },
    [200, EVENTS.join('')],
  ],
  'an upload on a slow line': [
    async (gate, cookie) => {
      const sent = request({ ...toApp(gate, cookie), method: 'POST' })
      const answered = once(sent, 'response')
      answered.catch(() => {})
      for (const step of STEPS) {
        if (!sent.destroyed) sent.write(step)
        await wait(LONG / STEPS.length)
      }
      sent.end()
      const [answer] = await answered
      return [answer.statusCode, await text(answer)]
    },
    [200, STEPS.join('')],
  ],
  'a WebSocket that is idle': [
    async (gate, cookie) => {
      const headers = { ...CASES['signed in, WebSocket']?.headers, cookie }
      const { socket } = await gate.ask({ headers })
      if (!socket) return 'no socket'
      const ended = once(socket, 'end').then(() => 'ended')
      const ends = (await Promise.race([wait(LONG), ended])) as string | undefined
      if (ends) return ends
      socket.write('there and back')
      const [said] = await Promise.race([once(socket, 'data'), ended.then((why) => [why])])
      socket.destroy()
      return String(said)
    },
    'there and back',
  ],
}

t.jobs = PROXY_NAMES.length
for (const proxy of PROXY_NAMES) {
  const skip = missingProgram(proxy)
  // All at once, so that it takes that long once.
  t.test(proxy, { skip, buffered: true, timeout: 300_000 }, async (t) => {
    const gate = await startGate(t, proxy, { appPort: await startApp(t) })
    const cookie = await cookiesOf(gate.gatehouse, 'ada')
    const tried = Object.entries(KINDS).map(async ([kind, [run, expected]]) => {
      const ended = await run(gate, cookie).catch(String)
      t.same(ended, expected, kind)
    })
    await Promise.all(tried)
  })
}
