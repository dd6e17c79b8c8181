import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createIntermediate, createRoot, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { issue } from '../../../../packages/pki/test/helpers.ts'
import { readDocument } from '../../../../scripts/test/markdown.ts'
import { quietLog } from '../../../../scripts/test/quiet.ts'
import { buildApp } from '../../src/app.ts'
import { configure, KEY } from '../helpers/app.ts'
import { writeAuthority } from '../helpers/ca-walk.ts'

const run = promisify(execFile)
type Root = Awaited<ReturnType<typeof createRoot>>

/** What a server below a root serves. */
async function chainBelow(root: Root) {
  const now = Date.now()
  const intermediate = await createIntermediate({ root, commonName: 'Intermediate', now })
  const { der, key } = issue(intermediate, ['localhost', '127.0.0.1'], { now })
  const cert = [der, ...intermediate.chain].map((part) => toPem('CERTIFICATE', part)).join('')
  return { cert, key: toPem('PRIVATE KEY', key.pkcs8) }
}

async function serve(t: Test, chain: { readonly cert: string; readonly key: string }) {
  const server = createServer(chain, (_request, response) => void response.end('served'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** The answer of cert-service with two roots, in a folder, and a server below each of them. */
async function bundle(t: Test) {
  const folder = testFolder(t)
  const roots = await Promise.all(
    ['First', 'Second'].map((commonName) => createRoot({ commonName, now: Date.now() })),
  )
  const [first, next] = roots as [Root, Root]
  const root = await writeAuthority(folder, 'first', first)
  const config = await configure(folder, { server: { tls: 'off' }, ca: { root } })
  const app = await buildApp(config, quietLog(t))
  t.teardown(() => app.close())
  const begun = await app.inject({
    ...{ method: 'POST', url: '/api/ca/roll', headers: { authorization: `APIKey ${KEY}` } },
    payload: {
      action: 'begin',
      root: toPem('CERTIFICATE', next.certificate),
      key: next.key?.export({ format: 'pem', type: 'pkcs8' }),
    },
  })
  t.equal(begun.statusCode, 200, begun.body)
  writeFileSync(join(folder, 'root.pem'), (await app.inject('/ca/root.pem')).body)
  const chains = await Promise.all(roots.map(chainBelow))
  const urls = await Promise.all(chains.map((chain) => serve(t, chain)))
  for (const [index, { cert }] of chains.entries())
    writeFileSync(join(folder, `chain-${index}.pem`), cert)
  return { folder, roots, urls }
}

/** The commands of a block of the guide that has this text, for this machine in place of the reader's. */
function commandsOf(folder: string, text: string): string {
  const block = readDocument('docs/embedded-ca.md').blocks.find((block) =>
    block.text.includes(text),
  )
  return (block?.text ?? 'false')
    .replaceAll('/usr/local/share/ca-certificates', `${folder}/local`)
    .replaceAll('-cacerts', `-keystore ${folder}/cacerts.p12`)
}

t.test('each program takes both roots as the guide says', async (t) => {
  const { folder, roots, urls } = await bundle(t)
  const env = { ...process.env, HOME: folder }
  const inFolder = { cwd: folder, env }
  const sh = async (commands: string) => (await run('sh', ['-ec', commands], inFolder)).stdout
  const splitting = await sh(commandsOf(folder, 'awk'))
  const fingerprints = roots.map(({ certificate }) =>
    new X509Certificate(certificate).fingerprint256.replaceAll(':', ''),
  )
  const files = fingerprints.map((fingerprint) => `root-${fingerprint.slice(0, 16)}.pem`)

  await t.test('the file is split into one for each', async (t) => {
    t.same(
      readdirSync(folder).filter((name) => name.startsWith('root-')),
      files.toSorted(),
    )
    for (const fingerprint of fingerprints)
      t.ok(splitting.replaceAll(':', '').includes(fingerprint), 'which is printed')
    t.equal(await sh(commandsOf(folder, 'awk')), splitting, 'again, and nothing is left over')
  })

  for (const [program, commands] of [
    ['curl', 'curl -fsS --cacert root.pem "$1"'],
    ['wget', 'wget -qO - --ca-certificate=root.pem "$1"'],
    [
      'Git',
      `unset GIT_SSL_CAINFO; git -c http.sslCAInfo=$PWD/root.pem ls-remote "$1" && echo served`,
    ],
    [
      'Node.js',
      `NODE_EXTRA_CA_CERTS=root.pem node -e "fetch('$1').then((r) => r.text()).then(console.log)"`,
    ],
    [
      'Python',
      `SSL_CERT_FILE=root.pem python3 -c "import urllib.request as u; print(u.urlopen('$1').read())"`,
    ],
  ] as const)
    await t.test(program, async (t) => {
      for (const url of urls)
        t.match((await run('sh', ['-ec', commands, 'sh', url], inFolder)).stdout, 'served', url)
    })

  await t.test('OpenSSL by the file', async (t) => {
    for (const chain of ['chain-0.pem', 'chain-1.pem'])
      t.match(await sh(`openssl verify -CAfile root.pem -untrusted ${chain} ${chain}`), 'OK')
  })

  await t.test('the system of Debian', async (t) => {
    for (const name of ['local', 'certs', 'hooks', 'bin']) mkdirSync(join(folder, name))
    writeFileSync(join(folder, 'none.conf'), '')
    const update = `exec /usr/sbin/update-ca-certificates --certsconf ${folder}/none.conf --certsdir ${folder}/none \\
      --localcertsdir ${folder}/local --etccertsdir ${folder}/certs --hooksdir ${folder}/hooks "$@"`
    for (const [name, text] of Object.entries({
      'update-ca-certificates': update,
      sudo: 'exec "$@"',
    })) {
      writeFileSync(join(folder, 'bin', name), `#!/bin/sh\n${text}\n`)
      chmodSync(join(folder, 'bin', name), 0o755)
    }
    const [debian = ''] = commandsOf(folder, 'update-ca-certificates').split('# macOS')
    await sh(`PATH=${folder}/bin:$PATH; ${debian}`)
    for (const chain of ['chain-0.pem', 'chain-1.pem'])
      for (const where of [
        '-no-CAfile -CApath certs',
        '-no-CApath -CAfile certs/ca-certificates.crt',
      ])
        t.match(await sh(`openssl verify ${where} -untrusted ${chain} ${chain}`), 'OK', where)
  })

  await t.test('the database of Chrome', async (t) => {
    await sh('mkdir -p .pki/nssdb && certutil -N -d sql:.pki/nssdb --empty-password')
    await sh(commandsOf(folder, '.pki/nssdb'))
    const list = await sh('certutil -L -d sql:.pki/nssdb')
    for (const file of files) t.match(list, `Gatehouse ${file.replace('.pem', '')}`)
    for (const [index, file] of files.entries()) {
      await sh(
        `sed '/END/q' chain-${index}.pem > leaf.pem; sed '1,/END/d' chain-${index}.pem > above.pem`,
      )
      await sh(`certutil -A -d sql:.pki/nssdb -t ,, -n above-${index} -i above.pem`)
      await sh(`certutil -A -d sql:.pki/nssdb -t ,, -n leaf-${index} -i leaf.pem`)
      t.match(await sh(`certutil -V -d sql:.pki/nssdb -u V -n leaf-${index}`), 'is valid', file)
    }
  })

  await t.test('Java', async (t) => {
    await sh(commandsOf(folder, 'keytool'))
    const list = await sh(`keytool -list -keystore cacerts.p12 -storepass changeit`)
    const found = list.replaceAll(':', '')
    for (const fingerprint of fingerprints) t.ok(found.includes(fingerprint), fingerprint)
  })
})
