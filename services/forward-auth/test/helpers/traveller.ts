import type { Answered, Ask } from './client.ts'

/** A request on the way of a browser, and what came of it. */
export interface Step {
  readonly url: URL
  readonly status: number
  /** Values of Set-Cookie, in their order. */
  readonly set: readonly string[]
  readonly location: string | undefined
}

const NAVIGATION = { accept: 'text/html,*/*;q=0.8', 'sec-fetch-mode': 'navigate' }
const MAX_STEPS = 20

/**
 * A browser as far as redirects and cookies go: each host gets those that it has set, and the sign-in pages the
 * bindings of sign-ins, and no others. Hosts of example.com are asked by `ask`, others directly.
 */
export function createTraveller(ask: (sent: Ask) => Promise<Answered>) {
  const jars = new Map<string, Map<string, string>>()
  const jarOf = ({ host }: URL) => {
    const jar = jars.get(host) ?? new Map<string, string>()
    jars.set(host, jar)
    return jar
  }

  const bindings = new Map<string, string>()

  async function answerOf(url: URL, sent: Ask): Promise<Answered> {
    const { host, origin, href } = url
    const bound = host.startsWith('auth.') && url.pathname.startsWith('/portals/') ? bindings : []
    const cookie = [...jarOf(url), ...bound].map((pair) => pair.join('=')).join('; ')
    const headers = { ...(sent.headers ?? NAVIGATION), ...(cookie && { cookie }) }
    if (host.endsWith('.example.com'))
      return ask({ ...sent, host, path: href.slice(origin.length), headers })
    const init = { redirect: 'manual', headers: headers as Record<string, string> } as const
    const answer = await fetch(url, init)
    const location = answer.headers.get('location')
    return {
      status: answer.status,
      headers: { 'set-cookie': answer.headers.getSetCookie(), ...(location && { location }) },
      body: await answer.text(),
    }
  }

  async function step(url: URL, sent: Ask) {
    const answer = await answerOf(url, sent)
    const { 'set-cookie': set = [], location } = answer.headers
    for (const line of set) {
      const [, name = '', value = '', rest = ''] = /^([^=]+)=([^;]*)(.*)$/.exec(line) ?? []
      const isBinding = name.startsWith('__Secure-gatehouse-binding.')
      if (isBinding && /; Domain=example\.com; Path=\/portals\/main;/.test(rest))
        bindings.set(name, value)
      else if (/; *domain=/i.test(rest)) throw new Error(`${url.host} shares ${name}`)
      else if (value === '') jarOf(url).delete(name)
      else jarOf(url).set(name, value)
    }
    return { answer, step: { url, status: answer.status, set, location } satisfies Step }
  }

  /** Opens a URL, and what it redirects to. A POST is followed by GET, as after 302 and 303. */
  async function open(address: string, sent: Ask = {}, maxSteps = MAX_STEPS) {
    const steps: Step[] = []
    let [url, asked] = [new URL(address), sent]
    for (;;) {
      const { answer, step: taken } = await step(url, asked)
      steps.push(taken)
      const isEnd = taken.location === undefined || steps.length === maxSteps
      if (isEnd && steps.length < MAX_STEPS) return { ...answer, url, steps }
      if (isEnd) throw new Error(`redirected too often, to ${url}`)
      ;[url, asked] = [new URL(taken.location ?? '', url), {}]
    }
  }

  /** The names of the cookies that a host has set. */
  const namesAt = (host: string) => [...(jars.get(host)?.keys() ?? [])]
  return { open, namesAt, jars }
}
