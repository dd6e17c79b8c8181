import { HEADER_NAMES } from '@gatehouse/gate'
import {
  type Dialect,
  PROXIES,
  PROXY_NAMES,
  type ReverseProxy,
} from '@gatehouse/service-kit/proxies'

/** The headers that only a proxy may set. */
export const PROXY_HEADERS: readonly string[] = [...HEADER_NAMES.read, ...HEADER_NAMES.believed]

/** What a proxy makes of such a header. */
export const fateOf = ({ sets, leaves = [] }: ReverseProxy, name: string): string =>
  sets.includes(name) ? 'set' : leaves.includes(name) ? 'refused' : 'removed'

const tableOf = (...rows: readonly (readonly string[])[]): string =>
  rows.map((cells) => `| ${cells.join(' | ')} |\n`).join('')
const ruleOf = (header: readonly string[]) => header.map(() => '---')
const codes = (texts: readonly string[]) => texts.map((text) => `\`${text}\``).join(', ')

const pathOf = ({ name, source }: Dialect) =>
  name === 'forward' ? '/' : `/authz/${name}${source === 'request-line' ? '/policy/…' : ''}`

/** Each proxy with its guide, its files, and what has to be written where. */
export function renderProxies(): string {
  const header = [
    ...['Proxy', 'Name', 'Example', 'Asks below the portal'],
    ...['Copies headers to the app by', 'Passes client certificates on in'],
  ]
  const rows = PROXY_NAMES.map((name) => {
    const { title, example, dialects, copies, clientCertificate } = PROXIES[name]
    return [
      `[${title}](${name}.md)`,
      `\`${name}\``,
      `[${example}](../examples/proxies/${example})`,
      codes(dialects.map(pathOf)),
      codes(copies),
      `[\`${clientCertificate.header}\`](../examples/certificates/mtls/${example})`,
    ]
  })
  return tableOf(header, ruleOf(header), ...rows)
}

/** Each header that only a proxy may set, and what each proxy makes of it. */
export function renderProxyHeaders(): string {
  const proxies = Object.values(PROXIES)
  const header = ['Only by a proxy, in a check', ...proxies.map(({ title }) => title)]
  const rows = PROXY_HEADERS.map((name) => [
    `\`${spelled(name)}\``,
    ...proxies.map((proxy) => fateOf(proxy, name)),
  ])
  return tableOf(header, ruleOf(header), ...rows)
}

/** A name in lower case as it is usually written. */
const spelled = (name: string) =>
  name.replace(/\b(url|ip)\b|\b\w/g, (letters) => letters.toUpperCase())
