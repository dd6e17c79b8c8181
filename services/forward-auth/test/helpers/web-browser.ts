import { Agent, buildConnector, fetch, type RequestInit, request } from 'undici'
import { attribute, below, named, text } from '../pages/read.ts'
import { BROWSER } from '../shapes.ts'

/** Where things are that tests name otherwise. */
export interface Network {
  /** Where the proxy listens that has all hosts below example.com, and the certificate that it is trusted by. */
  readonly port: number
  readonly ca: string
  /** The stand-ins of providers, by the origin that they stand in for. */
  readonly origins?: Readonly<Record<string, string>>
}

/** Connects to where things are: stand-ins speak plain HTTP, whatever they stand in for. */
function createDispatcher({ port, ca, origins = {} }: Network): Agent {
  const connectTls = buildConnector({ ca })
  return new Agent({
    connect: (options, callback) => {
      const { protocol, hostname } = options
      const standIn = URL.parse(origins[`${protocol}//${hostname}`] ?? '')
      const plain = standIn && { protocol: 'http:', hostname: standIn.hostname, port: standIn.port }
      const isOurs = hostname.endsWith('.example.com')
      const toProxy = { hostname: '127.0.0.1', port: String(port), servername: hostname }
      connectTls({ ...options, ...(plain ?? (isOurs ? toProxy : {})) }, callback)
    },
  })
}

export type NetworkFetch = (url: URL | string, init?: RequestInit) => Promise<Response>

/** The fetch of a program somewhere. */
export function createNetworkFetch(network: Network): NetworkFetch {
  const dispatcher = createDispatcher(network)
  return async (url, init) => {
    const { status, headers, body } = await fetch(url, { ...init, dispatcher })
    // SDKs take no answer of another class for one.
    return new Response(body as ReadableStream | null, { status, headers: [...headers] })
  }
}

/** What a button sends. */
export interface Form {
  readonly method: 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A page, and where it is. */
export interface Page {
  readonly url: URL
  readonly status: number
  readonly body: string
}

export interface Pressed {
  readonly words?: string
  /** What is typed before, by the names of the fields. */
  readonly fields?: Readonly<Record<string, string>>
}

/**
 * As much of a browser as people need who sign in and answer forms: cookies by host, and redirects, which it follows
 * until one leads to an origin that is none of the `network`.
 */
export function createWebBrowser(network: Network & { readonly elsewhere: string }) {
  const dispatcher = createDispatcher(network)
  const jars = new Map<string, Map<string, string>>()

  /** Opens a URL: a page, or the URL elsewhere that it leads to. */
  async function open(target: URL | string, sent?: Form): Promise<Page> {
    let next = new URL(target)
    let form = sent
    for (let steps = 0; steps < 20; steps++) {
      if (next.origin === network.elsewhere) return { url: next, status: 0, body: '' }
      const jar = jars.get(next.host) ?? new Map<string, string>()
      jars.set(next.host, jar)
      const cookie = [...jar].map((pair) => pair.join('=')).join('; ')
      const headers = { ...BROWSER, 'Accept-Encoding': 'identity', cookie, ...form?.headers }
      const answer = await request(next, { method: 'GET', ...form, headers, dispatcher })
      const body = await answer.body.text()
      for (const line of [answer.headers['set-cookie'] ?? []].flat()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        if (value === '') jar.delete(name)
        else jar.set(name, value)
      }
      const { location } = answer.headers
      if (location === undefined) return { url: next, status: answer.statusCode, body }
      next = new URL(String(location), next)
      form = undefined
    }
    throw new Error(`too many redirects, at last to ${next}`)
  }

  /** Presses the button of a page that has this text; with `words`, the one in an item of a list that has them. */
  function press(
    page: Page,
    button: string,
    { words = '', fields = {} }: Pressed = {},
  ): Promise<Page> {
    if (page.status !== 200)
      throw new Error(`${page.url}: ${page.status} ${page.body.slice(0, 500)}`)
    const items = words ? named(page.body, 'li').filter((one) => text(one).includes(words)) : []
    const forms = words
      ? items.flatMap(below).filter(({ tagName }) => tagName === 'form')
      : named(page.body, 'form')
    for (const form of forms) {
      const all = below(form)
      const pressed = all.find((one) => one.tagName === 'button' && text(one).trim() === button)
      if (!pressed) continue
      const named = [...all.filter(({ tagName }) => tagName === 'input'), pressed]
      const sent = named.flatMap((one): [string, string][] => {
        const name = attribute(one, 'name')
        return name ? [[name, fields[name] ?? attribute(one, 'value') ?? '']] : []
      })
      return open(new URL(attribute(form, 'action') ?? '', page.url), {
        method: 'POST',
        headers: {
          origin: page.url.origin,
          'sec-fetch-site': 'same-origin',
          'content-type': 'application/x-www-form-urlencoded',
        },
        body: String(new URLSearchParams(sent)),
      })
    }
    throw new Error(
      `${page.url} has no button ${JSON.stringify(button)}: ${page.body.slice(0, 500)}`,
    )
  }

  return { open, press }
}

export type WebBrowser = ReturnType<typeof createWebBrowser>
