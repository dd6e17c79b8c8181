import { constants, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'
import {
  fromPem,
  generateKeyPair,
  generateP256,
  type KeyType,
  parseCertificate,
} from '@gatehouse/pki'
import t from 'tap'
import { changeKey } from '../../../../packages/acme/src/protocol/account.ts'
import { bindExternalAccount } from '../../../../packages/acme/src/protocol/jws.ts'
import { renewalId } from '../../../../packages/acme/src/protocol/renewal-info.ts'
import {
  bits,
  contextPrimitive,
  type Der,
  integer,
  NULL,
  octets,
  oid,
  sequence,
  set,
  utf8,
} from '../../../../packages/pki/src/der.ts'
import {
  commonName,
  dns,
  request,
  requested,
  san,
} from '../../../../packages/pki/test/csr-helpers.ts'
import { type AcmeAnswer, AcmeClient, newKey } from '../helpers/acme-client.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { DAY, NOW } from '../helpers/app.ts'

// What ACME clients really send, with where that is known from, and what is right.

const PROBLEM = 'urn:ietf:params:acme:error:'
const NAMES = ['a.example.com']
const ZERO = '0001-01-01T00:00:00Z'
const at = (ms: number) => new Date(ms).toISOString().replace('.000', '')

interface Sent {
  readonly client: string
  /** A repository and its issue, or its source. */
  readonly source: string
}

const ORDERS: readonly (Sent & { readonly sends: object; readonly right: object })[] = [
  {
    client: 'Caddy 2.11, CertMagic, acmez',
    source: 'caddyserver/caddy#5985',
    sends: {
      ...{ status: '', expires: ZERO, notBefore: ZERO, notAfter: ZERO },
      ...{ authorizations: null, finalize: '', certificate: '' },
    },
    right: { status: 201, body: { status: 'ready', notAfter: undefined } },
  },
  {
    client: 'cert-manager 1.21 without enableDurationFeature',
    source: 'cert-manager/cert-manager#7536',
    sends: { notBefore: ZERO, notAfter: ZERO },
    right: { status: 201, body: { notAfter: undefined } },
  },
  {
    client: 'cert-manager 1.21, enableDurationFeature and duration: 48h',
    source: 'cert-manager/cert-manager#3347',
    sends: { notAfter: at(NOW + 2 * DAY) },
    right: { status: 201, body: { notAfter: at(NOW + 2 * DAY) } },
  },
  {
    client: 'acme.sh 3.1 --valid-to +6d',
    source: 'acmesh-official/acme.sh, _convertValidaty',
    sends: { notAfter: at(NOW + 6 * DAY) },
    right: { status: 201, body: { notAfter: at(NOW + 6 * DAY) } },
  },
  {
    client: 'acme.sh 3.1 --valid-to +30d, for certificates of a week',
    source: 'acmesh-official/acme.sh, _convertValidaty',
    sends: { notAfter: at(NOW + 30 * DAY) },
    right: { status: 400, body: { type: `${PROBLEM}malformed`, detail: /at the latest$/ } },
  },
  {
    client: 'lego 5 --not-after',
    source: 'go-acme/lego, OrderOptions',
    sends: { notAfter: '2030-01-03T02:00:00+02:00', profile: 'server' },
    right: { status: 201, body: { notAfter: '2030-01-03T00:00:00Z', profile: 'server' } },
  },
  {
    client: 'dehydrated 0.8 with an ORDER_LIFETIME',
    source: 'dehydrated-io/dehydrated#932',
    sends: { notAfter: at(NOW + DAY) },
    right: { status: 201, body: { notAfter: at(NOW + DAY) } },
  },
  {
    client: 'win-acme 2.2, which sends the end as the beginning',
    source: 'win-acme/win-acme#2628',
    sends: { notBefore: at(NOW + 6 * DAY) },
    right: { status: 400, body: { type: `${PROBLEM}malformed`, detail: /`notAfter`$/ } },
  },
  {
    client: 'Proxmox VE, acme.sh and uacme, with nothing else',
    source: 'pimox/proxmox-acme, PVE/ACME.pm',
    sends: {},
    right: { status: 201, body: { status: 'ready', profile: 'server' } },
  },
  {
    client: 'HAProxy 3.5 and nginx-acme 0.4 with a profile',
    source: 'haproxy/haproxy, src/acme.c; nginx/nginx-acme, src/acme/request.rs',
    sends: { profile: 'server' },
    right: { status: 201, body: { profile: 'server' } },
  },
  {
    client: 'HAProxy 3.5 with the profile of another CA, which it does not check',
    source: 'haproxy/haproxy, src/acme.c',
    sends: { profile: 'shortlived' },
    right: { status: 400, body: { type: `${PROBLEM}invalidProfile` } },
  },
  {
    client: 'Posh-ACME 4.32 -LifetimeDays 6, with both ends, the first of which is now',
    source: 'rmbolger/Posh-ACME, New-PAOrder.ps1',
    sends: { notBefore: at(NOW), notAfter: at(NOW + 6 * DAY) },
    right: { status: 201, body: { notAfter: at(NOW + 6 * DAY) } },
  },
  {
    client: 'simple-acme with DefaultValidDays, to the hour',
    source: 'simple-acme/simple-acme, OrderManager.cs',
    sends: { notAfter: at(NOW + 5 * DAY) },
    right: { status: 201, body: { notAfter: at(NOW + 5 * DAY) } },
  },
  {
    client: 'mod_md 2.6, which renews what it does not have from us',
    source: 'icing/mod_md#375',
    sends: { replaces: 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE' },
    right: { status: 201, body: { replaces: 'aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE' } },
  },
]

t.test('orders', async (t) => {
  for (const { client: name, source, sends, right } of ORDERS) {
    const { client } = await startAcme(t)
    t.match(await client.order(NAMES, sends), right, `${name} (${source})`)
  }
})

const CONTACT = ['mailto:ops@example.com']
const ACCOUNTS: readonly (Sent & {
  /** What is sent at newAccount, and then to the account. */
  readonly sends: object
  readonly later?: object
  readonly contact: readonly string[]
})[] = [
  {
    client: 'certbot 5.8 register --email, show_account',
    source: 'certbot/certbot, account.py',
    sends: { contact: CONTACT, termsOfServiceAgreed: true },
    contact: CONTACT,
  },
  {
    client: 'certbot 5.8 --register-unsafely-without-email',
    source: 'certbot/certbot, client.py',
    sends: { termsOfServiceAgreed: true },
    contact: [],
  },
  {
    client: 'Ansible community.crypto acme_account, changed once',
    source: 'ansible-collections/community.crypto, acme_account',
    sends: { contact: [], termsOfServiceAgreed: true },
    later: { contact: CONTACT },
    contact: CONTACT,
  },
  {
    client: 'acme.sh 3.1 --update-account',
    source: 'acmesh-official/acme.sh, updateaccount',
    sends: { contact: CONTACT },
    later: { contact: ['mailto:new@example.com'] },
    contact: ['mailto:new@example.com'],
  },
  {
    client: 'Caddy 2.6, with zero values',
    source: 'mholt/acmez, Account',
    sends: { contact: CONTACT, orders: '', status: '' },
    contact: CONTACT,
  },
  {
    client: 'nginx-acme 0.4 with a contact',
    source: 'nginx/nginx-acme, src/acme/request.rs',
    sends: { contact: CONTACT },
    contact: CONTACT,
  },
  {
    client: 'HAProxy 3.5',
    source: 'haproxy/haproxy, src/acme.c',
    sends: { contact: CONTACT, termsOfServiceAgreed: true },
    contact: CONTACT,
  },
  {
    client: 'Proxmox VE, which reads its account by an empty object',
    source: 'pimox/proxmox-acme, PVE/ACME.pm, get_account',
    sends: { contact: CONTACT, termsOfServiceAgreed: true },
    later: {},
    contact: CONTACT,
  },
  {
    client: 'Posh-ACME 4.32, lego 5 and uacme, which take their contacts back',
    source: 'rmbolger/Posh-ACME, Set-PAAccount.ps1; go-acme/lego, registar.go',
    sends: { contact: CONTACT, termsOfServiceAgreed: true },
    later: { contact: [] },
    contact: [],
  },
]

t.test('accounts keep what their clients compare', async (t) => {
  const { app, keyOf } = await startAcme(t)
  const key = await keyOf('web')
  for (const { client: name, source, sends, later, contact } of ACCOUNTS) {
    const client = new AcmeClient(app)
    const first = await client.register(key, sends)
    t.match(first, { status: 201, body: { status: 'valid' } }, `${name} (${source})`)
    if (later) await client.post(client.url, later)
    t.strictSame((await client.post(client.url)).body.contact, contact, name)
  }
})

const RSA = await generateKeyPair('rsa2048')

t.test('what is done once a certificate is there', async (t) => {
  const { client, clientOf } = await startAcme(t)
  const anew = await clientOf('web')
  const revoke = client.at('/acme/revoke-cert')
  const obtain = async (key = generateP256()) => {
    const order = await client.order(NAMES)
    const { body } = await client.finalize(order, NAMES, key)
    const [leaf] = fromPem((await client.post(body.certificate)).text, 'CERTIFICATE')
    return { order, finalized: body, leaf: leaf as Buffer, key }
  }
  const certificate = (leaf: Buffer, reason?: number) => ({
    certificate: leaf.toString('base64url'),
    ...(reason !== undefined && { reason }),
  })

  for (const [name, source, reason] of [
    [
      'certbot on a machine that was built anew, dehydrated, Posh-ACME',
      'certbot/certbot#1246',
      undefined,
    ],
    ['uacme, Proxmox VE, acme.sh, simple-acme', 'ndilieto/uacme, cert_revoke', 0],
    ['certbot revoke --reason keycompromise', 'certbot/certbot, constants.py', 1],
    ['lego revoke --reason 4', 'go-acme/lego, cmd_certificates_revoke.go', 4],
  ] as const) {
    const { leaf, key } = await obtain()
    const answer = await anew.post(revoke, certificate(leaf, reason))
    t.equal(answer.status, 200, `${name} (${source}): ${answer.text}`)
    t.equal(answer.text, '', 'acme.sh wants nothing in the answer')
    const again = await client.finalize(await client.order(NAMES), NAMES, key)
    t.equal(again.status, 200, 'an account says nothing for certain of a key')
  }
  const { leaf, key } = await obtain()
  const own = createPrivateKey({ key: key.pkcs8, format: 'der', type: 'pkcs8' })
  const other = await clientOf('other')
  t.equal((await other.post(revoke, certificate(leaf, 0))).status, 403, 'acme.sh, first by account')
  const byKey = await other.post(revoke, certificate(leaf, 0), { by: 'key', key: own })
  t.equal(byKey.status, 200, 'then, as autocert, Posh-ACME and certbot --key-path, by its key')

  const traefik = await obtain(RSA)
  t.match(parseCertificate(traefik.leaf).spki, RSA.spki, 'Traefik and uacme have RSA keys')
  const polled = await client.post(String(traefik.order.headers.location))
  t.match(polled.body, traefik.finalized, 'certbot, acme4j, mod_md and cert-manager ask once more')
  t.equal(
    (await client.post(client.at('/acme/directory'))).status,
    200,
    'pebble#291: by POST-as-GET',
  )
  const replaces = renewalId(traefik.leaf)
  t.equal((await client.order(NAMES, { replaces })).status, 201, 'certmagic, by ARI')
})

const EXTENSION = {
  basicConstraints: sequence(oid('2.5.29.19'), octets(sequence())),
  keyUsage: sequence(oid('2.5.29.15'), octets(bits(Buffer.of(0xa0)))),
  extKeyUsage: sequence(
    oid('2.5.29.37'),
    octets(sequence(oid('1.3.6.1.5.5.7.3.1'), oid('1.3.6.1.5.5.7.3.2'))),
  ),
  keyId: sequence(oid('2.5.29.14'), octets(octets(Buffer.alloc(20, 1)))),
  mustStaple: sequence(oid('1.3.6.1.5.5.7.1.24'), octets(sequence(integer(5)))),
}
const ip = (...address: number[]) => contextPrimitive(7, Buffer.from(address))
const SHA512_RSA = [sequence(oid('1.2.840.113549.1.1.13'), NULL), 'sha512'] as const
const SHA256_ECDSA = [sequence(oid('1.2.840.10045.4.3.2')), 'sha256'] as const

const REQUESTS: readonly (Sent & {
  readonly names: readonly string[]
  readonly key?: KeyType
  readonly subject?: Der
  readonly extensions: readonly Der[]
  readonly algorithm?: readonly [Der, string]
})[] = [
  {
    client: 'nginx-acme 0.4, Caddy, certbot 5.8',
    source: 'nginx/nginx-acme, make_certificate_request; mholt/acmez, NewCSR',
    names: ['a.example.com', 'b.example.com'],
    extensions: [san(dns('a.example.com'), dns('b.example.com'))],
  },
  {
    client: 'HAProxy 3.5, P-384 signed by SHA-256',
    source: 'haproxy/haproxy, acme_x509_req',
    names: ['b.example.com', 'a.example.com'],
    key: 'p384',
    subject: commonName('b.example.com'),
    extensions: [san(dns('b.example.com'), dns('a.example.com'))],
    algorithm: SHA256_ECDSA,
  },
  {
    client: 'HAProxy 3.5 for an address, which is its common name',
    source: 'haproxy/haproxy, acme_x509_req',
    names: ['10.1.2.3'],
    subject: commonName('10.1.2.3'),
    extensions: [san(ip(10, 1, 2, 3))],
  },
  {
    client: 'acme.sh 3.1, with a use for clients',
    source: 'acmesh-official/acme.sh, _createcsr',
    names: ['a.example.com', 'b.example.com'],
    key: 'rsa2048',
    subject: commonName('a.example.com'),
    extensions: [EXTENSION.extKeyUsage, san(dns('a.example.com'), dns('b.example.com'))],
  },
  {
    client: 'acme.sh 3.1 for an address, whose subject is an organization',
    source: 'acmesh-official/acme.sh, _createcsr',
    names: ['10.1.2.3'],
    subject: sequence(set(sequence(oid('2.5.4.10'), utf8('acme.sh')))),
    extensions: [EXTENSION.extKeyUsage, san(ip(10, 1, 2, 3))],
  },
  {
    client: 'Posh-ACME, with all that it can say',
    source: 'rmbolger/Posh-ACME, New-Csr.ps1',
    names: ['a.example.com', 'b.example.com'],
    key: 'rsa2048',
    subject: commonName('a.example.com'),
    extensions: [
      ...[EXTENSION.basicConstraints, EXTENSION.keyUsage, EXTENSION.extKeyUsage],
      ...[san(dns('a.example.com'), dns('b.example.com')), EXTENSION.keyId],
    ],
  },
  {
    client: 'simple-acme, RSA 3072 signed by SHA-512',
    source: 'simple-acme/simple-acme, RsaSettings.cs, CsrPlugin.cs',
    names: ['a.example.com'],
    key: 'rsa3072',
    subject: commonName('a.example.com'),
    extensions: [san(dns('a.example.com'))],
    algorithm: SHA512_RSA,
  },
  {
    client: 'lego 5, Traefik and Posh-ACME with RSA 4096',
    source: 'go-acme/lego, CreateCSR',
    names: ['a.example.com'],
    key: 'rsa4096',
    subject: commonName('a.example.com'),
    extensions: [san(dns('a.example.com'))],
  },
  {
    client: 'uacme, with a use of its key',
    source: 'ndilieto/uacme, csr_gen',
    names: ['a.example.com'],
    subject: commonName('a.example.com'),
    extensions: [san(dns('a.example.com')), EXTENSION.keyUsage],
  },
  {
    client: 'certbot --must-staple, acme.sh --ocsp, lego, uacme -m, simple-acme: there is no OCSP',
    source: 'certbot/certbot, crypto_util.py; simple-acme/simple-acme, ProcessMustStaple',
    names: ['a.example.com'],
    subject: commonName('a.example.com'),
    extensions: [san(dns('a.example.com')), EXTENSION.mustStaple],
  },
]

t.test('requests for certificates', async (t) => {
  const { client } = await startAcme(t)
  for (const each of REQUESTS) {
    const { client: name, source, names, subject, extensions, algorithm } = each
    const { privateKey: key, spki } = await generateKeyPair(each.key ?? 'p256')
    const csr = request({
      ...{ key, attributes: [requested(...extensions)], algorithm },
      ...(subject && { subject }),
    }).toString('base64url')
    const order = await client.order(names)
    const { body, text } = await client.post(order.body.finalize, { csr })
    t.match(body, { status: 'valid' }, `${name} (${source}): ${text}`)
    if (body.status !== 'valid') continue
    const [leaf] = fromPem((await client.post(body.certificate)).text, 'CERTIFICATE')
    const issued = parseCertificate(leaf as Buffer)
    t.ok(issued.spki.equals(spki), name)
    t.notOk(leaf?.includes(Buffer.from('2b06010505070118', 'hex')), 'nobody has to staple')
    t.notOk(leaf?.includes(Buffer.from('2b06010505070302', 'hex')), 'nor is it for clients')
  }
})

t.test('accounts that their clients look up again', async (t) => {
  const { app, keyOf } = await startAcme(t)
  const external = await keyOf('web')
  const known = { onlyReturnExisting: true }
  for (const [name, agent, first, then] of [
    ['HAProxy (src/acme.c)', undefined, known, known],
    ['uacme (account_new, account_retrieve)', undefined, known, known],
    ['nginx-acme (src/acme.rs), at each start', 'nginx-acme/0.4.1 nginx/1.31.0', undefined, {}],
    ['dehydrated, without its account_id.json', undefined, undefined, known],
    ['lego (ResolveAccountByKey)', undefined, undefined, known],
    ['Posh-ACME -OnlyReturnExisting', 'Posh-ACME/4.32.0 PowerShell/7.5.0', undefined, known],
  ] as const) {
    const client = new AcmeClient(app, agent ? { agent } : {})
    if (first)
      t.match(
        await client.register(undefined, first),
        { status: 400, body: { type: `${PROBLEM}accountDoesNotExist` } },
        `${name}: first asks`,
      )
    t.equal((await client.register(external)).status, 201, name)
    const { url } = client
    // nginx-acme binds it again, which changes nothing.
    const again = await client.register(then === known ? undefined : external, then)
    t.match(again, { status: 200, headers: { location: url } }, name)
  }
})

t.test('Proxmox VE, whose key says what it is for (pimox/proxmox-acme, PVE/ACME.pm)', async (t) => {
  const { app, keyOf } = await startAcme(t)
  const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 4_096 })
  const client = new AcmeClient(app, { key, agent: 'pve-acme/0.1' })
  const url = client.at('/acme/new-account')
  const { kty, n, e } = client.jwk
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const header = { alg: 'RS256', url, nonce: await client.nonce(), jwk: { kty, use: 'sig', n, e } }
  const jws = {
    protected: encode(header),
    payload: encode({
      contact: CONTACT,
      termsOfServiceAgreed: true,
      externalAccountBinding: bindExternalAccount(await keyOf('web'), key, url),
    }),
  }
  const padding = constants.RSA_PKCS1_PADDING
  const input = Buffer.from(`${jws.protected}.${jws.payload}`)
  const signature = sign('sha256', input, { key, padding }).toString('base64url')
  const registered = await client.send(url, { ...jws, signature })
  t.match(registered, { status: 201, body: { contact: CONTACT } }, registered.text)
  client.url = String(registered.headers.location)
  t.equal((await client.obtain(NAMES)).length > 0, true)
})

t.test('Posh-ACME, lego and uacme change the key of their account', async (t) => {
  const { client } = await startAcme(t)
  const url = client.at('/acme/key-change')
  const next = newKey()
  const { payload } = changeKey(client.url, client.key, next)
  t.equal((await client.post(url, payload?.(url) as object)).status, 200)
  client.key = next
  t.equal((await client.order(NAMES)).status, 201)
})

t.test('clients that name again what was replaced before have an order all the same', async (t) => {
  const { client } = await startAcme(t)
  const [leaf] = await client.obtain(NAMES)
  const replaces = renewalId(leaf as Buffer)
  for (const again of ['once', 'twice', 'of a cloned machine']) {
    const [next] = await client.obtain(NAMES, { replaces })
    t.notSame(next, leaf, again)
  }
  t.match(await client.order(NAMES, { replaces }), { status: 201, body: { replaces } })
})

t.test('clients that give authorizations up', async (t) => {
  const { client } = await startAcme(t)
  const giveUp = (order: AcmeAnswer, n = 0) =>
    client.post(order.body.authorizations[n], { status: 'deactivated' })
  const given = { status: 200, body: { status: 'deactivated' } }

  const order = await client.order(NAMES)
  const { body: finalized } = await client.finalize(order, NAMES)
  t.match(await giveUp(order), given, 'Ansible, and lego --always-deactivate-authorizations, after')
  const polled = await client.post(String(order.headers.location))
  t.equal(polled.body.certificate, finalized.certificate, 'what it has stays')
  t.match(await giveUp(order), given, 'simple-acme --nocache once more, before its next order')

  const dry = await client.order(NAMES)
  t.match(await client.post(dry.body.authorizations[0]), { body: { status: 'valid' } })
  t.match(await giveUp(dry), given, 'certbot 5.8 --dry-run, what is valid already')
  t.match(await client.finalize(dry, NAMES), { status: 403 }, 'so that the order is over')
  const again = await client.finalize(await client.order(NAMES), NAMES)
  t.match(again.body, { status: 'valid' }, 'and places another one')

  const left = await client.order(NAMES)
  const { body } = await client.post(left.body.authorizations[0])
  t.match(body.challenges, [{ status: 'valid' }], 'acme.sh --deactivate looks for valid challenges')
  t.match(await giveUp(left), given, 'and leaves the order')
  t.match(await client.post(String(left.headers.location)), { body: { status: 'invalid' } })
})

t.test('clients that give up what a device could not prove', async (t) => {
  const names = ['device.localhost', 'b.localhost']
  const { app } = await startAcme(
    t,
    { acme: { open: ['127.0.0.0/8'] }, rules: [{ names, acme: 'open' }] },
    { proofPorts: { 'http-01': 1, 'tls-alpn-01': 1 } },
  )
  const client = new AcmeClient(app, { ip: '127.0.0.1' })
  await client.register()
  const order = await client.order(names)
  const [failed, open] = order.body.authorizations
  t.match(await client.post(open), { body: { status: 'pending' } })
  const { body } = await client.post(failed)
  t.match(await client.post(body.challenges[0].url, {}), { body: { status: 'invalid' } })
  t.match(await client.post(String(order.headers.location)), { body: { status: 'invalid' } })
  const status = 'deactivated'
  t.match(
    await client.post(open, { status }),
    { status: 200, body: { status } },
    'Caddy gives up those that are pending or valid (mholt/acmez, client.go)',
  )
  t.match(
    await client.post(failed, { status }),
    { status: 200, body: { status: 'invalid' } },
    'lego those that are not valid (go-acme/lego, deactivateAuthorizations)',
  )
  const flushed = await client.order(names)
  const pending = (await client.post(flushed.body.authorizations[1])).body.challenges[0]
  t.match(
    await client.post(pending.url, {}),
    { status: 200, body: { status: 'invalid' } },
    'acme.sh tries what it cannot prove, so that it is not left pending (_on_issue_err)',
  )
})
