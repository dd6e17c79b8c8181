import { setImmediate } from 'node:timers/promises'
import type { Clock } from '@gatehouse/service-kit/clock'
import type { Test } from 'tap'
import { buildApp } from '../../src/app.ts'
import { portalOf, yamlOf } from '../app.ts'
import { NOTES, startIssuer } from '../oauth/kit.ts'
import type { Visitor } from '../visitor.ts'

const yamlFor = (port: number, approve = '', rest = '') =>
  yamlOf(
    portalOf(
      'main',
      `resources: [{ url: "${NOTES}", upstream: { url: "http://127.0.0.1:${port}/mcp" },
        scopes: [{ name: "notes:read", text: Read }, { name: "notes:write", text: Write }] }],
      policies: { editors: 'Group("editors")', writes: 'Scope("notes:write")' },
      rules: [
        { hosts: [app.example.com], paths: [/mcp], tools: [delete_note], require: signedIn, approve: { ${approve} }${rest} },
        { hosts: [app.example.com], paths: [/mcp], tools: ["*"], require: signedIn }]`.replace(
        /\s+/g,
        ' ',
      ),
    ),
  )

interface Options {
  /** Members of `approve`, and of the rule besides. */
  readonly approve?: string
  readonly rest?: string
  /** Default: one that tests move. */
  readonly clock?: Clock
}

/** A server behind the proxy on a port, an agent of Ada, and what she decides. */
export async function startApprover(
  t: Test,
  port: number,
  { approve = '', rest = '', clock }: Options = {},
) {
  const yaml = (changes = approve) => yamlFor(port, changes, rest)
  const build: typeof buildApp = (config, deps) =>
    buildApp(config, { ...deps, ...(clock && { clock }) })
  const issuer = await startIssuer(t, { yaml: yaml(), buildApp: build })
  const ada = await issuer.person('ada')
  const { access_token: token } = await issuer.connect(ada)
  const { app } = issuer
  const visitorOf = async (browser: Visitor) => {
    const request = { headers: { cookie: browser.cookies() }, raw: {}, server: app } as never
    const portal = app.portals.get('main')
    const site = app.sites.list[0]
    const visitor = portal && site && (await app.sessions.atSignIn(request, { portal, site }))
    if (!visitor) throw new Error('nobody is signed in')
    return visitor
  }
  /** Decides about the only call that waits, once it does. */
  const decide = async (decision: 'once' | 'remember' | 'deny', browser = ada) => {
    const visitor = await visitorOf(browser)
    for (;;) {
      const [waiting] = await app.approvals.list(visitor)
      if (waiting) return app.approvals.decide(waiting, decision, visitor, undefined as never)
      await setImmediate()
    }
  }
  const waiting = async (browser = ada) =>
    (await app.approvals.list(await visitorOf(browser))).length
  return Object.assign(issuer, { ada, token, decide, waiting, yaml })
}
