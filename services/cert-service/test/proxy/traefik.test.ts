import type { KeyCaller } from '@gatehouse/auth-core'
import t from 'tap'
import { newCertificate } from '../../../../packages/cert-store/test/helpers/store.ts'
import { createDocuments, type DocumentDeps } from '../../src/proxy/traefik.ts'

const BY = { actor: 'psk:proxy', remoteAddress: '192.0.2.1', requestId: 'r' }
const CHAIN = 'x'.repeat(50_000_000)

t.test('documents are cached as long as all of them fit', async (t) => {
  let read = 0
  const list = async () => {
    read += 1
    return [{ id: 1, ...newCertificate({ notAfter: Infinity }) }]
  }
  const policy = () => ({ allowed: true })
  const documents = createDocuments({
    clock: { now: () => 0 },
    policy,
    holdings: { changes: () => 0, of: (record: object) => ({ record, chain: CHAIN, pem: CHAIN }) },
    issuance: { recordDelivery() {} },
    store: { list },
  } as unknown as DocumentDeps)
  const [one, two, three] = ['one', 'two', 'three'].map(
    (subject): KeyCaller => ({ method: 'psk', subject }),
  ) as [KeyCaller, KeyCaller, KeyCaller]
  for (const [caller, count] of [
    [one, 1],
    [two, 2],
    [one, 2],
    [three, 3],
    [one, 3],
    [two, 4],
  ] as const) {
    await documents(caller, BY)
    t.equal(read, count, caller.subject)
  }
})

t.test('a document too large for its proxy is refused whole', async (t) => {
  const page = [1, 2, 3].map((id) => ({ id, ...newCertificate({ notAfter: Infinity }) }))
  const handedOut: object[] = []
  const service = {
    clock: { now: () => 0 },
    policy: () => ({ allowed: true }),
    holdings: {
      changes: () => 0,
      of: (record: object) => ({ record, chain: '', pem: 'x'.repeat(100) }),
    },
    issuance: { recordDelivery: (held: object) => void handedOut.push(held) },
    store: { list: async () => page },
  } as unknown as DocumentDeps
  const caller: KeyCaller = { method: 'psk', subject: 'proxy' }
  await t.rejects(createDocuments(service, 299)(caller, BY), { code: 'CERT_DOCUMENT_TOO_LARGE' })
  t.strictSame(handedOut, [])
  await createDocuments(service, 300)(caller, BY)
  t.equal(handedOut.length, 3)
})
