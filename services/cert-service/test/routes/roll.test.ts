import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { rename, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, type DetailedPeerCertificate } from 'node:tls'
import { renewalId } from '@gatehouse/acme/server'
import { backup, restore } from '@gatehouse/cert-store'
import {
  type Authority,
  createIntermediate,
  createRoot,
  createSerial,
  generateKeyPair,
  generateP256,
  loadAuthority,
  toPem,
} from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import {
  caConstraint,
  caKeyUsage,
  criticalExtension,
  type Der,
  encode,
  keyIdentifier,
  OID,
  subjectKeyId,
} from '../../../../packages/pki/src/der.ts'
import {
  createSigner,
  distinguishedName,
  signCertificate,
} from '../../../../packages/pki/src/signer.ts'
import { constraintsOf, issue } from '../../../../packages/pki/test/helpers.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { detachRoot } from '../../src/cli/keys.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { DAY, KEY, leapClock, NOW, type Running, rest, start } from '../helpers/app.ts'
import { writeAuthority } from '../helpers/ca-walk.ts'
import { askOverTls, issueClient } from '../helpers/client-certificates.ts'

const roll = ({ call }: Running, action: string, more: object = {}) =>
  call('POST', '/api/ca/roll', { action, ...more })
const pemsOf = (pem: string) => pem.split(/(?<=-----END CERTIFICATE-----\n)/).filter(Boolean)
const subjectsOf = (pem: string) =>
  pemsOf(pem).map((part) => new X509Certificate(part).subject?.replace('CN=Gatehouse ', ''))
const A = 'Root CA'
const B = 'Root CA 2'
const SERVERS = 'Intermediate CA'
const CLIENTS = 'Client Intermediate CA'

/** What everybody can fetch: the roots, and the subjects of all that verifies clients. */
async function published({ app }: Running) {
  const paths = ['/ca/root.pem', '/ca/clients.pem']
  return Promise.all(paths.map(async (path) => subjectsOf((await app.inject(path)).body)))
}

t.test('from one root to the next, and back in between', async (t) => {
  const running = await start(t)
  const { call, clock } = running
  const issue = async (domain: string, more: object = {}) => {
    const { body } = await call('POST', '/api/certificate', { domain, ...more })
    return subjectsOf(body.certificate).slice(1)
  }
  t.match(await call('GET', '/api/ca/roll'), {
    status: 200,
    body: { stage: 'none', from: { subject: 'CN=Gatehouse Root CA' }, to: undefined },
  })
  await issue('ada@a.test', { profile: 'client' })
  t.strictSame(await published(running), [[A], [A, CLIENTS]])

  const begun = await roll(running, 'begin')
  t.match(begun, {
    status: 200,
    body: {
      stage: 'begun',
      to: { subject: 'CN=Gatehouse Root CA 2' },
      inForce: { total: 1, renewable: 1, names: ['ada@a.test'] },
      next: { action: 'use', from: '2030-01-15T00:00:00Z' },
    },
  })
  const { keyId } = begun.body.from
  const both = [A, B, CLIENTS, CLIENTS]
  t.strictSame(await published(running), [[A, B], both])
  t.strictSame(await issue('b.test'), [SERVERS], 'the old root signs')
  t.match(await roll(running, 'use'), {
    status: 409,
    body: { code: 'CERT_ROLL_REFUSED', detail: 'it is possible from 2030-01-15T00:00:00Z' },
  })

  await clock.advance(14 * DAY)
  t.match((await roll(running, 'use')).body, { stage: 'used', usedAt: '2030-01-15T00:00:00Z' })
  const used = [B, A, CLIENTS, CLIENTS]
  t.strictSame(await published(running), [[B, A], used])
  t.strictSame(await issue('c.test'), [SERVERS, B], 'with the cross certificate')
  t.strictSame(await issue('bob@a.test', { profile: 'client' }), [CLIENTS, B])
  t.strictSame((await roll(running, 'back')).body.stage, 'begun')
  t.strictSame(await issue('d.test'), [SERVERS])
  t.strictSame(await published(running), [[A, B], both])

  await roll(running, 'use')
  t.match(await roll(running, 'finish'), {
    status: 409,
    body: {
      code: 'CERT_ROLL_REFUSED',
      detail:
        'it is possible from 2030-02-14T00:00:00Z; 1 certificates below the old root are in force ' +
        `until 2030-01-22T00:00:00Z, such as d.test: renew 1 of them by \`gatehouse-certs renew --under ${keyId}\``,
    },
  })
  await clock.advance(30 * DAY)
  t.match((await roll(running, 'finish', { forgetKey: true })).body, {
    stage: 'finished',
    inForce: { total: 0 },
  })
  t.strictSame(await published(running), [[B], [B, CLIENTS]])
  t.strictSame(await issue('e.test'), [SERVERS, B], 'the cross certificate goes on')
  const rows = await running.service.store.listAuthorities()
  const roots = rows.filter(({ role }) => role === 'root')
  t.strictSame(
    roots.map(({ sealedKey }) => sealedKey !== null),
    [true, false],
    'the key of the old root is gone',
  )
  t.match(await roll(running, 'finish', { forgetKey: true }), { status: 200 }, 'once more')
  const audit = await running.service.store.listAudit({ limit: 100 })
  t.strictSame(
    audit.flatMap(({ action, detail }) => (action === 'ca-roll' ? detail?.split(':')[0] : [])),
    ['forget-key', 'finish', 'use', 'back', 'use', 'begin'],
  )
})

t.test('what is below the old root is renewed by the command of the refusal', async (t) => {
  const running = await startAcme(t, { ca: { leafLifetime: '60d' } })
  const { call, clock, client, service } = running
  service.start()
  const pass = async (days: number) => {
    for (let day = 0; day < days; day += 1) {
      await clock.advance(DAY)
      await rest(clock, service.issuance)
    }
  }
  const leaf = (await client.obtain(['app.example.com']))[0] as Buffer
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await roll(running, 'begin')
  await pass(14)
  await roll(running, 'use')
  const refusal = async () => (await roll(running, 'finish')).body.detail as string
  const [, count, keyId = ''] = /renew (.*) of them by `gatehouse-certs renew --under (.*)`/.exec(
    await refusal(),
  )!
  t.equal(count, '2')
  const { body: status } = await call('GET', '/api/ca/roll')
  t.match(status, { from: { keyId }, inForce: { total: 2, renewable: 2 } })
  const renew = async (more: object) =>
    (await call('POST', '/api/certificates/renew', { under: keyId, ...more })).body
  t.match(await renew({ spread: '7d' }), { renewing: 1, asked: 1 })
  await pass(7)
  const { body } = await client.get(client.at(`/acme/renewal-info/${renewalId(leaf)}`))
  t.ok(Date.parse(body.suggestedWindow.start) <= clock.now(), 'its client is asked by now')
  t.match(await renew({ dryRun: true }), { renewing: 0, asked: 1 }, 'ours is renewed')
  await client.obtain(['app.example.com'], { replaces: renewalId(leaf) })
  t.match(await renew({ dryRun: true }), { renewing: 0, asked: 0 })
  t.match((await call('GET', '/api/ca/roll')).body.inForce, { total: 2, renewable: 0 })
  await pass(23)
  t.match(await refusal(), /^2 certificates .* they were replaced or nobody fetches them, so wait/)
  await pass(17)
  t.match(await roll(running, 'finish'), { status: 200, body: { stage: 'finished' } })
})

t.test('who may roll the root', async (t) => {
  const keys = [
    { name: 'operator', key: 'a-key-that-may-do-everything' },
    { name: 'reader', key: 'a-key-that-may-read-0', rights: ['read'] },
    { name: 'web', key: 'a-key-of-web-servers-0', domains: ['*.a.test'] },
  ]
  const running = await start(t, { auth: { psk: { keys } } })
  for (const [key, read, write, action] of [
    ['a-key-of-web-servers-0', 403, 403, /without `domains` whose rights include issue and revoke/],
    ['a-key-that-may-read-0', 200, 403, /rights include issue and revoke/],
    ['a-key-that-is-not-there', 401, 401, undefined],
    ['a-key-that-may-do-everything', 200, 200, undefined],
  ] as const) {
    const headers = { authorization: `APIKey ${key}` }
    const answer = await running.call('GET', '/api/ca/roll', undefined, headers)
    t.equal(answer.status, read, key)
    const body = { action: 'begin' }
    const taken = await running.call('POST', '/api/ca/roll', body, headers)
    t.match(taken, { status: write, body: { action } }, key)
  }
})

t.test('what belongs to another step is refused, and said where', async (t) => {
  const running = await start(t)
  for (const [body, detail] of [
    [{ action: 'use', force: true }, '`action` must be "finish".'],
    [{ action: 'finish', now: true }, '`action` must be "use".'],
    [{ action: 'back', root: 'x' }, '`action` must be "begin".'],
    [{ action: 'use', cross: false }, '`action` must be "begin".'],
    [{ action: 'abort' }, '`action` must be one of "begin", "use", "back", "finish", "cancel".'],
    [{}, '`action` is missing.'],
    [{ action: 'begin', roots: 'x' }, '`roots` is not a known member; did you mean `root`?'],
    [{ action: 'begin', root: 'x'.repeat(20_001) }, '`root` must have at most 20000 characters.'],
  ] as const)
    t.match(await running.call('POST', '/api/ca/roll', body), { status: 400, body: { detail } })
})

const pemOf = ({ certificate, key }: Authority) => ({
  root: toPem('CERTIFICATE', certificate),
  key: String(key?.export({ type: 'pkcs8', format: 'pem' })),
})

/** A root below which there is a limited number of authorities. */
function limitedRoot(commonName: string | undefined, pathLength: number, ...more: Der[]) {
  const { spki, privateKey } = generateP256()
  const subject = encode(distinguishedName(commonName))
  const certificate = signCertificate(createSigner(subject, keyIdentifier(spki), privateKey), {
    ...{ serial: createSerial(NOW), subject, spki, notBefore: NOW, notAfter: NOW + 3650 * DAY },
    extensions: [
      caConstraint(pathLength),
      caKeyUsage(),
      subjectKeyId(keyIdentifier(spki)),
      ...more,
    ],
  })
  return loadAuthority({ certificate, key: privateKey, now: NOW })
}

t.test('a root that cannot be the new one', async (t) => {
  const folder = testFolder(t)
  const mine = await createRoot({ commonName: 'Mine', now: NOW })
  const root = await writeAuthority(folder, 'root', mine)
  const running = await start(t, { ca: { root } }, { folder })
  const other = await createRoot({ commonName: 'Other', now: NOW })
  const make = (more: object) => createRoot({ commonName: 'New', now: NOW, ...more })
  const next = await make({})
  const key = { spki: mine.info.spki, privateKey: mine.key!, type: 'p384' as const }
  const intermediate = await createIntermediate({ root: other, commonName: 'Below', now: NOW })
  const leaf = issue(intermediate, ['a.test'], { now: NOW })
  const leafPem = {
    root: toPem('CERTIFICATE', leaf.der),
    key: toPem('PRIVATE KEY', leaf.key.pkcs8),
  }
  for (const [why, body, detail] of [
    ['none', {}, '`ca.root` is your own root: send the new one along, with its private key'],
    ['no key', { root: pemOf(next).root }, 'the private key of the new root is missing'],
    ['no root', { key: pemOf(next).key }, '`ca.root` is your own root'],
    ['another key', { ...pemOf(next), key: pemOf(other).key }, 'PKI_CA_KEY_INVALID'],
    ['no key at all', { ...pemOf(next), key: 'x' }, 'PKI_KEY_INVALID'],
    ['no PEM', { ...pemOf(next), root: 'x' }, 'PKI_PEM_INVALID'],
    ['ended', pemOf(await make({ now: NOW - 3651 * DAY })), 'PKI_CA_EXPIRED'],
    ['to begin', pemOf(await make({ now: NOW + DAY })), 'PKI_CA_EXPIRED'],
    ['ending', pemOf(await make({ now: NOW - 3286 * DAY })), 'CN=New ends at 2030-12-31T'],
    ['no name', pemOf(limitedRoot(undefined, 1)), 'the new root has an empty name'],
    ['no root', pemOf(intermediate), 'CN=Below is not signed by itself'],
    ['no CA', leafPem, 'PKI_CA_INVALID'],
    ['for leaves alone', pemOf(limitedRoot('Leaves', 0)), 'CN=Leaves may sign leaves only'],
    [
      'for some names alone',
      pemOf(
        limitedRoot('Some', 1, criticalExtension(OID.nameConstraints, constraintsOf(['+a.test']))),
      ),
      'CN=Some permits only a.test, *.a.test, =**.a.test: bring one without name constraints',
    ],
    ['the same', pemOf(mine), 'CN=Mine has the same key'],
    ['the same key', pemOf(await make({ key })), 'CN=Mine has the same key'],
    [
      'the same name',
      pemOf(await make({ commonName: 'Mine' })),
      'a root is called CN=Mine already',
    ],
    [
      'another key of the signer',
      { ...pemOf(next), signerKey: pemOf(other).key },
      'the private key is not that of CN=Mine',
    ],
  ] as const) {
    const { status, body: problem, text } = await roll(running, 'begin', body)
    t.match([status, problem.code], [422, 'CERT_ROLL_ROOT'], why)
    t.match(problem.detail, detail, why)
    t.notMatch(text, 'PRIVATE KEY', why)
  }
  t.match((await running.call('GET', '/api/ca/roll')).body, { stage: 'none' })
  t.equal((await running.service.store.listAuthorities()).length, 2, 'nothing was added')
  const rsa = await make({ key: await generateKeyPair('rsa2048') })
  t.match(await roll(running, 'begin', pemOf(rsa)), { status: 200 }, 'of another algorithm')
})

t.test('your own roots: the next key is not stored, and the configuration follows', async (t) => {
  expectWarnings(t, 'the CA needs its operator')
  const folder = testFolder(t)
  const mine = await createRoot({ commonName: 'Mine', now: NOW })
  const { certFile, keyFile } = await writeAuthority(folder, 'root', mine)
  const running = await start(t, { ca: { root: { certFile, keyFile } } }, { folder })
  await rename(keyFile, `${keyFile}.away`)
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  const next = await createRoot({
    commonName: 'Next',
    now: NOW,
    key: await generateKeyPair('rsa2048'),
  })
  t.match(await roll(running, 'begin', pemOf(next)), {
    status: 422,
    body: { code: 'CERT_ROLL_ROOT', detail: /the key of CN=Mine is not here: send it along/ },
  })
  const begun = await roll(running, 'begin', { ...pemOf(next), signerKey: pemOf(mine).key })
  t.match(begun, { status: 200, body: { to: { subject: 'CN=Next' } } })
  const rows = await running.service.store.listAuthorities()
  t.ok(rows.filter(({ role }) => role === 'root').every(({ sealedKey }) => sealedKey === null))
  await roll(running, 'use', { now: true })
  t.match((await roll(running, 'use')).body, { stage: 'used' }, 'again')
  const { body } = await running.call('POST', '/api/certificate', { domain: 'b.test' })
  t.strictSame(subjectsOf(body.certificate), ['CN=b.test', SERVERS, 'CN=Next'])
  t.match((await roll(running, 'finish', { force: true })).body, { stage: 'finished' })
  t.strictSame(running.service.ca.degraded(), ['ca-root-configuration'])
  t.match(await roll(running, 'begin', pemOf(await createRoot({ commonName: 'C', now: NOW }))), {
    status: 409,
    body: { detail: '`ca.root.certFile` names a root that was replaced: name CN=Next first' },
  })
  await running.close()

  const own = await writeAuthority(folder, 'next', next)
  for (const [certificate, degraded] of [
    [certFile, ['ca-root-configuration']],
    [own.certFile, []],
  ] as const) {
    const ca = { root: { certFile: certificate } }
    const again = await start(t, { ca }, { folder, clock: running.clock })
    t.strictSame((await published(again))[0], ['CN=Next'], certificate)
    t.strictSame(again.service.ca.degraded(), degraded)
    await again.close()
  }
})

t.test('a key that is needed again is named, and taken from the configuration', async (t) => {
  expectWarnings(t, 'the CA needs its operator')
  const folder = testFolder(t)
  const mine = await createRoot({ commonName: 'Mine', now: NOW })
  const root = await writeAuthority(folder, 'root', mine)
  const running = await start(t, { ca: { root } }, { folder })
  const next = await createRoot({ commonName: 'Next', now: NOW })
  await roll(running, 'begin', pemOf(next))
  await running.clock.advance(350 * DAY)
  const detail = /a new intermediate is due below CN=Next: name this root by `ca.root`/
  t.match(await roll(running, 'use'), { status: 422, body: { code: 'CERT_ROLL_ROOT', detail } })
  await running.close()

  const ca = { root: await writeAuthority(folder, 'next', next) }
  const again = await start(t, { ca }, { folder, clock: running.clock })
  t.match((await roll(again, 'use')).body, { stage: 'used' })
})

t.test('an intermediate of your own has to be replaced by hand', async (t) => {
  const folder = testFolder(t)
  const root = await createRoot({ commonName: 'Mine', now: NOW })
  const own = await createIntermediate({ root, commonName: 'Own', now: NOW })
  const intermediate = await writeAuthority(folder, 'own', own, root.certificate)
  for (const ca of [
    { intermediate },
    { intermediate, root: await writeAuthority(folder, 'r', root) },
  ]) {
    const running = await start(t, { ca }, { folder })
    t.match(await roll(running, 'begin'), {
      status: 422,
      body: { code: 'CERT_ROLL_ROOT', detail: /put one there that your new root has signed/ },
    })
    await running.close()
  }
})

t.test('a compromised root is left at once, without a cross certificate', async (t) => {
  const running = await start(t)
  await roll(running, 'begin', { cross: false })
  const roles = (await running.service.store.listAuthorities()).map(({ role }) => role)
  t.notOk(roles.includes('cross'))
  await roll(running, 'use', { now: true })
  const { body } = await running.call('POST', '/api/certificate', { domain: 'a.test' })
  t.strictSame(subjectsOf(body.certificate), ['CN=a.test', SERVERS])
  await roll(running, 'finish', { force: true, forgetKey: true })
  t.strictSame((await published(running))[0], [B])
})

t.test(
  'the second roll numbers on, and says whom its only cross certificate cuts off',
  async (t) => {
    const running = await start(t)
    const { call, clock } = running
    const chainOf = async (domain: string) => {
      const { body } = await call('POST', '/api/certificate', { domain })
      return subjectsOf(body.certificate).slice(1)
    }
    await roll(running, 'begin')
    await roll(running, 'use', { now: true })
    t.strictSame(await chainOf('a.test'), [SERVERS, B])
    const first = await roll(running, 'finish', { force: true })
    t.match(first.body, { stage: 'finished', lostRoot: undefined })

    const begun = await roll(running, 'begin')
    const lostRoot = { subject: `CN=Gatehouse ${A}` }
    t.match(begun.body, { to: { subject: 'CN=Gatehouse Root CA 3' }, lostRoot })
    t.strictSame(await chainOf('b.test'), [SERVERS, B], 'nobody is cut off yet')
    await clock.advance(14 * DAY)
    t.match(await roll(running, 'use'), {
      status: 409,
      body: { detail: `it cuts off whoever trusts only CN=Gatehouse ${A}` },
    })
    t.match(await roll(running, 'use', { now: true }), { status: 200, body: { lostRoot } })
    t.strictSame(await chainOf('c.test'), [SERVERS, 'Root CA 3'])
    await roll(running, 'back')
    t.strictSame(await chainOf('d.test'), [SERVERS, B], 'they are served again')
    await roll(running, 'use', { now: true })
    t.match((await roll(running, 'finish', { force: true })).body, { stage: 'finished' })
    t.strictSame((await published(running))[0], ['Root CA 3'])
  },
)

t.test(
  'without a cross certificate, and once the first one has ended, nobody is named',
  async (t) => {
    const cut = await start(t)
    await roll(cut, 'begin')
    await roll(cut, 'use', { now: true })
    await roll(cut, 'finish', { force: true })
    t.match((await roll(cut, 'begin', { cross: false })).body, {
      stage: 'begun',
      lostRoot: undefined,
    })
    await cut.clock.advance(14 * DAY)
    t.match(await roll(cut, 'use'), { status: 200 }, 'its operator has said so')

    const later = await start(t)
    await later.clock.advance(9 * 365 * DAY)
    await roll(later, 'begin')
    await roll(later, 'use', { now: true })
    await roll(later, 'finish', { force: true })
    await later.clock.advance(400 * DAY)
    const begun = await roll(later, 'begin')
    t.match(begun.body, { stage: 'begun', lostRoot: undefined }, 'the first root has ended')
    t.strictSame(begun.body.from.subject, `CN=Gatehouse ${B}`)
  },
)

t.test(
  'a roll that was begun with a wrong root is cancelled, and leaves nothing behind',
  async (t) => {
    const running = await start(t)
    const files = async () => {
      const paths = ['/ca/root.pem', '/ca/clients.pem', '/ca/intermediate.pem']
      return Promise.all(paths.map(async (path) => (await running.app.inject(path)).body))
    }
    const chainOf = async (domain: string) => {
      const { body } = await running.call('POST', '/api/certificate', { domain })
      return subjectsOf(body.certificate)
    }
    const before = await files()
    await roll(running, 'begin')
    t.notSame(await files(), before)
    t.match((await roll(running, 'cancel')).body, {
      stage: 'none',
      from: { subject: `CN=Gatehouse ${A}` },
    })
    t.match(await roll(running, 'cancel'), { status: 200, body: { stage: 'none' } }, 'again')
    t.same(await files(), before)
    t.strictSame(await chainOf('a.test'), ['CN=a.test', SERVERS])
    for (const step of ['use', 'back', 'finish'])
      t.match(await roll(running, step), { status: 409, body: { code: 'CERT_ROLL_REFUSED' } }, step)

    t.match(await roll(running, 'begin'), {
      status: 200,
      body: { stage: 'begun', to: { subject: `CN=Gatehouse ${A} 3` } },
    })
    await roll(running, 'use', { now: true })
    t.strictSame(await chainOf('b.test'), ['CN=b.test', SERVERS, `${A} 3`])
    await roll(running, 'back')
    t.match(await roll(running, 'cancel'), {
      status: 409,
      body: {
        detail: /1 certificates below the new root are in force .* renew --under [0-9a-f]{40}/,
      },
    })
    await roll(running, 'use', { now: true })
    t.match((await roll(running, 'finish', { force: true })).body, { stage: 'finished' })
  },
)

t.test('clocks that are behind or ahead', async (t) => {
  const running = await start(t)
  const { clock } = running
  await clock.advance(DAY)
  await roll(running, 'begin')
  clock.shift(-DAY)
  t.match((await roll(running, 'use', { now: true })).body, {
    code: 'CERT_ROLL_ROOT',
    detail: 'CN=Gatehouse Root CA 2 has ended, or has not begun by our clock',
  })
  t.match((await roll(running, 'use')).body, { detail: 'it is possible from 2030-01-16T00:00:00Z' })
  clock.shift(DAY)
  await roll(running, 'use', { now: true })
  clock.shift(-DAY)
  t.match((await roll(running, 'finish')).body.detail, /^it is possible from 2030-02-01/)
  t.match((await roll(running, 'back')).body, { stage: 'begun' })
  clock.shift(3653 * DAY)
  t.match((await roll(running, 'use')).body, { code: 'CERT_ROLL_ROOT' }, 'both have ended')
})

t.test('a root that allows one authority below it signs no cross certificate', async (t) => {
  const folder = testFolder(t)
  const root = await writeAuthority(folder, 'root', limitedRoot('Short', 1))
  const running = await start(t, { ca: { root } }, { folder })
  const next = pemOf(await createRoot({ commonName: 'Next', now: NOW }))
  t.match(await roll(running, 'begin', next), {
    status: 422,
    body: { detail: 'CN=Short may not sign a cross certificate (PKI_CA_PATH_LENGTH)' },
  })
  t.match(await roll(running, 'begin', { ...next, cross: false }), { status: 200 })
})

/** The stages, each with the steps that lead there and what is true of it. */
const STAGES = [
  ['none', [], A, [A]],
  ['begun', ['begin'], A, [A, B]],
  ['used', ['begin', 'use'], B, [B, A]],
  ['begun', ['begin', 'use', 'back'], A, [A, B]],
  ['finished', ['begin', 'use', 'finish'], B, [B]],
] as const
const BY_FORCE: Readonly<Record<string, object>> = { use: { now: true }, finish: { force: true } }

for (const [stage, steps, signing, roots] of STAGES)
  t.test(`a backup of the stage ${stage} after ${steps.join(', ')}`, async (t) => {
    const folder = testFolder(t)
    const running = await start(t, {}, { folder })
    const issueClients = ({ call }: Running, domain: string) =>
      call('POST', '/api/certificate', { domain, profile: 'client' })
    await issueClients(running, 'ada@a.test')
    for (const step of steps) await roll(running, step, BY_FORCE[step])
    const before = await published(running)
    const file = join(folder, 'copy.db')
    await backup({ folder: join(folder, 'data'), file, say() {} })
    await running.close()
    await rm(join(folder, 'data'), { recursive: true })
    await restore({ folder: join(folder, 'data'), file, forget: true, callers: [], say() {} })

    const again = await start(t, {}, { folder, clock: running.clock })
    t.strictSame(await published(again), before)
    t.strictSame(before[0], roots)
    t.match((await again.call('GET', '/api/ca/roll')).body, { stage })
    const cross = signing === B ? [B] : []
    const { body } = await again.call('POST', '/api/certificate', { domain: 'b.test' })
    t.strictSame(subjectsOf(body.certificate).slice(1), [SERVERS, ...cross])
    const client = await issueClients(again, 'bob@a.test')
    t.strictSame(subjectsOf(client.body.certificate).slice(1), [CLIENTS, ...cross])
    const lists = (await again.app.inject('/ca/clients.crl.pem')).body
    const issuers = steps.length === 0 ? 2 : 4
    t.equal(lists.match(/BEGIN X509 CRL/g)?.length, issuers, 'a list of each root and intermediate')
    t.strictSame(again.service.ca.degraded(), [])
  })

t.test('a step that was cut off is taken again, or was taken', async (t) => {
  expectWarnings(t, 'INTERNAL request refused')
  const folder = testFolder(t)
  const running = await start(t, {}, { folder })
  const { store } = running.service
  const { beginRoll, changeRoll } = store
  const cut = async (method: 'beginRoll' | 'changeRoll', isWritten: boolean) => {
    const write = { beginRoll, changeRoll }[method] as (...all: unknown[]) => Promise<boolean>
    Object.assign(store, {
      async [method](...all: unknown[]) {
        if (isWritten) await write(...all)
        throw new Error('cut off')
      },
    })
  }
  const heal = () => Object.assign(store, { beginRoll, changeRoll })
  for (const [step, method, stage] of [
    ['begin', 'beginRoll', 'begun'],
    ['use', 'changeRoll', 'used'],
    ['back', 'changeRoll', 'begun'],
    ['use', 'changeRoll', 'used'],
    ['finish', 'changeRoll', 'finished'],
  ] as const) {
    const { stage: before } = (await running.call('GET', '/api/ca/roll')).body
    cut(method, false)
    t.equal((await roll(running, step, BY_FORCE[step])).status, 500, step)
    t.equal((await running.call('GET', '/api/ca/roll')).body.stage, before, 'nothing was written')
    cut(method, true)
    t.equal((await roll(running, step, BY_FORCE[step])).status, 500)
    heal()
    t.equal((await running.call('GET', '/api/ca/roll')).body.stage, stage, 'all was written')
    const again = await roll(running, step, BY_FORCE[step])
    t.match(again, step === 'begin' ? { status: 409 } : { status: 200, body: { stage } }, step)
    const { body } = await running.call('POST', '/api/certificate', { domain: `${stage}.test` })
    t.ok(body.certificate)
  }
  t.equal((await store.listAuthorities()).length, 5, 'no root was made twice')
})

t.test('the key of the root that signs is the one to be moved offline', async (t) => {
  for (const [, steps, signing] of STAGES) {
    const folder = testFolder(t)
    const running = await start(t, {}, { folder })
    for (const step of steps) await roll(running, step, BY_FORCE[step])
    await running.close()
    const { path, masterKeyFile } = running.config.storage
    const file = join(folder, 'root.key')
    await detachRoot({ path, masterKeyFile, file })
    const again = await start(t, {}, { folder, clock: running.clock })
    const rows = await again.service.store.listAuthorities()
    const row = rows.find(({ role, sealedKey }) => role === 'root' && sealedKey === null)
    t.strictSame(subjectsOf(toPem('CERTIFICATE', row!.certificate)), [signing], steps.join())
    await again.close()
  }
})

t.test('clients of ACME may choose a chain', async (t) => {
  const running = await startAcme(t)
  const { client } = running
  const chainsOf = async (name: string) => {
    const order = await client.order([name])
    const { body } = await client.finalize(order, [name])
    const answer = await client.post(body.certificate)
    const links = [answer.headers.link].flat().map(String)
    const urls = links.flatMap((link) => /<(.*)>;rel="alternate"/.exec(link)?.[1] ?? [])
    const others = await Promise.all(urls.map((url) => client.post(url)))
    const absent = await client.post(`${body.certificate}/${urls.length + 1}`)
    t.equal(absent.status, 404)
    return [answer, ...others].map(({ text }) => subjectsOf(text).slice(1))
  }
  t.strictSame(await chainsOf('a.example.com'), [[SERVERS], [SERVERS, A]])
  await roll(running, 'begin')
  t.strictSame(await chainsOf('b.example.com'), [[SERVERS], [SERVERS, A]])
  await roll(running, 'use', { now: true })
  const crossed = [[SERVERS, B], [SERVERS, B], [SERVERS]]
  t.strictSame(await chainsOf('c.example.com'), crossed, 'with BxA, with B itself, or with neither')
  await roll(running, 'finish', { force: true })
  t.strictSame(await chainsOf('d.example.com'), crossed)
})

t.test('callers with certificates of either root are admitted at every stage', async (t) => {
  const mtls = { callers: [{ name: 'agent', dns: 'agent.test', domains: ['a.test'] }] }
  const running = await start(
    t,
    { auth: { psk: { key: KEY }, mtls }, server: { host: '127.0.0.1', port: 0 } },
    { clock: leapClock(Date.now()), tls: true },
  )
  await running.app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = running.app.server.address() as AddressInfo
  const pairs = [await issueClient(running.service, ['agent.test'], { withChain: true })]
  let before = await servedChain(port)
  for (const step of ['begin', 'use', 'back', 'use', 'finish']) {
    t.equal((await roll(running, step, BY_FORCE[step])).status, 200, step)
    pairs.push(await issueClient(running.service, ['agent.test'], { withChain: true }))
    for (const pair of pairs) {
      const { status, body } = await askOverTls(port, '/api/certificates', pair)
      t.equal(status, 200, `${step}: ${body}`)
    }
    const chain = await servedChain(port)
    const isNew = step === 'use' || step === 'back'
    t.equal(
      chain[0]?.fingerprint256 !== before[0]?.fingerprint256,
      isNew,
      `${step}: own certificate`,
    )
    const { stage } = (await running.call('GET', '/api/ca/roll')).body
    t.equal(chain.length, stage === 'begun' ? 2 : 3)
    before = chain
  }
})

/** What a server sends, as `ca: []` adds nothing of this side. */
async function servedChain(port: number): Promise<readonly X509Certificate[]> {
  const socket = connect({ port, host: '127.0.0.1', ca: [], rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const chain: X509Certificate[] = []
  let certificate: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
  while (certificate?.raw) {
    chain.push(new X509Certificate(certificate.raw))
    const { issuerCertificate }: DetailedPeerCertificate = certificate
    certificate = issuerCertificate === certificate ? undefined : issuerCertificate
  }
  socket.destroy()
  return chain
}
