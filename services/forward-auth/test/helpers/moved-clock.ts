import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import {
  deviceOf,
  startTailscale,
} from '../../../../packages/identity-providers/test/stand-ins/tailscale.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { SESSION_KEY, SHARED_DOMAIN } from '../app.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

/** Of Debian's package `faketime`; undefined where it is not installed. */
export const FAKETIME: string | undefined = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1')[0]
const AUTH = 'auth.example.com'

/** A person at an address of the tailnet. */
export interface Person {
  readonly ip: string
  readonly cookie: string
}

/** forward-auth in processes of its own, by a clock that the test sets: `+2d`, `-2h`, `+0`. */
export async function createMovedClock(t: Test) {
  const folder = testFolder(t)
  const config = join(folder, 'config.yaml')
  const time = join(folder, 'time')
  const tailscale = await startTailscale(t)
  writeFileSync(
    config,
    `server: { port: 0, trustedProxies: [127.0.0.0/8] }
metrics: { enabled: false }
log: { format: json }
storage: { path: "${folder}/data" }
${SESSION_KEY}
${SHARED_DOMAIN}
portals: [{ name: main, providers: [{ type: tailscaleWhois, name: corp, socket: "${tailscale.socket}" }] }]
`,
  )
  let people = 0

  /** Starts it, and waits until it is ready; undefined if it ended before. */
  async function start() {
    const args = [...programOf('forward-auth'), 'serve', '--config', config]
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        ...process.env,
        ...{ LD_PRELOAD: FAKETIME, FAKETIME_TIMESTAMP_FILE: time },
        ...{ FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1' },
      },
    })
    t.teardown(() => child.kill('SIGKILL'))
    return { child, url: await readyUrl(child) }
  }

  return {
    start,
    setClock: (offset: string) => writeFileSync(time, `${offset}\n`),
    /** Signs a new person in; undefined if that was not answered. */
    async signIn(url: string): Promise<Person | undefined> {
      people += 1
      const n = people
      const ip = `100.64.${n >> 8}.${n & 255}`
      tailscale.devices[ip] = deviceOf(n, `person${n}@example.com`)
      const headers = { ...BROWSER, host: AUTH, 'x-forwarded-for': ip }
      const answer = await ask(`${url}/portals/main/signin`, { headers })
      const cookies = (answer?.headers['set-cookie'] ?? []).map((line) => line.split(';')[0])
      const own = cookies.filter((pair) => pair?.includes('.main=ey'))
      const cookie = own.join('; ')
      return answer?.statusCode === 303 && own.length === 2 ? { ip, cookie } : undefined
    },
    /** The status of a check. */
    async check(url: string, { ip, cookie }: Person): Promise<number | undefined> {
      const headers = { ...SHAPES[0]?.headers, cookie, 'x-forwarded-for': ip }
      return (await ask(`${url}/portals/main`, { headers }))?.statusCode
    },
    /** The status of a logout. */
    async signOut(url: string, { ip, cookie }: Person): Promise<number | undefined> {
      const form = {
        origin: `https://${AUTH}`,
        'content-type': 'application/x-www-form-urlencoded',
      }
      const headers = { ...BROWSER, ...form, host: AUTH, cookie, 'x-forwarded-for': ip }
      return (await ask(`${url}/portals/main/logout`, { method: 'POST', headers }))?.statusCode
    },
  }
}

async function readyUrl(child: ChildProcess): Promise<string | undefined> {
  for await (const line of createInterface(child.stdout as NodeJS.ReadableStream)) {
    const { msg, url } = JSON.parse(line)
    if (msg !== 'ready') continue
    child.stdout?.resume()
    return url
  }
  return undefined
}

/** Undefined if nothing was answered, as by a process that was killed. */
async function ask(
  url: string,
  options: { method?: string; headers: OutgoingHttpHeaders },
): Promise<IncomingMessage | undefined> {
  try {
    const asked = request(url, { ...options, agent: false }).end()
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    answer.resume()
    await once(answer, 'end')
    return answer
  } catch {
    return undefined
  }
}

export async function end(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}
