import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createDemoIdp, type Person } from '../../examples/demo-idp/src/index.ts'
import type { TestCa } from '../test/certificates.ts'

export const CLIENT = { clientId: 'gatehouse', clientSecret: 'secret-of-the-endurance-run' }
export const AUTH_HOST = 'auth.example.com'

export interface Identity {
  readonly issuer: string
  close(): Promise<void>
}

/** The OpenID provider of the run; everybody in `people` can sign in without a password. */
export async function startIdentity(
  address: string,
  serverCa: TestCa,
  people: readonly string[],
): Promise<Identity> {
  const server = createServer(serverCa.certificateFor(address)).listen(0, address)
  await once(server, 'listening')
  const issuer = `https://${address}:${(server.address() as AddressInfo).port}`
  const callback = `https://${AUTH_HOST}/portals/main/providers/demo/callback`
  const client = { ...CLIENT, redirectUris: [callback] }
  const known = new Map(people.map((id) => [id, person(id)]))
  server.on('request', createDemoIdp({ issuer, clients: [client], people: known }))
  return {
    issuer,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function person(id: string): Person {
  const names = { name: id, given_name: id, family_name: id }
  return { ...names, email: `${id}@example.com`, email_verified: true, groups: ['staff'] }
}
