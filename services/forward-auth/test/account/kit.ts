import type { LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { DOMAINS, portalOf, type TestApp, yamlOf } from '../app.ts'
import { attribute, below, named, text } from '../pages/read.ts'
import { AUTH, signInUrl, start } from '../portal/kit.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

export const API_KEY = 'key-of-the-offboarding-0123456789'
const ADMINS = `'Group("admin")'`
const AT_SIGN_IN = 'hosts: [auth.example.com]'
const keyOf = (name: string, number: string, reach = AT_SIGN_IN, scope = 'sessions:end') =>
  `{ name: ${name}, key: ${API_KEY}${number}, ${reach}, scopes: ["${scope}"] }`
const KEYS = [
  keyOf('leave', ''),
  keyOf('other', '-2', AT_SIGN_IN, 'other'),
  keyOf('app', '-3', 'hosts: [app.example.com]'),
  keyOf('routes', '-4', 'policies: [admin]'),
  keyOf('both', '-5', `${AT_SIGN_IN}, policies: [admin]`),
  keyOf('password', '-6', `${AT_SIGN_IN}, basic: true`),
]
const CALLERS = `callers: { keys: [${KEYS.join(', ')}] }`

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0'
const FORM = { origin: AUTH, 'content-type': 'application/x-www-form-urlencoded' }

/** What a page says of a session. */
export interface Item {
  readonly text: string
  readonly isHere: boolean
  /** What its form sends as `session`. */
  readonly id: string | undefined
}

/** A portal with administrators and programs, and another one without. */
export async function startAccounts(
  t: Test,
  { admins = ADMINS, more = '', domains = DOMAINS } = {},
) {
  const options = `policies: { admin: ${admins} }, sessions: { admins: admin }, ${CALLERS}${more}`
  const yaml = yamlOf(portalOf('main', options) + portalOf('other')).replace(DOMAINS, domains)
  const test = await start(t, { yaml })
  const { app, corp, visitor, log } = test

  async function person(sub: string, { claims = {}, agent = FIREFOX, portal = 'main' } = {}) {
    const browser = visitor()
    corp.state.claims = claims
    const pageOf = (path: string, at = portal) => `${AUTH}/portals/${at}${path}`
    const begun = await browser.open(signInUrl().replace('/main/', `/${portal}/`))
    const callback = corp.authorize(begun.headers.location, sub)
    await browser.open(callback, { headers: { 'user-agent': agent } })

    /** Sends a form of a page. */
    async function send(path: string, fields: Record<string, string> = {}, headers: object = {}) {
      const all = { ...BROWSER, host: new URL(AUTH).host, ...FORM, ...headers }
      const sent = Object.entries(all).filter(([, value]) => value !== undefined)
      return app.inject({
        ...{ method: 'POST', url: new URL(pageOf(path)).pathname },
        headers: { ...Object.fromEntries(sent), cookie: browser.cookies() },
        payload: String(new URLSearchParams(fields)),
      })
    }
    const open = (path: string) => browser.open(pageOf(path))
    const sessions = async (path = '/account') => itemsIn(await open(path))
    /** Whether the session counts, without a look at the account. */
    const isIn = async () =>
      (await browser.open(pageOf('/profile.json'), { headers: { accept: '*/*' } })).statusCode ===
      200
    return { browser, open, send, sessions, isIn }
  }

  /** By whom sessions have ended so far, and whose they were. */
  const ended = () =>
    log
      .filter(({ event }) => event === 'session-ended')
      .map((line) => [line.person, line.endedBy, line.caller])
  return Object.assign(test, { person, ended })
}

function itemsIn({ body }: LightMyRequestResponse): Item[] {
  return named(body, 'li').map((item) => {
    const all = below(item)
    const input = all.find((each) => attribute(each, 'name') === 'session')
    return {
      text: text(item).replace(/\s+/g, ' '),
      isHere: all.some(({ tagName }) => tagName === 'mark'),
      id: input && attribute(input, 'value'),
    }
  })
}

/** Where the forms of a page lead. */
export const actionsIn = ({ body }: LightMyRequestResponse) =>
  named(body, 'form').map((form) => attribute(form, 'action')?.replace(`${AUTH}/portals/main`, ''))

/** Whether a check of an app lets a Cookie header pass. */
export async function passes({ check }: TestApp, cookie: string): Promise<boolean> {
  return (await check(SHAPES[0]!, { cookie })).statusCode === 200
}
