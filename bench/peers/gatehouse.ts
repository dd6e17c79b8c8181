import { dirname } from 'node:path'
import { type DemoIdp, startDemoIdp } from '../../examples/demo-idp/src/index.ts'
import { bundle } from '../../scripts/bundle.ts'
import { freePort } from '../../scripts/free-ports.ts'
import { AUDIENCE, type TestIssuer } from '../harness/issuer.ts'
import { type Running, startProgram } from '../harness/program.ts'
import { API_KEY, type ServiceFiles, writeConfig } from '../harness/service-files.ts'
import type { Place } from './sign-ins.ts'

export const APP = 'https://app.example.com/'
export const CLIENT = { clientId: 'bench', clientSecret: 'the-secret-of-the-bench' }

/** Starts a side with what it has kept since it was started first. */
export type Start = () => Promise<Running>

/** A provider where whoever comes next is the next person. */
export function startIdp(count: number): Promise<DemoIdp> {
  const ids = Array.from(
    { length: count },
    (_, n) => `5f0c2c1e-93a4-4f57-b0d8-${`${n}`.padStart(12, '0')}`,
  )
  const people = new Map(
    ids.map((id, n) => [
      id,
      {
        ...{ name: `Ada Lovelace ${n}`, given_name: 'Ada', family_name: `Lovelace ${n}` },
        ...{ email: `ada.${n}@example.com`, email_verified: true },
        groups: ['staff', 'engineering'],
      },
    ]),
  )
  let turn = 0
  const redirectUris = [
    'https://auth.example.com/portals/main/providers/corp/callback',
    `${APP}oauth2/callback`,
  ]
  return startDemoIdp({
    clients: [{ ...CLIENT, redirectUris }],
    people,
    signsIn: () => ids[turn++ % count],
  })
}

export async function gatehouseFiles(
  idp: DemoIdp,
  issuer: TestIssuer,
): Promise<ServiceFiles & { readonly port: number }> {
  const port = await freePort()
  const files = writeConfig(`server: { port: ${port}, trustedProxies: [127.0.0.0/8] }
metrics: { port: 0 }
storage: { path: data }
domains: [{ domain: example.com, authHost: auth.example.com }]
portals:
  - name: main
    providers:
      - type: openIDConnect
        name: corp
        issuerUrl: ${idp.issuer}
        clientId: ${CLIENT.clientId}
        clientSecret: ${CLIENT.clientSecret}
        scopes: [openid, profile, email, groups]
    callers:
      keys: [{ name: bench, key: ${API_KEY}, hosts: [app.example.com] }]
      issuers: [{ name: ci, issuerUrl: "${issuer.url}", audience: "${AUDIENCE}", hosts: [app.example.com] }]
`)
  return { ...files, port }
}

/** As the images start it. */
export async function gatehouseStart(config: string, port: number): Promise<Start> {
  const program = await bundle('forward-auth')
  const args = ['--max-semi-space-size=2', program, 'serve', '--config', config]
  return () => startProgram([process.execPath, ...args], port, { HOME: dirname(config) })
}

/** What a proxy says of a request that it passes on. */
const forwarded = (url: URL) => ({
  'x-forwarded-for': '198.51.100.7',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': url.host,
})

/** Where browsers find the app, the sign-in host and the provider. */
export function gatehousePlaces(port: number, idp: DemoIdp): Readonly<Record<string, Place>> {
  const app: Place = {
    port,
    path: () => '/portals/main',
    headers: (url) => ({
      ...forwarded(url),
      'x-forwarded-method': 'GET',
      'x-forwarded-uri': `${url.pathname}${url.search}`,
    }),
  }
  return {
    'app.example.com': app,
    'auth.example.com': { port, headers: forwarded },
    '127.0.0.1': { port: Number(new URL(idp.url).port) },
  }
}

/** Changes eight letters of each signature, with which each of the cookies ends. */
export const forge = (cookie: string): string =>
  cookie.replace(/[\w-]{8}(?=[\w=-]{12}(?:;|$))/g, 'AAAAAAAA')
