import { Agent, request } from 'node:http'

/** Where a server that browsers know by a host listens, and what its proxy asks for a URL. */
export interface Place {
  readonly port: number
  readonly path?: (url: URL) => string
  readonly headers?: (url: URL) => Readonly<Record<string, string>>
}
type Places = Readonly<Record<string, Place>>

interface Answer {
  readonly status: number
  readonly location: string | undefined
  readonly cookies: readonly string[]
}

const AT_ONCE = 16
const MAX_STEPS = 20
const agent = new Agent({ keepAlive: true, maxSockets: 2 * AT_ONCE })

/** Has as many people sign in, each in a browser of their own. Gives the cookies that each has at the host of `start`. */
export async function signIn(places: Places, start: string, people: number): Promise<string[]> {
  const cookies: string[] = []
  let begun = 0
  async function some(): Promise<void> {
    while (begun < people) {
      begun += 1
      cookies.push(await signInOnce(places, new URL(start)))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, some))
  agent.destroy()
  return cookies
}

async function signInOnce(places: Places, start: URL): Promise<string> {
  const jars = new Map<string, Map<string, string>>()
  /** Cookies that all hosts get, by the path below which they do. */
  const shared = new Map<string, Map<string, string>>()
  let url = start
  for (let step = 0; step < MAX_STEPS; step++) {
    const place = places[url.hostname]
    if (!place) throw new Error(`nobody listens at ${url.host}`)
    const jar = jars.get(url.host) ?? new Map<string, string>()
    jars.set(url.host, jar)
    const below = [...shared].filter(([path]) => url.pathname.startsWith(path))
    const sent = cookieOf(
      new Map([jar, ...below.map(([, each]) => each)].flatMap((each) => [...each])),
    )
    const { status, location, cookies } = await ask(place, url, sent)
    for (const cookie of cookies) keep(jarOf(shared, cookie) ?? jar, cookie)
    if (status < 300) return cookieOf(jar)
    if (location === undefined) throw new Error(`${url.href} answered with ${status}`)
    url = new URL(location, url)
  }
  throw new Error(`redirected too often, at last to ${url.href}`)
}

const cookieOf = (jar: ReadonlyMap<string, string>): string =>
  Array.from(jar, ([name, value]) => `${name}=${value}`).join('; ')

/** The jar of a cookie of a path and a domain. */
function jarOf(shared: Map<string, Map<string, string>>, cookie: string) {
  const [, path = '/'] = /; *path=([^;]+)/i.exec(cookie) ?? []
  if (path === '/' || !/; *domain=/i.test(cookie)) return undefined
  const jar = shared.get(path) ?? new Map<string, string>()
  shared.set(path, jar)
  return jar
}

function keep(jar: Map<string, string>, cookie: string): void {
  const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? []
  if (value === '' || /max-age=0\b/i.test(cookie)) jar.delete(name)
  else jar.set(name, value)
}

function ask({ port, path, headers }: Place, url: URL, cookie: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({
      ...{ host: '127.0.0.1', port, agent, path: path?.(url) ?? `${url.pathname}${url.search}` },
      headers: {
        host: url.host,
        accept: 'text/html',
        'user-agent': 'Mozilla/5.0',
        ...(cookie !== '' && { cookie }),
        ...headers?.(url),
      },
    })
    sent.on('error', reject)
    sent.on('response', (response) => {
      response.resume()
      response.on('end', () => {
        const { statusCode: status = 0, headers } = response
        resolve({ status, location: headers.location, cookies: headers['set-cookie'] ?? [] })
      })
    })
    sent.end()
  })
}
