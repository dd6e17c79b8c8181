import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { decideCheck, readCheck } from '../../src/check/check.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { SHAPES } from '../shapes.ts'

const ROUNDS = 5
const REQUESTS = 30_000
/** A leak of 200 bytes per request would be six times this. */
const MAX_GROWTH = 1_048_576

t.test('memory stays bounded whatever is requested', async (t) => {
  const { app, check, signIn } = await startApp(t, yamlOf(portalOf('main')))
  let captured: FastifyRequest | undefined
  Object.assign(app.sessions, {
    async atApp(request: FastifyRequest) {
      captured = request
    },
  })
  await check(SHAPES[0]!)
  Reflect.deleteProperty(app.sessions, 'atApp')
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  t.teardown(() => {
    Error.stackTraceLimit = stackTraceLimit
  })
  const cookie = await signIn('main')
  const seen = new Set<string>()

  /** One check with something in it that never came before. */
  async function ask(i: number): Promise<void> {
    const junk = `${i}-${'x'.repeat(200)}`
    const shape = SHAPES[i % SHAPES.length]!
    const changes = [
      { 'x-forwarded-host': `${i}.example.com`, 'x-original-url': `https://${i}.example.com/` },
      { 'x-forwarded-host': `${junk}.test`, 'x-original-url': `https://${junk}.test/` },
      { 'x-forwarded-uri': `/${junk}` },
      { 'x-forward-auth-if': `Group("${junk}")` },
      { cookie: `__Host-gatehouse-app.main=${junk}` },
      { cookie: `${cookie}${i}` },
      { [`x_forwarded.user${i}`]: junk },
      { 'x-forwarded-for': junk },
    ]
    const headers = { ...lowerCase(shape.headers), cookie, ...changes[i % changes.length] }
    const url = i % 3 === 0 ? `/portals/main?policy=${junk}` : `/portals/main${shape.path}`
    const peer = { remoteAddress: i % 5 === 0 ? `2001:db8::${(i % 65_536).toString(16)}` : '::1' }
    const rawHeaders = Object.entries(headers).flat()
    const raw = { method: shape.method, url, headers, rawHeaders, socket: peer }
    const policy = url.includes('/envoy/') ? 'any' : undefined
    const params = { portal: i % 7 === 0 ? junk : 'main', ...(policy && { policy }) }
    const request: FastifyRequest = Object.create(captured!, {
      headers: { value: headers },
      params: { value: params },
      raw: { value: raw },
    })
    try {
      seen.add((await decideCheck(readCheck(shape.dialect, request), request)).decision.outcome)
    } catch (error) {
      const { code } = error as { code: string }
      seen.add(code)
      app.limitLog(`${code} ${peer.remoteAddress}`, () => {})
    }
  }

  const heap: number[] = []
  for (let i = 0; i < ROUNDS * REQUESTS; i++) {
    await ask(i)
    if (i % REQUESTS === REQUESTS - 1) heap.push(usedHeap())
  }
  const growths = heap.slice(1).map((bytes, i) => bytes - heap[i]!)
  // A leak shows in every round; what V8 keeps of compiled code, in some of them.
  t.ok(Math.min(...growths) < MAX_GROWTH, `grew by ${growths.join(', ')} bytes`)
  t.ok(seen.size >= 8, `and was asked in many ways: ${[...seen]}`)
})

function lowerCase(headers: object): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, text]) => [name.toLowerCase(), text]),
  )
}

function usedHeap(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}
