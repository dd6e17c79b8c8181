import type { Provider } from '@gatehouse/identity-providers'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { buildApp } from '../../src/app.ts'
import type { Portal } from '../../src/portals.ts'
import { portalOf, startApp, type TestApp, yamlOf } from '../app.ts'
import { createFakeProvider, type FakeProvider } from '../fake-provider.ts'
import { createVisitor, type Visitor } from '../visitor.ts'

export const AUTH = 'https://auth.example.com'
export const MAIN = `${AUTH}/portals/main`
export const WANTED = 'https://app.example.com/reports?year=2030'

/** What a script in a page, or a program, sends. */
export const SCRIPT = { accept: '*/*', 'sec-fetch-mode': 'cors' }

export function signInUrl(query: Record<string, string> = { rd: WANTED }): string {
  return `${MAIN}/signin?${new URLSearchParams(query)}`
}

/** The service with fake providers in place of those of its portals. */
export async function start(
  t: Test,
  {
    yaml = yamlOf(portalOf('main') + portalOf('other')),
    corp = createFakeProvider(),
    others = [],
    metrics,
    buildApp: build = buildApp,
    ...settings
  }: {
    readonly yaml?: string
    readonly corp?: FakeProvider
    readonly others?: readonly Provider[]
    readonly metrics?: Metrics
    readonly buildApp?: typeof buildApp
  } & Partial<Portal> = {},
): Promise<TestApp & { readonly corp: FakeProvider; visitor(): Visitor }> {
  const providers = new Map([corp.provider, ...others].map((each) => [each.name, each]))
  const changed = (portal: Portal) => ({ ...portal, providers, ...settings })
  const change = ({ portals }: FastifyInstance) => {
    for (const [name, each] of portals) (portals as Map<string, Portal>).set(name, changed(each))
  }
  const test = await startApp(t, yaml, change, { metrics, buildApp: build })
  return { ...test, corp, visitor: () => createVisitor(test.app) }
}

/** Signs somebody in, from the first page to the last. */
export async function signIn(
  visitor: Visitor,
  corp: FakeProvider,
  sub: string,
  url = signInUrl(),
): Promise<LightMyRequestResponse> {
  const begun = await visitor.open(url)
  return visitor.open(corp.authorize(begun.headers.location, sub))
}

/** Whom the service takes the visitor for, or the status that it answers. */
export async function whoIs(visitor: Visitor, portal = 'main'): Promise<unknown> {
  const answer = await visitor.open(`${AUTH}/portals/${portal}/profile.json`, { headers: SCRIPT })
  return answer.statusCode === 200 ? answer.json().id : answer.statusCode
}
