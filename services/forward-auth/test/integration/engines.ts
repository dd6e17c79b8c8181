import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { freePort, startProcess } from '../helpers/process.ts'
import { launchChromiumOf, launchKeepingChromium } from './chromium.ts'

const run = promisify(execFile)

/** A tab of any engine. What it shows is asked for, not awaited: each engine takes another moment for loaded. */
export interface Tab {
  /** Opens a URL as if somebody had typed it. */
  open(url: string): Promise<unknown>
  /** As by the button of the browser, which sends a form again. */
  reload(): Promise<unknown>
  /** The text that an expression has in the page. */
  read(expression: string): Promise<string>
  /** Removes the cookies of the host of the page. */
  forget(): Promise<unknown>
}

/** A browser of one person, with cookies and workers of its own. */
export interface Profile {
  tab(): Promise<Tab>
}

type OpenProfile = (t: Test) => Promise<Profile>

const PROGRAMS = {
  chromium: ['/usr/bin/chromium'],
  firefox: ['/usr/bin/firefox-esr'],
  webkit: [
    '/usr/bin/WebKitWebDriver',
    '/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser',
    '/usr/bin/Xvfb',
    '/usr/lib/x86_64-linux-gnu/libnss_wrapper.so',
  ],
} as const

export type EngineName = keyof typeof PROGRAMS

/** Why an engine cannot run here; false if it can. */
export function missingEngine(engine: EngineName): string | false {
  const missing = PROGRAMS[engine].find((program) => !existsSync(program))
  return missing === undefined ? false : `there is no ${missing}`
}

/** The roots that a browser trusts, each in PEM. Without them, it accepts every certificate. */
type Roots = readonly string[]

/** Starts each engine without a window. It finds these hosts on loopback; see {@link missingEngine}. */
export const ENGINES: Readonly<
  Record<EngineName, (t: Test, hosts: readonly string[], roots?: Roots) => Promise<OpenProfile>>
> = {
  chromium: startChromium,
  firefox: startFirefox,
  webkit: startWebKit,
}

async function startChromium(
  t: Test,
  hosts: readonly string[],
  roots?: Roots,
): Promise<OpenProfile> {
  const rules = `--host-resolver-rules=${hosts.map((host) => `MAP ${host} 127.0.0.1`).join(',')}`
  // Playwright accepts a certificate for pages, and not for workers.
  const browser = roots
    ? await launchChromiumOf(t, await homeWith(t, roots), rules)
    : await launchKeepingChromium(t, '--ignore-certificate-errors', rules)
  return async (t) => {
    const context = await browser.newContext()
    context.setDefaultTimeout(20_000)
    t.teardown(() => context.close())
    const tabOf = (page: Page): Tab => ({
      open: (url) => page.goto(url),
      reload: () => page.reload(),
      read: async (expression) => String(await page.evaluate(expression)),
      forget: () => context.clearCookies({ domain: new URL(page.url()).hostname }),
    })
    return { tab: async () => tabOf(await context.newPage()) }
  }
}

/** A home with the database of certificates that Chromium reads. */
async function homeWith(t: Test, roots: Roots): Promise<string> {
  const home = testFolder(t, { '.pki': { nssdb: {} } })
  await writeDatabase(join(home, '.pki/nssdb'), roots)
  return home
}

/** The database of NSS in a folder. */
async function writeDatabase(folder: string, roots: Roots): Promise<void> {
  const certutil = (...args: string[]) => run('certutil', ['-d', `sql:${folder}`, ...args])
  await certutil('-N', '--empty-password')
  for (const [index, root] of roots.entries()) {
    const file = join(folder, `root-${index}.pem`)
    writeFileSync(file, root)
    await certutil('-A', '-t', 'C,,', '-n', `root ${index}`, '-i', file)
  }
}

/** Milliseconds for an answer of Firefox. */
const PATIENCE = 60_000
const PREFERENCES = {
  'dom.confirm_repost.testing.always_accept': true,
  'browser.shell.checkDefaultBrowser': false,
  'network.dns.forceResolve': '127.0.0.1',
  'datareporting.policy.dataSubmissionEnabled': false,
}

/** By WebDriver BiDi, which Firefox itself speaks. */
async function startFirefox(t: Test, _: readonly string[], roots?: Roots): Promise<OpenProfile> {
  const folder = testFolder(t)
  if (roots) await writeDatabase(folder, roots)
  const lines = Object.entries(PREFERENCES).map(
    (each) => `user_pref(${JSON.stringify(each).slice(1, -1)});`,
  )
  writeFileSync(join(folder, 'user.js'), lines.join('\n'))
  const [command = ''] = PROGRAMS.firefox
  const args = ['--headless', '--no-remote', '--profile', folder, '--remote-debugging-port', '0']
  const child = spawn(command, args, {
    env: { ...process.env, HOME: folder },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  t.teardown(() => end(child))
  const url = await lineOf(child.stderr, /WebDriver BiDi listening on (ws:\S+)/)
  const socket = new WebSocket(`${url}/session`)
  await once(socket, 'open')
  const waiting = new Map<number, (message: Answer) => void>()
  socket.addEventListener('message', ({ data }) => {
    const message: Answer = JSON.parse(data)
    waiting.get(message.id)?.(message)
  })
  async function send(method: string, params: object): Promise<Record<string, unknown>> {
    const id = waiting.size
    const answered = new Promise<Answer>((resolve) => {
      waiting.set(id, resolve)
      socket.send(JSON.stringify({ id, method, params }))
    })
    // Of a tab that moves on meanwhile, it may never answer.
    const late = pause(
      PATIENCE,
      { id, result: {}, error: 'late', message: 'no answer' },
      { ref: false },
    )
    const answer: Answer = await Promise.race([answered, late])
    if (answer.error) throw new Error(`${method}: ${answer.message}`)
    return answer.result
  }
  const capabilities = { alwaysMatch: { acceptInsecureCerts: !roots } }
  await send('session.new', { capabilities })

  return async (t) => {
    const { userContext } = await send('browser.createUserContext', {})
    t.teardown(() => send('browser.removeUserContext', { userContext }))
    async function tab(): Promise<Tab> {
      const { context } = await send('browsingContext.create', { type: 'tab', userContext })
      const wait = 'complete'
      const read = async (expression: string) => {
        const asked = { expression: `String(${expression})`, awaitPromise: false }
        const { result } = await send('script.evaluate', { ...asked, target: { context } })
        return (result as { value: string }).value
      }
      return {
        open: (url) => send('browsingContext.navigate', { context, url, wait }),
        reload: () => send('browsingContext.reload', { context, wait }),
        read,
        async forget() {
          const domain = await read('location.hostname')
          const partition = { type: 'context', context }
          return send('storage.deleteCookies', { filter: { domain }, partition })
        },
      }
    }
    return { tab }
  }
}

interface Answer {
  readonly id: number
  readonly result: Record<string, unknown>
  readonly error?: string
  readonly message?: string
}

const SYSTEM_ROOTS = '/etc/ssl/certs/ca-certificates.crt'

/** By WebDriver, with a program and a browser for each person. */
async function startWebKit(t: Test, names: readonly string[], roots?: Roots): Promise<OpenProfile> {
  const folder = testFolder(t, { 'roots.pem': roots?.join('') ?? '' })
  const [command, binary, screen, wrapper] = PROGRAMS.webkit
  const hosts = join(folder, 'hosts')
  writeFileSync(hosts, names.map((name) => `127.0.0.1 ${name}\n`).join(''))
  const args = ['-displayfd', '3', '-nolisten', 'tcp', '-screen', '0', '800x600x24']
  const display = spawn(screen, args, { stdio: ['ignore', 'ignore', 'ignore', 'pipe'] })
  t.teardown(() => end(display))
  const env = {
    DISPLAY: `:${await lineOf(display.stdio[3] as Readable, /^(\d+)$/)}`,
    LD_PRELOAD: wrapper,
    NSS_WRAPPER_HOSTS: hosts,
  }

  return async (t) => {
    const port = await freePort()
    const args = [`--port=${port}`, '--host=127.0.0.1']
    // It trusts what the system trusts: here, these roots are mounted in its place.
    const mount = `mount --bind ${folder}/roots.pem ${SYSTEM_ROOTS} && exec "$@"`
    const program = roots
      ? { command: 'unshare', args: ['-m', 'sh', '-c', mount, 'sh', command, ...args] }
      : { command, args }
    await startProcess(t, { ...program, folder, port, env })
    async function send(method: string, path: string, body?: object): Promise<unknown> {
      const answer = await fetch(`http://127.0.0.1:${port}/session${path}`, {
        method,
        ...(body && { body: JSON.stringify(body) }),
      })
      const { value } = (await answer.json()) as { value: unknown }
      if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(value)}`)
      return value
    }
    const browser = { binary, args: ['--automation'] }
    const alwaysMatch = { acceptInsecureCerts: !roots, 'webkitgtk:browserOptions': browser }
    const begun = await send('POST', '', { capabilities: { alwaysMatch } })
    const at = `/${(begun as { sessionId: string }).sessionId}`
    t.teardown(() => send('DELETE', at))
    await send('POST', `${at}/timeouts`, { pageLoad: 20_000, script: 20_000 })
    // The wrapper is not safe while it reads the hosts: the browser asks for two kinds of address at once, and may
    // get none. So it finds a host before it is used, at a port where nothing listens.
    const nowhere = `https://${names[0]}:${await freePort()}/`
    const text = { script: 'return document.body.innerText', args: [] }
    for (let unknown = true; unknown; ) {
      await send('POST', `${at}/url`, { url: nowhere }).catch(() => {})
      unknown = /resolving/.test(String(await send('POST', `${at}/execute/sync`, text)))
    }

    let last: Promise<unknown> = Promise.resolve()
    async function tab(): Promise<Tab> {
      const { handle } = (await send('POST', `${at}/window/new`, { type: 'tab' })) as {
        handle: string
      }
      /** It drives one tab at a time. */
      function inTab(method: string, path: string, body?: object) {
        const run = async () => {
          await send('POST', `${at}/window`, { handle })
          return send(method, `${at}${path}`, body)
        }
        last = last.then(run, run)
        return last
      }
      return {
        open: (url) => inTab('POST', '/url', { url }),
        reload: () => inTab('POST', '/refresh', {}),
        read: async (expression) =>
          String(
            await inTab('POST', '/execute/sync', { script: `return ${expression}`, args: [] }),
          ),
        forget: () => inTab('DELETE', '/cookie'),
      }
    }
    return { tab }
  }
}

/** What a program says in a line. */
async function lineOf(stream: Readable, pattern: RegExp): Promise<string> {
  for await (const line of createInterface(stream)) {
    const [, told] = pattern.exec(line) ?? []
    if (told !== undefined) {
      stream.resume()
      return told
    }
  }
  throw new Error(`it did not say ${pattern}`)
}

async function end(child: ReturnType<typeof spawn>): Promise<void> {
  if (child.exitCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}
