import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { backup, restore } from '../../src/backup/backup.ts'
import { openSqliteStore } from '../../src/engines/sqlite.ts'
import type { ServedAccount, ServedOrder } from '../../src/port/store.ts'
import { openKeyring, replaceMasterKey } from '../../src/sealing/master-key.ts'
import { CHAIN, NOW, newAudit, newCertificate, newOrder } from '../helpers/store.ts'

const ROOT = {
  role: 'root',
  certificate: randomBytes(300),
  sealedKey: null,
  notAfter: NOW,
} as const
const CA_ACCOUNT = { directory: 'dir', nextKey: null, url: null, contact: null }
const ISO = new Date(NOW).toISOString()

function newAccount(id: string): ServedAccount {
  const of = { caller: 'web', contact: [], client: null, remoteAddress: null }
  const at = { createdAt: NOW, usedAt: NOW }
  return {
    id,
    thumbprint: `key of ${id}`,
    jwk: '{}',
    status: 'valid',
    boundBy: 'digest',
    ...of,
    ...at,
  }
}

const OPEN: ServedOrder = {
  ...{ id: 'open', account: 'one', wanted: 'a', names: ['a.example'], profile: 'server' },
  ...{ profileName: null, replaces: null, notAfter: null, status: 'ready', proofs: null },
  ...{ csr: null, fingerprint: null, error: null, at: NOW, expiresAt: NOW + 86_400_000 },
}

type Opened = Awaited<ReturnType<typeof opening>>

async function opening(folder: string, masterKeyFile: string) {
  const store = await openSqliteStore({ folder })
  const keyring = await openKeyring({ folder, masterKeyFile, store })
  const issue = (domain: string, more = {}) => {
    const certificate = randomBytes(300)
    const sealedKey = keyring.seal('leaf', Buffer.from(domain), certificate)
    const names = [domain, `www.${domain}`]
    return store.addCertificate(
      newCertificate({ names, certificate, sealedKey, ...more }),
      newAudit(),
    )
  }
  const current = async (domain: string) =>
    (await store.list({ after: 0, limit: 100 })).find(({ names }) => names[0] === domain)
  return { folder, store, keyring, issue, current }
}

/** A store with a backup, and what follows it. Then the store lies in `before`, and its folder is empty. */
async function lost(t: Test, change: (opened: Opened) => Promise<unknown>) {
  const base = testFolder(t)
  const [folder, before, file] = ['data', 'before', 'copy.db'].map((name) => join(base, name)) as [
    string,
    string,
    string,
  ]
  const masterKeyFile = join(base, 'master.key')
  const opened = await opening(folder, masterKeyFile)
  const { store, issue } = opened
  for (const domain of ['a.example', 'b.example']) await issue(domain)
  await store.saveOrder(newOrder({ requestKey: 'under way', names: ['c.example'] }))
  await store.changeUsage(['caller names psk:web'], (usage) => usage.set('caller names psk:web', 3))
  const sealedKey = opened.keyring.seal('account', Buffer.from('old'), Buffer.from('dir'))
  await store.addAccount({ ...CA_ACCOUNT, sealedKey })
  await store.addAuthority(ROOT, null)
  await store.replaceCrl(authority, NOW, () => crl(5n))
  for (const id of ['one', 'two']) await store.acme.addAccount(newAccount(id), newAudit())
  await store.acme.addOrder(OPEN)
  await store.addSignIn({ id: 'session', keySha256: Buffer.of(1), openedAt: NOW, usedAt: NOW })
  await backup({ folder, file })
  await change(opened)
  await store.close()
  renameSync(folder, before)
  const reopen = async () => {
    const again = await opening(folder, masterKeyFile)
    t.teardown(() => again.store.close().catch(() => {}))
    return again
  }
  return { folder, file, before, masterKeyFile, reopen, store: join(before, 'store.db') }
}

const crl = (number: bigint) => ({
  authorityId: 1,
  number,
  crl: Buffer.from(`list ${number}`),
  thisUpdate: NOW,
  nextUpdate: NOW,
  entries: '',
})
const authority = { id: 1, certificate: ROOT.certificate }
const idOf = async ({ current }: Opened, domain: string) => (await current(domain))?.id ?? 0

interface Case {
  change(opened: Opened): Promise<unknown>
  check(t: Test, opened: Opened): Promise<unknown>
}

const taken: Readonly<Record<string, Case>> = {
  'an account that ended': {
    change: ({ store }) => store.acme.endAccount('one', 'deactivated', newAudit()),
    async check(t, { store }) {
      t.match(await store.acme.findAccount('one'), { status: 'deactivated' })
      t.match(await store.acme.findAccount('two'), { status: 'valid' })
    },
  },
  'the key of a caller that was replaced twice': {
    async change({ store }) {
      for (let i = 0; i < 2; i++)
        await store.acme.renewExternalAccount(
          { names: ['web'], digests: [], kept: ['two'] },
          newAudit(),
        )
    },
    async check(t, { store }) {
      t.equal(await store.acme.counterOf(['web']), 3)
      t.match(await store.acme.findAccount('one'), { status: 'revoked' })
    },
  },
  'no smaller number of a key': {
    async change({ folder, store }) {
      await store.acme.renewExternalAccount({ names: ['web'], digests: [], kept: [] }, newAudit())
      using other = new DatabaseSync(join(folder, '..', 'copy.db'))
      other.exec(`INSERT INTO external_accounts (caller, counter) VALUES ('web', 9)`)
    },
    check: async (t, { store }) => t.equal(await store.acme.counterOf(['web']), 9),
  },
  'no other reason of a revocation': {
    async change(opened) {
      const { folder, store } = opened
      await store.revoke([await idOf(opened, 'a.example')], NOW + 1, 'keyCompromise', newAudit())
      using other = new DatabaseSync(join(folder, '..', 'copy.db'))
      other.exec(`UPDATE certificates SET revoked_at = ${NOW}, revocation_reason = 'superseded',
        is_current = 0 WHERE domain = 'a.example'`)
    },
    check: async (t, { store }) =>
      t.match(await store.listRevoked(CHAIN[0]!, NOW), [{ reason: 'superseded', revokedAt: NOW }]),
  },
  'a new account': {
    change: ({ store }) => store.acme.addAccount(newAccount('three'), newAudit()),
    check: async (t, { store }) =>
      t.match(await store.acme.findAccount('three'), { status: 'valid' }),
  },
  'a revoked certificate': {
    change: async (opened) =>
      opened.store.revoke([await idOf(opened, 'a.example')], NOW, 'superseded', newAudit()),
    async check(t, { store, current }) {
      t.equal(await current('a.example'), undefined)
      t.match(await store.listRevoked(CHAIN[0]!, NOW), [{ reason: 'superseded', revokedAt: NOW }])
      t.ok(await current('b.example'))
    },
  },
  'a certificate that the backup does not know, revoked': {
    async change(opened) {
      const { id } = await opened.issue('c.example', { serialNumber: 'c0ffee' })
      await opened.store.revoke([id], NOW, 'keyCompromise', newAudit())
    },
    async check(t, { store, current }) {
      t.equal(await current('c.example'), undefined)
      t.match(await store.listRevoked(CHAIN[0]!, NOW), [{ serialNumber: 'c0ffee' }])
    },
  },
  'a certificate that was deleted': {
    change: async (opened) => opened.store.remove([await idOf(opened, 'a.example')], newAudit()),
    check: async (t, { current }) => t.equal(await current('a.example'), undefined),
  },
  'a certificate that was renewed, and a new one': {
    async change({ issue }) {
      await issue('a.example', { serialNumber: 'a2' })
      await issue('d.example')
    },
    async check(t, { store, keyring, current }) {
      for (const domain of ['a.example', 'd.example']) {
        const { sealedKey, certificate } = (await current(domain))!
        t.equal(keyring.open(sealedKey!, certificate).toString(), domain)
      }
      t.match(await current('a.example'), { serialNumber: 'a2' })
      t.equal((await store.list({ after: 0, limit: 9 })).length, 3)
    },
  },
  'an order that has ended, as its certificate was revoked': {
    async change({ store, issue }) {
      const { id } = await issue('c.example', { requestKey: 'under way' })
      await store.revoke([id], NOW, 'keyCompromise', newAudit())
    },
    check: async (t, { store }) => t.strictSame(await store.listPendingOrders(), []),
  },
  'an order that failed, and one that goes on with its key': {
    async change({ store, keyring }) {
      const order = newOrder({ requestKey: 'under way', names: ['c.example'] })
      await store.saveOrder({ ...order, status: 'failed', failures: 3, nextTryAt: NOW + 1 })
      const sealedKey = keyring.seal('leaf', Buffer.from('key'), Buffer.from('next'))
      const checkpoint = { state: { step: 'created' }, sealedKey }
      await store.saveOrder(newOrder({ id: 'next', requestKey: 'next', checkpoint }))
    },
    async check(t, { store, keyring }) {
      t.match(await store.findOrderByRequestKey('under way'), { failures: 3, nextTryAt: NOW + 1 })
      const { sealedKey } = (await store.findOrder('next'))!.checkpoint!
      t.equal(keyring.open(sealedKey!, Buffer.from('next')).toString(), 'key')
    },
  },
  'an order of a client that has ended': {
    async change({ store }) {
      await store.acme.endOrder('open', { error: {} })
    },
    check: async (t, { store }) =>
      t.match(await store.acme.findOrder('open'), { status: 'invalid' }),
  },
  'what callers and CAs have been asked for since': {
    async change({ store }) {
      await store.changeUsage(['caller names psk:web', 'caller psk:web'], (usage) => {
        usage.set('caller names psk:web', 0)
        usage.set('caller psk:web', NOW + 7)
      })
    },
    async check(t, { store }) {
      const keys = ['caller names psk:web', 'caller psk:web']
      const used = await store.changeUsage(keys, (usage) => keys.map((key) => usage.until(key)))
      t.strictSame(used, [0, NOW + 7], 'names are counted anew')
    },
  },
  'the key that a CA has taken for its account': {
    async change({ store, keyring }) {
      const sealedKey = keyring.seal('account', Buffer.from('new'), Buffer.from('dir'))
      await store.saveAccount({ ...CA_ACCOUNT, sealedKey })
    },
    async check(t, { store, keyring }) {
      const { sealedKey } = (await store.findAccount('dir'))!
      t.equal(keyring.open(sealedKey, Buffer.from('dir')).toString(), 'new')
    },
  },
  'a key that was compromised': {
    async change({ folder }) {
      using other = new DatabaseSync(join(folder, 'store.db'))
      other.exec(`INSERT INTO compromised_keys (spki_sha256, at) VALUES ('leaked', 1)`)
    },
    check: async (t, { store }) => t.ok(await store.isCompromised('leaked')),
  },
  'a revocation list with a larger number': {
    change: ({ store }) => store.replaceCrl(authority, NOW, () => crl(10n)),
    check: async (t, { store }) => t.equal((await store.findCrl(1))?.number, 10n),
  },
  'a roll from one root to the next, with the new root': {
    async change({ store, keyring }) {
      const certificate = randomBytes(300)
      const sealedKey = keyring.seal('root', Buffer.from('key'), certificate)
      const next = { role: 'root', certificate, sealedKey, notAfter: NOW } as const
      await store.beginRoll([next], { fromRoot: 1, begunAt: NOW }, newAudit())
      const [roll] = await store.listRolls()
      await store.changeRoll(roll!, { stage: 'used', usedAt: NOW }, newAudit())
    },
    async check(t, { store }) {
      const [next] = await store.listAuthorities()
      const roll = { fromRoot: 1, toRoot: next?.id, stage: 'used', begunAt: NOW, usedAt: NOW }
      t.match(await store.listRolls(), [roll])
    },
  },
  'a root whose key is offline': {
    change: ({ store }) => store.dropAuthorityKey(1),
    check: async (t, { store }) => t.match(await store.listAuthorities(), [{ sealedKey: null }]),
  },
  'the audit trail': {
    change: ({ store }) => store.addAudit([newAudit({ at: NOW + 1, detail: 'the last' })]),
    check: async (t, { store }) =>
      t.match(await store.listAudit({ limit: 1 }), [{ detail: 'the last' }]),
  },
}
for (const [what, { change, check }] of Object.entries(taken))
  t.test(`a restore takes over ${what}`, async (t) => {
    const { folder, file, before, reopen } = await lost(t, change)
    const restored = await restore({ folder, file, over: before })
    t.same(restored, { asOf: ISO, renewsKeys: false })
    t.same(readdirSync(folder).sort(), ['lock.db', 'store.db'])
    const opened = await reopen()
    await check(t, opened)
    t.notOk(await opened.store.findSignIn('session'), 'nobody is signed in')
  })

t.test('a restore of a store whose master key was replaced since', async (t) => {
  const { folder, file, before, masterKeyFile, store } = await lost(
    t,
    async ({ folder, store, issue, current }) => {
      await issue('a.example', { serialNumber: 'a2' })
      await issue('c.example', { serialNumber: 'c2' })
      await store.revoke([(await current('b.example'))?.id ?? 0], NOW, 'superseded', newAudit())
      const masterKey = join(folder, '..', 'master.key')
      copyFileSync(masterKey, `${masterKey}.old`)
      await replaceMasterKey(store, masterKey)
    },
  )
  t.ok(store)
  await restore({ folder, file, over: before })
  const again = await opening(folder, `${masterKeyFile}.old`)
  t.teardown(() => again.store.close())
  const { sealedKey, certificate } = (await again.current('a.example'))!
  t.equal(
    again.keyring.open(sealedKey!, certificate).toString(),
    'a.example',
    'the one of the backup',
  )
  t.equal(await again.current('b.example'), undefined, 'what was revoked stays so')
  t.equal(await again.current('c.example'), undefined, 'whose key does not open')
  t.match(await again.store.listHistory('c.example'), [{ serialNumber: 'c2', isCurrent: false }])
})

const used = async ({ store, issue }: Opened) => {
  await issue('c.example')
  await store.acme.renewExternalAccount({ names: ['web'], digests: [], kept: [] }, newAudit())
}
const damages: [what: string, tables: RegExp, damage: (store: string) => void][] = [
  ['is cut short', /data_keys.*certificates/, (store) => truncateSync(store, 8192)],
  ['is empty', /data_keys.*certificates/, (store) => truncateSync(store, 0)],
  ['is no database', /data_keys.*certificates/, (store) => writeFileSync(store, 'x'.repeat(9999))],
  ['lacks a table', /in compromised_keys,/, (store) => run(store, 'DROP TABLE compromised_keys')],
  [
    'lacks a column',
    /in external_accounts,/,
    (store) => run(store, 'ALTER TABLE external_accounts DROP COLUMN counter'),
  ],
  ['has a damaged page', /in served_accounts,/, (store) => harm(store, 'served_accounts')],
]
for (const [what, message, damage] of damages)
  t.test(`a store that ${what} is taken over as far as it can be read`, async (t) => {
    const { folder, file, before, store, reopen } = await lost(t, used)
    damage(store)
    const over = before
    await t.rejects(restore({ folder, file, over }), { code: 'CERT_BACKUP_REFUSED', message })
    t.same(readdirSync(folder), ['lock.db'], 'and nothing was restored')
    await restore({ folder, file, over, forget: true })
    const opened = await reopen()
    t.ok(await opened.current('a.example'))
    const isPartial = /^in /.test(message.source)
    t.equal((await opened.current('c.example')) !== undefined, isPartial)
    t.not(await opened.store.acme.counterOf(['web']), 1, 'no old key counts')
  })

t.test('a store of a newer version is taken over', async (t) => {
  const { folder, file, before, store, reopen } = await lost(t, used)
  run(
    store,
    `INSERT INTO schema_versions VALUES (99, ''); ALTER TABLE certificates ADD COLUMN more TEXT`,
  )
  t.match(await restore({ folder, file, over: before }), { renewsKeys: false })
  const opened = await reopen()
  t.ok(await opened.current('c.example'))
  t.equal(await opened.store.acme.counterOf(['web']), 2)
})

t.test('what a restore refuses to take over', async (t) => {
  const { folder, file, before, store } = await lost(t, used)
  const other = `${store}.other`
  copyFileSync(store, other)
  run(other, 'UPDATE authorities SET certificate = randomblob(300)')
  const foreign = { code: 'CERT_BACKUP_REFUSED', message: /another CA/ }
  await t.rejects(restore({ folder, file, over: other }), foreign)
  await t.rejects(restore({ folder, file, over: join(before, 'none') }), {
    code: 'STORE_MISSING',
  })
  const user = await opening(before, join(before, '..', 'master.key'))
  await t.rejects(restore({ folder, file, over: before }), { code: 'STORE_LOCKED' })
  await user.store.close()
  t.match(await restore({ folder, file, over: store }), { renewsKeys: false }, 'a file alone')
})

t.test('without the store that it replaces, a backup forgets', async (t) => {
  const { folder, file, reopen } = await lost(t, used)
  const message = `The backup is of ${ISO}. Nothing says what was taken back since then`
  await t.rejects(restore({ folder, file }), { code: 'CERT_BACKUP_REFUSED', message })
  t.same(readdirSync(folder), ['lock.db'])
  const forgetting = { folder, file, forget: true, callers: ['mail'] }
  t.same(await restore(forgetting), { asOf: ISO, renewsKeys: true })
  const { store } = await reopen()
  t.match(await store.findCrl(1), { number: 5n, entries: null }, 'a list that is made anew')
  for (const caller of ['web', 'mail'])
    t.ok((await store.acme.counterOf([caller])) > 1e9, 'no key that there was is valid again')
  t.match(await store.acme.findAccount('one'), { status: 'valid' }, 'accounts go on')
  t.notOk(await store.findSignIn('session'))
})

t.test('a backup of a store in which nothing was issued has nothing to forget', async (t) => {
  const base = testFolder(t)
  const [folder, file] = [join(base, 'data'), join(base, 'copy.db')]
  const { store } = await opening(folder, join(base, 'master.key'))
  await backup({ folder, file })
  await store.close()
  const restored = await restore({ folder: join(base, 'again'), file })
  t.same(restored, { asOf: 'an unknown time', renewsKeys: false })
})

function run(file: string, sql: string): void {
  using sqlite = new DatabaseSync(file)
  sqlite.exec(sql)
}

/** Writes over the first page of a table. */
function harm(file: string, table: string): void {
  const sqlite = new DatabaseSync(file)
  const page = Number(
    sqlite.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(table)?.rootpage,
  )
  sqlite.close()
  const bytes = readFileSync(file)
  bytes.fill(7, (page - 1) * 4096, page * 4096)
  writeFileSync(file, bytes)
}
