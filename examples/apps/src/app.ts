import type { IncomingHttpHeaders, RequestListener } from 'node:http'
import { type App, type Header, type Person, page, STYLE_HASH } from './page.ts'

/** The apps by the first label of their host. */
export const APPS = {
  app: {
    title: 'App',
    accent: 'indigo',
    text: 'Everybody who is signed in can open this page. The app has no login of its own: it reads who you are from the headers below.',
  },
  admin: {
    title: 'Admin',
    accent: 'teal',
    text: 'Only members of the group admin can open this page. The app does not know that rule: other requests never reach it.',
  },
} as const satisfies Record<string, App>

export type AppName = keyof typeof APPS

const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

/** Identity headers. */
const IDENTITY =
  /^(x-forwarded-(user|displayname)|x-authenticated-user|x-gatehouse-assertion|remote-(user|name|email|groups))$/
/** Headers with credentials, whose values are not shown. */
const SECRET = /^(authorization|cookie|x-gatehouse-assertion)$/

/**
 * Serves one page that shows who is signed in, and the headers that the proxy sent.
 *
 * @param authority - host and port that every name ends in, such as `gatehouse.localhost:8443`
 */
export function createApp(name: AppName, authority: string): RequestListener {
  const originOf = (label: string) => new URL(`https://${label}.${authority}`).origin
  const portal = `${originOf('auth')}/portals/main`
  const other = name === 'app' ? 'admin' : 'app'
  const signOut = new URLSearchParams({ rd: `${originOf(name)}/` })
  const links = [
    { text: `Open ${APPS[other].title}`, href: `${originOf(other)}/` },
    { text: 'Show my profile', href: `${portal}/profile` },
    { text: 'Sign out', href: `${portal}/logout?${signOut}` },
  ]
  return ({ headers }, response) => {
    response.writeHead(200, PAGE_HEADERS)
    response.end(page({ app: APPS[name], person: personOf(headers), links, ...sorted(headers) }))
  }
}

function personOf(headers: IncomingHttpHeaders): Person {
  const read = (name: string) => decode(String(headers[name] ?? ''))
  return {
    name: read('x-forwarded-displayname') || read('x-forwarded-user') || 'Nobody',
    about: [read('remote-email'), read('remote-groups').replaceAll(',', ', ')].filter(Boolean),
  }
}

/** Gatehouse percent-encodes characters other than ASCII as UTF-8. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function sorted(headers: IncomingHttpHeaders) {
  const rows = Object.entries(headers)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]): Header => [name, SECRET.test(name) ? undefined : String(value)])
  const isIdentity = ([name]: Header) => IDENTITY.test(name)
  return {
    identity: rows.filter(isIdentity),
    others: rows.filter((row) => !isIdentity(row)),
  }
}
