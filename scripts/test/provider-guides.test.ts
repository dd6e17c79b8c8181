// Follows the guide of each identity provider: its commands, its configuration, and a sign-in at a stand-in.
import { type ExecFileOptions, execFile } from 'node:child_process'
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import type { RegisteredClient } from '../../packages/identity-providers/test/stand-ins/authorization-server.ts'
import { createBrowser } from '../../packages/identity-providers/test/stand-ins/browser.ts'
import { startGithub } from '../../packages/identity-providers/test/stand-ins/github.ts'
import { atStandIn, createFetchTo } from '../../packages/identity-providers/test/stand-ins/hosts.ts'
import { startProduct } from '../../packages/identity-providers/test/stand-ins/product.ts'
import { PRODUCTS } from '../../packages/identity-providers/test/stand-ins/products.ts'
import {
  deviceOf,
  startTailscale,
} from '../../packages/identity-providers/test/stand-ins/tailscale.ts'
import { startApp } from '../../services/forward-auth/test/app.ts'
import { createVisitor } from '../../services/forward-auth/test/visitor.ts'
import { type Document, ROOT, readDocuments } from './markdown.ts'

const SECRET = 'what the provider has shown: %+&'
const PROFILE = 'https://auth.example.com/portal/main/profile'
/** A browser gets the same text in a page. */
const AS_TEXT = { accept: 'text/plain' }
const MAIN = join(ROOT, 'services/forward-auth/src/main.ts')
const PROGRAM = `#!/bin/sh\nexec '${process.execPath}' --conditions=@gatehouse/source '${MAIN}' "$@"\n`

const only = ({ file, blocks }: Document, info: string): string => {
  const found = blocks.filter((block) => block.info === info)
  if (found.length !== 1) throw new Error(`${file} has ${found.length} blocks "${info}"`)
  return found[0]?.text ?? ''
}

/** Runs a command of a guide as a person does, who may be asked for a secret. */
function run(command: string, cwd: string, input = ''): Promise<string> {
  const env = {
    ...process.env,
    PATH: `${cwd}/bin:${dirname(process.execPath)}:${process.env.PATH}`,
  }
  const options: ExecFileOptions = { cwd, env }
  return new Promise((resolve, reject) => {
    const child = execFile('sh', ['-eu', '-c', command], options, (error, stdout, stderr) =>
      error ? reject(new Error(String(stderr))) : resolve(String(stdout)),
    )
    child.stdin?.end(input)
  })
}

function folderFor(t: Test, guide: Document): string {
  const cwd = t.testdir({ bin: { 'gatehouse-auth': PROGRAM } })
  chmodSync(join(cwd, 'bin/gatehouse-auth'), 0o755)
  writeFileSync(join(cwd, 'config.yaml'), only(guide, 'yaml config.yaml'))
  return cwd
}

async function signIn(t: Test, guide: Document, cwd: string): Promise<string> {
  const redirectUri = only(guide, 'text redirect-uri').trim()
  const config = readFileSync(join(cwd, 'config.yaml'), 'utf8')
  const client: RegisteredClient = {
    clientId: parse(config).portals[0].providers[0].clientId,
    clientSecret: SECRET,
    redirectUri,
  }
  const product = PRODUCTS[basename(guide.file, '.md')]
  const origins = product
    ? await startProduct(t, product, client)
    : (await startGithub(t, client)).origins
  const { app } = await startApp(
    t,
    config.replace('File: client-secret', `File: ${cwd}/client-secret`),
    undefined,
    { createFetch: createFetchTo(origins) },
  )
  const visitor = createVisitor(app)
  let { location } = (await visitor.open(PROFILE)).headers
  while (String(location).startsWith('https://auth.example.com/'))
    location = (await visitor.open(String(location))).headers.location
  const callback = await createBrowser().signIn(atStandIn(origins, String(location)))
  t.equal(callback.origin + callback.pathname, redirectUri)
  const done = await visitor.open(callback)
  t.equal(done.statusCode, 303, done.body)
  return (await visitor.open(String(done.headers.location), { headers: AS_TEXT })).body
}

const GUIDES = readDocuments('docs/providers/*.md')
const isTailscale = ({ file }: Document) => basename(file) === 'tailscale.md'

for (const guide of GUIDES.filter((each) => !isTailscale(each)))
  t.test(guide.file, async (t) => {
    const cwd = folderFor(t, guide)
    await run(only(guide, 'sh secret'), cwd, `${SECRET}\n`)
    t.equal(statSync(join(cwd, 'client-secret')).mode & 0o777, 0o600)
    const printed = await run(only(guide, 'sh check'), cwd)
    t.match(printed, `: ${only(guide, 'text redirect-uri')}`, 'the redirect URI to register')
    t.equal(await signIn(t, guide, cwd), only(guide, 'text profile'))
  })

for (const guide of GUIDES.filter(isTailscale))
  t.test(guide.file, async (t) => {
    const { socket, devices } = await startTailscale(t)
    const cwd = folderFor(t, guide)
    const yaml = only(guide, 'yaml config.yaml').replace(/(?<=socket: ).+/, socket)
    writeFileSync(join(cwd, 'config.yaml'), yaml)
    t.match(await run(only(guide, 'sh check'), cwd), 'config.yaml is valid')
    const device = deviceOf(1, 'ada@example.com')
    const UserProfile = {
      ...device.UserProfile,
      ...{ DisplayName: 'Ada Lovelace', ProfilePicURL: 'https://example.com/ada.png' },
    }
    const { grants } = JSON.parse(only(guide, 'json'))
    devices['100.64.0.1'] = { ...device, UserProfile, CapMap: grants[0].app }
    const { app } = await startApp(t, yaml)
    const visitor = createVisitor(app)
    const headers = { 'x-forwarded-for': '100.64.0.1', 'x-forwarded-proto': 'https' }
    let answer = await visitor.open(PROFILE, { headers })
    for (let hops = 0; answer.statusCode === 303 && hops < 5; hops++)
      answer = await visitor.open(String(answer.headers.location), {
        headers: { ...headers, ...AS_TEXT },
      })
    t.equal(answer.body, only(guide, 'text profile'))
  })

t.test('every guide ends with what to do when it does not work', async (t) => {
  for (const { file, prose } of GUIDES) {
    const heading = prose.findLast((line) => line.startsWith('## '))
    t.equal(heading, '## When it does not work', file)
    t.match(prose[2], /^At the end of this guide, /, file)
  }
})
