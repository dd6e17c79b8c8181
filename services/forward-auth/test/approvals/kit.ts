import { hash } from 'node:crypto'
import type { Test } from 'tap'
import type { ApprovableCall } from '../../src/approvals/approvals.ts'
import { canonicalJson } from '../../src/canonical-json.ts'
import { CORP, portalOf, yamlOf } from '../app.ts'
import { CLIENT, NOTES, sendForm, startIssuer } from '../oauth/kit.ts'
import { attribute, named, text } from '../pages/read.ts'
import { MAIN } from '../portal/kit.ts'
import type { Visitor } from '../visitor.ts'

export const MINUTE = 60_000

/** What rules may ask for, by the name of the first tool that they are for. */
const APPROVE = {
  delete_note: {},
  move_note: { remember: '15m' },
  pay: { approver: 'editors' },
  wire: { stepUp: 'lately' },
  fire: { approver: 'editors', stepUp: 'lately', remember: '5m' },
} as const
export type Tool = keyof typeof APPROVE

const RULES = Object.entries(APPROVE).map(([tool, approve]) => {
  return {
    hosts: ['app.example.com'],
    paths: ['/mcp'],
    tools: [tool],
    require: 'signedIn',
    approve,
  }
})
const PORTAL = {
  name: 'main',
  resources: [
    {
      url: NOTES,
      scopes: [{ name: 'notes:read', text: 'Read your notes' }],
      upstream: { url: 'http://localhost:1/mcp' },
    },
  ],
  policies: {
    editors: 'Group("editor")',
    lately: { condition: '!Group("guest")', maxAge: '5m' },
  },
  rules: RULES,
}
const yamlWith = (options: object) =>
  `  - ${JSON.stringify({ ...PORTAL, ...options }).replace('{', `{ providers: [${CORP}], `)}\n`

/** A portal whose tools have to be approved, and agents of its people. */
export async function startApprovals(t: Test, rest = '', options: object = {}) {
  const issuer = await startIssuer(t, { yaml: yamlOf(yamlWith(options) + portalOf('other'), rest) })
  const { app, connect, log } = issuer
  const realm = { portal: app.portals.get('main')!, site: app.sites.list[0]! }

  async function visitorOf(browser: Visitor) {
    const headers = { cookie: browser.cookies() }
    return (await app.sessions.atSignIn({ headers, raw: { socket: {} } } as never, realm))!
  }

  /** An agent of a person: what makes its calls. */
  async function agentOf(browser: Visitor) {
    await connect(browser)
    const principal = await visitorOf(browser)
    const { person: digest, profile } = principal.session
    const [row] = await app.authStore.listSessions({ person: digest, agents: true }, 1)
    const call = (
      tool: Tool,
      given: Readonly<Record<string, unknown>> = { id: 1 },
      changes: Partial<ApprovableCall> = {},
    ): ApprovableCall => ({
      ...{ realm, principal, person: { digest, profile }, agent: row?.sid, tool },
      client: { id: CLIENT, name: 'Assistant', host: 'assistant.test' },
      ...{ resource: NOTES, arguments: given },
      argumentsDigest: hash('sha256', canonicalJson(given)),
      approve: realm.portal.gate.rules.find(({ config }) => config.tools?.includes(tool))!.config
        .approve!,
      ...changes,
    })
    return { call, sid: row!.sid, digest }
  }

  /** Opens the page of a call, or that of all of them. */
  const open = (browser: Visitor, id = '', headers: Record<string, string> = {}) =>
    browser.open(`${MAIN}/account/calls${id && `/${id}`}`, { headers })
  /** Sends the form of a page that somebody has opened. */
  const send = (browser: Visitor, id: string, fields: Record<string, string>) =>
    sendForm(issuer, browser, `/account/calls/${id}`, fields)
  async function answer(browser: Visitor, id: string, decision: string) {
    const form = formIn((await open(browser, id)).body) ?? ''
    return send(browser, id, { form, decision })
  }

  /** A program that acts for nobody. */
  const program = (tool: Tool, name = 'ci', given: Readonly<Record<string, unknown>> = {}) => ({
    ...{ realm, principal: { caller: `psk:${name}` } as ApprovableCall['principal'] },
    ...{ person: undefined, agent: undefined, client: { id: name } },
    ...{ resource: NOTES, tool, arguments: given, argumentsDigest: JSON.stringify(given) },
    approve: realm.portal.gate.rules.find(({ config }) => config.tools?.includes(tool))!.config
      .approve!,
  })

  /** What was recorded of calls. */
  const recorded = () =>
    log
      .filter(({ event }) => String(event).startsWith('call-'))
      .map(({ event, caller, person, tool, client, host }) => {
        return { event, caller, person, tool, client, host }
      })

  return Object.assign(
    { ...issuer } as Pick<Issuer, 'app' | 'clock' | 'log' | 'corp' | 'person' | 'visitor'>,
    {
      ...{ realm, visitorOf, agentOf, program, recorded, open, send, answer },
    },
  )
}

type Issuer = Awaited<ReturnType<typeof startIssuer>>

/** What the form of a page has sealed. */
export function formIn(body: string): string | undefined {
  const field = named(body, 'input').find((each) => attribute(each, 'name') === 'form')
  return field && attribute(field, 'value')
}

export const titleIn = (body: string) => text(named(body, 'h1')[0]!)
