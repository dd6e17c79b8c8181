import { createFetch, type FetchAnswer } from '@gatehouse/net'

const STATUSES = [200, 302, 303, 400, 401, 403, 500, 503]
const MAX_REDIRECTS = 10

/**
 * As much of a browser as it takes to sign in and out: cookies by host, redirects, forms. `before`
 * is called ahead of each request.
 */
export function createVisitor(ca: string, before: (url: URL) => unknown = () => {}) {
  const fetch = createFetch({ ca })
  const jars = new Map<string, Map<string, string>>()

  /** Those of the host and those of its domains, without a look at paths. */
  function cookiesOf({ hostname }: URL): Map<string, string> {
    const isSent = (of: string) => of === hostname || (of[0] === '.' && hostname.endsWith(of))
    return new Map([...jars].flatMap(([of, jar]) => (isSent(of) ? [...jar] : [])))
  }

  function keep(line: string, { hostname }: URL): void {
    const [, name = '', value = '', rest = ''] = /^([^=]+)=([^;]*)(.*)$/.exec(line) ?? []
    const [, domain] = /; *domain=([^;]+)/i.exec(rest) ?? []
    // One of a domain is for the pages of a portal alone.
    if (
      domain !== undefined &&
      !(/; *path=\/portals\//i.test(rest) && hostname.endsWith(`.${domain}`))
    )
      throw new Error(`${hostname} shares its cookie ${name}`)
    const of = domain === undefined ? hostname : `.${domain}`
    const jar = jars.get(of) ?? new Map<string, string>()
    jars.set(of, jar)
    if (value === '') jar.delete(name)
    else jar.set(name, value)
  }

  async function ask(url: URL, form?: Record<string, string>): Promise<FetchAnswer> {
    await before(url)
    const answer = await fetch(url, {
      status: STATUSES,
      headers: {
        accept: 'text/html',
        cookie: [...cookiesOf(url)].map(([name, value]) => `${name}=${value}`).join('; '),
        ...(form && { origin: url.origin, 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(form && { method: 'POST', body: new URLSearchParams(form).toString() }),
    })
    // undici gives a single one as text.
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) keep(line, url)
    return answer
  }

  /** Opens a page, or sends a form, and follows redirects. */
  async function open(address: URL | string, form?: Record<string, string>) {
    let url = new URL(address)
    let answer = await ask(url, form)
    for (let i = 0; answer.headers.location !== undefined; i++) {
      if (i === MAX_REDIRECTS) throw new Error(`redirected too often, to ${url}`)
      url = new URL(answer.headers.location, url)
      answer = await ask(url)
    }
    return { url, status: answer.status, body: answer.body.toString() }
  }

  return { open, fetch, cookie: (url: string, name: string) => cookiesOf(new URL(url)).get(name) }
}
