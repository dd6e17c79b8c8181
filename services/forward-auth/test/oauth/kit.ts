import { hash } from 'node:crypto'
import { type FetchAnswer, type FetchInit, NetError } from '@gatehouse/net'
import type { LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { buildApp as build } from '../../src/app.ts'
import { portalOf, yamlOf } from '../app.ts'
import { attribute, named } from '../pages/read.ts'
import { AUTH, MAIN, signIn, signInUrl, start } from '../portal/kit.ts'
import { BROWSER, type RequestHeaders, SHAPES } from '../shapes.ts'
import type { Visitor } from '../visitor.ts'

export const NOTES = 'https://app.example.com/mcp'
export const OTHER = 'https://app.example.com/other'
export const CLIENT = 'https://assistant.test/oauth/client.json'
export const REDIRECT = 'https://assistant.test/callback'
export const VERIFIER = 'v'.repeat(43)
export const CHALLENGE = hash('sha256', VERIFIER, 'base64url')

const RESOURCES = `resources: [
  { url: "${NOTES}", scopes: [
    { name: "notes:read", text: Read your notes },
    { name: "notes:write", text: { en: Change your notes, de: Ihre Notizen ändern }, onDemand: true }] },
  { url: "${OTHER}", scopes: [{ name: "other", text: Use the other one }] }]`
const POLICIES = `policies: { reads: 'Scope("notes:read")', writes: 'Scope("notes:write")', staff: 'Group("staff")', admins: 'Group("admin")', lately: { maxAge: 15m } }`
const RULES = `rules: [
  { paths: [/mcp/staff], require: staff },
  { paths: [/mcp/lately], require: lately },
  { paths: [/mcp/*], tools: [read_note], require: reads },
  { paths: [/mcp/*], tools: [delete_note], require: [reads, writes] },
  { paths: [/mcp/*], tools: ["*"], require: reads }]`

export const portalWith = (options = '') => {
  const all = [RESOURCES, POLICIES, RULES, 'sessions: { admins: admins }', options]
  return portalOf('main', all.filter(Boolean).join(', ').replace(/\s+/g, ' '))
}

/** What the client calls itself, and where it takes answers. */
export const DOCUMENT = { client_id: CLIENT, client_name: 'Assistant', redirect_uris: [REDIRECT] }

export interface Call {
  readonly path?: string
  readonly tool?: string
  readonly headers?: RequestHeaders
}

export interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
  readonly scope: string
  readonly expires_in: number
}

/** A portal that issues tokens, clients that have documents, and people. */
export async function startIssuer(
  t: Test,
  {
    options = '',
    yaml = yamlOf(portalWith(options) + portalOf('elsewhere')),
    buildApp = build,
  }: { options?: string; yaml?: string; buildApp?: typeof build } = {},
) {
  const documents = new Map<string, object>([[CLIENT, DOCUMENT]])
  const fetched: string[] = []
  const fetch = async (url: URL | string, _init?: FetchInit): Promise<FetchAnswer> => {
    fetched.push(String(url))
    const document = documents.get(String(url))
    if (!document) throw new NetError('NET_FETCH_STATUS', 'was answered 404')
    return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(document)) }
  }
  const createFetch = () => Object.assign(fetch, { close: async () => {} })
  const test = await start(t, { yaml, createFetch, buildApp })
  const { app, corp, visitor } = test

  /** Somebody who has signed in. */
  async function person(sub = 'ada', claims: object = {}): Promise<Visitor> {
    const browser = visitor()
    corp.state.claims = claims
    await signIn(browser, corp, sub, signInUrl({}))
    return browser
  }

  const authorizeUrl = (changes: Record<string, string | undefined> = {}) =>
    `${MAIN}/authorize?${new URLSearchParams(given({ ...REQUEST, ...changes }))}`

  /** Answers the question of a page. */
  async function decide(
    browser: Visitor,
    page: LightMyRequestResponse,
    decision = 'allow',
    headers: RequestHeaders = {},
  ) {
    const field = named(page.body, 'input').find((each) => attribute(each, 'name') === 'form')
    const form = (field && attribute(field, 'value')) ?? ''
    return app.inject({
      ...{ method: 'POST', url: '/portals/main/authorize' },
      headers: {
        ...BROWSER,
        ...FORM,
        host: 'auth.example.com',
        origin: AUTH,
        cookie: browser.cookies(),
        ...headers,
      },
      payload: String(new URLSearchParams({ form, decision })),
    })
  }

  /** The answer that a client gets when a person allows what it asks for. */
  async function allow(browser: Visitor, changes: Record<string, string | undefined> = {}) {
    const page = await browser.open(authorizeUrl(changes))
    const answer = page.statusCode === 200 ? await decide(browser, page) : page
    return answerIn(answer)
  }

  const post = (
    path: string,
    fields: Record<string, string | undefined>,
    headers: RequestHeaders = {},
  ) =>
    app.inject({
      ...{ method: 'POST', url: `/portals/main${path}` },
      headers: { ...FORM, host: 'auth.example.com', ...headers },
      payload: String(new URLSearchParams(given(fields))),
    })
  const redeem = (code: string | undefined, changes: Record<string, string | undefined> = {}) =>
    post('/token', {
      grant_type: 'authorization_code',
      client_id: CLIENT,
      redirect_uri: REDIRECT,
      code_verifier: VERIFIER,
      resource: NOTES,
      code,
      ...changes,
    })
  const refresh = (token: string, changes: Record<string, string | undefined> = {}) =>
    post('/token', {
      grant_type: 'refresh_token',
      client_id: CLIENT,
      refresh_token: token,
      ...changes,
    })

  /** The tokens of a client that a person has just allowed. */
  async function connect(
    browser: Visitor,
    changes: Record<string, string | undefined> = {},
  ): Promise<Tokens> {
    const { code } = await allow(browser, changes)
    const { resource } = { ...REQUEST, ...changes }
    return (await redeem(code, { resource })).json()
  }

  /** The check of a call of a tool with a token. */
  const call = (token: string, { path = '/mcp', tool = 'read_note', headers = {} }: Call = {}) =>
    test.check(SHAPES[0]!, {
      authorization: `Bearer ${token}`,
      'X-Forwarded-Uri': path,
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': tool,
      ...headers,
    })
  return Object.assign(test, {
    documents,
    fetched,
    person,
    authorizeUrl,
    decide,
    allow,
    post,
    redeem,
    refresh,
    connect,
    call,
  })
}

type Issuer = Awaited<ReturnType<typeof startIssuer>>

/** Sends a form of a page. */
export const sendForm = (
  { app }: Issuer,
  browser: Visitor,
  path: string,
  fields: Record<string, string> = {},
) =>
  app.inject({
    ...{ method: 'POST', url: `/portals/main${path}` },
    headers: {
      ...BROWSER,
      host: 'auth.example.com',
      origin: AUTH,
      'content-type': 'application/x-www-form-urlencoded',
      cookie: browser.cookies(),
    },
    payload: String(new URLSearchParams(fields)),
  })

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

export const REQUEST: Readonly<Record<string, string | undefined>> = {
  client_id: CLIENT,
  redirect_uri: REDIRECT,
  response_type: 'code',
  scope: 'notes:read',
  state: 'state-of-the-client',
  code_challenge: CHALLENGE,
  code_challenge_method: 'S256',
  resource: NOTES,
}

const given = (fields: Readonly<Record<string, string | undefined>>) =>
  Object.entries(fields).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, value]],
  )

/** What a redirect tells a client. */
export function answerIn({
  headers: { location = '' },
}: LightMyRequestResponse): Record<string, string | undefined> & { readonly to: string } {
  const url = URL.parse(location)
  return { ...Object.fromEntries(url?.searchParams ?? []), to: `${url?.origin}${url?.pathname}` }
}

/** What the link of an error page tells a client. */
export function linkIn(page: LightMyRequestResponse): ReturnType<typeof answerIn> {
  const links = named(page.body, 'a').map((each) => attribute(each, 'href') ?? '')
  const location = links.find((href) => href.includes('error=')) ?? ''
  return answerIn({ headers: { location } } as LightMyRequestResponse)
}

export const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
