import type { Test } from 'tap'
import { AcmeClient, type ExternalKey, HOST } from './acme-client.ts'
import { start } from './app.ts'

/** The API keys of a service for ACME clients. */
export const PSK = {
  keys: [
    { name: 'operator', key: 'a-key-that-may-do-everything' },
    { name: 'web', key: 'a-key-of-the-web-servers', domains: ['*.example.com', '10.0.0.0/8'] },
    { name: 'other', key: 'a-key-of-somebody-else', domains: ['*.example.org'] },
  ],
}

/** A service with a client that has an account of the caller `web`. */
export async function startAcme(
  t: Test,
  { server, ...changes }: { readonly server?: object; readonly [section: string]: unknown } = {},
  deps: Parameters<typeof start>[2] = {},
) {
  const own = { names: [HOST], ...server }
  const running = await start(t, { auth: { psk: PSK }, ...changes, server: own }, deps)
  const keyOf = async (caller: string, members: object = {}): Promise<ExternalKey> =>
    (await running.call('POST', '/api/acme/key', { caller, ...members })).body
  const clientOf = async (
    caller: string,
    options: ConstructorParameters<typeof AcmeClient>[1] = {},
  ) => {
    const client = new AcmeClient(running.app, options)
    await client.register(await keyOf(caller))
    return client
  }
  return { ...running, keyOf, clientOf, client: await clientOf('web') }
}
