import { randomBytes } from 'node:crypto'
import { createFetch } from '@gatehouse/net'
import t, { type Test } from 'tap'
import { hurriedClock, startScriptedCa } from '../../../acme/test/scripted-ca/index.ts'
import { checkAcme } from '../../src/acme/check.ts'
import type { Handshake } from '../../src/acme/findings.ts'
import { readNames } from '../../src/settings.ts'

const EXTERNAL = { kid: 'web-1', hmacKey: randomBytes(32).toString('base64url') }

/** A CA on loopback, and what is found at it. */
async function stage(t: Test, handshake?: Handshake) {
  const ca = await startScriptedCa({ externalAccount: EXTERNAL })
  const fetch = createFetch()
  t.teardown(async () => {
    await fetch.close()
    await ca.close()
  })
  const context = {
    fetch,
    clock: hurriedClock(Date.now()),
    handshake: async () => handshake as never,
  }
  const check = (names: string[], url = ca.directoryUrl) =>
    Array.fromAsync(
      checkAcme({ ...context, url, externalAccount: EXTERNAL, names: readNames(names) }),
      ({ level, text }) => `${level}: ${text}`,
    )
  return { ca, check }
}

t.test('the account ends, whatever becomes of the order', async (t) => {
  const problem = { type: 'urn:ietf:params:acme:error:rejectedIdentifier', detail: 'no rule\u0007' }
  const refusal = { status: 403, body: problem } as const
  const rows: [what: string, script: object, expected: string][] = [
    ['refused', { newOrder: refusal }, 'fault: the CA says: no rule '],
    ['no order', { newOrder: { status: 201, body: '{}' } }, 'fault: '],
    ['no authorization', { authorization: { body: 'x' } }, 'fault: '],
    ['pending', {}, 'ok: the account is deactivated again'],
  ]
  for (const [what, script, expected] of rows) {
    const { ca, check } = await stage(t)
    for (const [kind, reply] of Object.entries(script)) ca.always(kind as 'order', reply as object)
    const findings = await check(['a.test'])
    t.ok(findings.at(-1)?.startsWith(expected), `${what}: ${findings.at(-1)}`)
    const { kind, payload } = ca.exchanges.at(-1) ?? {}
    t.match({ kind, payload }, { kind: 'account', payload: { status: 'deactivated' } }, what)
    t.equal(ca.count('finalize'), 0)
    t.notMatch(findings.join('\n'), EXTERNAL.hmacKey)
  }
})

t.test('a server whose chain is refused is asked nothing', async (t) => {
  const refused = 'DEPTH_ZERO_SELF_SIGNED_CERT'
  const { ca, check } = await stage(t, { protocol: 'TLSv1.3', root: 'Somebody', refused })
  const url = new URL(ca.directoryUrl)
  url.protocol = 'https:'
  const found = await check(['a.test'], url)
  t.match(found, [/^fault: the certificate leads to Somebody, and is not trusted by this system/])
  t.equal(found.length, 1)
  t.equal(ca.exchanges.length, 0)
})
