import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { compileCondition, fromClaims } from '@gatehouse/profile'
import { openPostgres, parsePostgresUrl } from '@gatehouse/store'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { describeApi as describeCertApi } from '../../services/cert-service/src/openapi.ts'
import { explain } from '../../services/forward-auth/src/cli/explain.ts'
import { describeApi as describeAuthApi } from '../../services/forward-auth/src/openapi.ts'
import { loadFragment } from './config-fragments.ts'
import {
  anchorsOf,
  type Block,
  codeOf,
  linksOf,
  parseDocument,
  ROOT,
  readDocument,
  readDocuments,
  tableRows,
} from './markdown.ts'
import { startPostgres } from './postgres.ts'
import { settingsOf } from './reference-pages.ts'

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const GUIDES = readDocuments('{*,docs/*,docs/{providers,runbooks}/*}.md')
const BLOCKS = GUIDES.flatMap(({ blocks }) => blocks)

/** What stands before the lines that a guide adds to the portal of the demo. */
const DEMO = `domains:
  - domain: gatehouse.localhost
    authHost: auth.gatehouse.localhost:8443
portals:
  - name: main
`

/** What is demanded of a block, by what its fence says. A block of another kind fails. */
const KINDS: Readonly<Record<string, (block: Block) => unknown>> = {
  'yaml cert-service': ({ text }) => loadFragment(t, 'cert-service', text),
  'yaml forward-auth': ({ text }) => loadFragment(t, 'forward-auth', text),
  yaml: parseYaml,
  json: ({ text }) => JSON.parse(text),
  'json people': ({ text }) => JSON.parse(text),
  ini: ({ text }) => demand(/^(\[\w+\]\n|\w+=.+\n|\n)+$/.test(text), 'is not sections and keys'),
  mermaid: ({ text }) => demand(/^flowchart LR\n( {2}.+\n)+$/.test(text), 'is not a flowchart'),
  // The next four are run by integration/docs.test.ts.
  'sh quickstart': parseShell,
  'sh running': parseShell,
  'sh stopped': parseShell,
  // The next two are run and compared by integration/runbooks.test.ts.
  'sh runbook': parseShell,
  'text runbook': () => undefined,
  // Run by integration/systemd.test.ts, in this order.
  'sh systemd': parseShell,
  sh: parseShell,
  // The next four are followed by integration/docs.test.ts.
  'sh server': parseShell,
  'sh caller': parseShell,
  'js server.mjs': ({ text }) => stripTypeScriptTypes(text),
  'ts server.ts': ({ text }) => stripTypeScriptTypes(text),
  // The next five are followed by provider-guides.test.ts.
  'sh secret': parseShell,
  'sh check': parseShell,
  'yaml config.yaml': ({ text }) => loadFragment(t, 'forward-auth', text),
  'text redirect-uri': ({ text }) => new URL(text.trim()),
  'text profile': () => undefined,
  // The next eight are followed by moving-guides.test.ts.
  'yaml configuration.yml': parseYaml,
  'yaml le-cert-server.yaml': parseYaml,
  'sh request': parseShell,
  'yaml traefik-forward-auth.yaml': parseYaml,
  'ini traefik-forward-auth.ini': () => undefined,
  'toml oauth2-proxy.cfg': () => undefined,
  'nginx moved': () => undefined,
  'sh migrate': parseShell,
  'sql postgres': runSql,
  // The next three are run by the proxies, in services/forward-auth/test/integration/proxies.test.ts.
  'yaml prefix': parseYaml,
  'caddyfile site': () => undefined,
  'yaml server-snippet': parseYaml,
  // The next two are followed by integration/homelab-certificates.test.ts.
  'sh homelab': parseShell,
  'json acme-key': ({ text }) => JSON.parse(text),
  // The next four are run by services/forward-auth/test/integration/recipes.test.ts.
  'nginx appliance': () => undefined,
  'caddyfile appliance': () => undefined,
  'yaml appliance': ({ text }) => parseYaml({ text: `http:\n  services:\n${text}` }),
  'js signed-out.js': ({ text }) => stripTypeScriptTypes(text),
  // The next two are run by services/forward-auth/test/check/mcp-guide.test.ts.
  'js mcp': ({ text }) => stripTypeScriptTypes(text),
  'python mcp': () => undefined,
  // Read by api-clients.ts.
  'yaml openapi-python-client': parseYaml,
  // Both are for the demo.
  'yaml demo': ({ text }) => loadFragment(t, 'forward-auth', `${DEMO}${text}`),
  'ts demo': ({ text }) => stripTypeScriptTypes(text),
  // Strips the types, which fails where the syntax is wrong.
  ts: ({ text }) => stripTypeScriptTypes(text),
  text: () => undefined,
}

/** `<language> <path>`: the block is part of that file, which has tests of its own. */
const PART = /^(\w+) ((?:examples|packages|docker|deploy)\/\S+)$/

async function checkBlock(block: Block): Promise<void> {
  const [, , path] = PART.exec(block.info) ?? []
  // By the proxies, in services/forward-auth/test/integration/hidden-session.test.ts.
  if (/^\w+ hidden-session$/.test(block.info)) return
  const check = path === undefined ? KINDS[block.info] : () => isPartOf(block.text, read(path))
  if (!check) throw new Error(`there is no kind of block called "${block.info}"`)
  await check(block)
}

function parseYaml({ text }: Pick<Block, 'text'>): void {
  const documents = parseAllDocuments(text, { version: '1.1', merge: true })
  for (const { errors, warnings } of documents)
    for (const error of [...errors, ...warnings]) throw error
}

function parseShell({ text }: Block): void {
  const { status, stderr } = spawnSync('sh', ['-n'], { input: text, encoding: 'utf8' })
  demand(status === 0, stderr)
}

/** As whoever sets a database up; afterwards each service can use its own schema, and not the other one. */
async function runSql({ text }: Block): Promise<void> {
  const server = await startPostgres(t)
  await server.sql(text)
  const users = [...text.matchAll(/CREATE ROLE (\w+) LOGIN PASSWORD '([^']+)'/g)]
  demand(users.length === 2, 'does not create the two users')
  for (const [, user = '', password = ''] of users) {
    const url = new URL(server.url)
    Object.assign(url, { username: user, password })
    const open = async (schema: string) => {
      const db = await openPostgres({
        ...{ url: parsePostgresUrl(url.href), schema, name: 'docs', log: SILENT },
        migrations: [() => 'CREATE TABLE example (id int)'],
      })
      await db.close()
    }
    await open(user)
    const other = users.find(([, name]) => name !== user)?.[1] ?? ''
    await open(other).then(
      () => demand(false, `lets ${user} use ${other}`),
      () => {},
    )
  }
}

const SILENT = { info() {}, warn() {} }

function isPartOf(text: string, whole: string): void {
  demand(`\n${whole}`.includes(`\n${text}`), 'is not what the file says')
}

function demand(holds: boolean, message: string): void {
  if (!holds) throw new Error(message)
}

t.test('each block of the guides is what its fence says', async (t) => {
  t.ok(BLOCKS.length > 80)
  for (const block of BLOCKS) {
    const fault = await checkBlock(block).then(
      () => '',
      (error: Error) => error.message,
    )
    t.equal(fault, '', `${block.file}:${block.line} ${block.info}`)
  }
})

t.test('a block that is wrong is found', async (t) => {
  const wrong = [
    ['python', 'pass'],
    ['sh', 'if true'],
    ['ts', 'const = 1'],
    ['json', '{,}'],
    ['yaml', 'a: b: c'],
    ['yaml cert-service', 'server: { prot: 7401 }'],
    ['yaml forward-auth', 'portals: [{ name: main, allow: Group(1) }]'],
    ['mermaid', 'graph'],
    ['ini', 'Restart'],
    ['nginx examples/proxies/nginx.conf', 'events { }'],
    ['nginx package.json', '{'],
  ]
  for (const [info = '', text = ''] of wrong)
    await t.rejects(checkBlock({ file: 'x.md', line: 1, info, text: `${text}\n` }), info)
  t.throws(() => parseDocument('x.md', '```sh\ntrue\n'), /x\.md:1/)
})

t.test('links lead somewhere', async (t) => {
  const all = readDocuments('{*,{docs,bench,examples,packages,services}/**/*}.md')
  t.ok(all.length > GUIDES.length)
  for (const document of all)
    for (const link of linksOf(document)) {
      const [path = '', anchor] = link.split('#')
      if (/^https?:/.test(link)) {
        const url = URL.parse(link)
        t.ok(url && (url.protocol === 'https:' || /localhost$/.test(url.hostname)), link)
        continue
      }
      const file =
        path === '' ? document.file : relative(ROOT, join(ROOT, dirname(document.file), path))
      t.ok(existsSync(join(ROOT, file)), `${document.file}: ${link}`)
      if (anchor !== undefined)
        t.ok(anchorsOf(readDocument(file)).includes(anchor), `${document.file}: ${link}`)
    }
})

t.test('every guide is in the index, and the README is short', async (t) => {
  const linked = linksOf(readDocument('docs/README.md'))
  for (const file of globSync('*.md', { cwd: join(ROOT, 'docs') }))
    if (file !== 'README.md') t.ok(linked.includes(file), file)
  t.ok(read('README.md').split('\n').length < 200)
})

t.test('a page answers one question, in at most 3,000 words', async (t) => {
  for (const file of globSync('docs/**/*.md', { cwd: ROOT, exclude: ['docs/reference/**'] })) {
    const words = read(file).split(/\s+/).length
    if (file === 'docs/threats.md') t.match(read(file), /^# .+\n\nThis page is for auditors/)
    else t.ok(words <= 3_000, `${file} has ${words} words`)
  }
})

t.test('the rules page shows what explain prints', async (t) => {
  const { blocks } = readDocument('docs/rules.md')
  const textOf = (info: string) => blocks.find((block) => block.info === info)?.text ?? ''
  const [, claims = ''] = /echo '(.*)' >/.exec(textOf('sh')) ?? []
  const person = join(t.testdir({ 'bob.json': claims }), 'bob.json')
  const value = await loadFragment(t, 'forward-auth', textOf('yaml forward-auth'))
  const asked = { host: 'app.example.com', path: '/payments/7', as: person }
  const config = value as Parameters<typeof explain>[0]
  t.equal(await explain(config, asked, 0), textOf('text'))
  const [, last] = blocks.filter(({ info }) => info === 'text')
  const unsent = await explain(config, { ...asked, as: undefined, method: 'POST' }, 0)
  t.ok(last && unsent.endsWith(`\n${last.text}`), unsent)
})

t.test('each row of the cookbook of conditions lets pass whom it says', async (t) => {
  const { blocks, prose } = readDocument('docs/conditions.md')
  const people = JSON.parse(blocks.find(({ info }) => info === 'json people')?.text ?? '')
  const rows = tableRows(
    prose.slice(prose.indexOf('## Cookbook'), prose.indexOf('## The language')),
  )
  t.ok(rows.length > 20)
  for (const [wanted = '', code = '', passes] of rows) {
    const { holds } = compileCondition(code.slice(1, -1))
    const found = Object.keys(people).filter((name) => holds(fromClaims('corp', people[name])))
    t.equal(found.join(', ') || 'nobody', passes, `${wanted}: ${code}`)
  }
})

/** Every place where a guide names something, with the name. */
function mentions(pattern: RegExp): [where: string, name: string][] {
  return GUIDES.flatMap(({ file }) =>
    [...read(file).matchAll(pattern)].map(([name]): [string, string] => [file, name]),
  )
}

t.test('the glossary has few nouns, in order, and says where each lives', async (t) => {
  const sections = read('docs/glossary.md')
    .split('\n## ')
    .slice(1)
    .map((section) => tableRows(section.split('\n')))
  const nouns = sections.flat().map(([noun]) => noun)
  t.ok(nouns.length >= 25 && nouns.length <= 40, `${nouns.length} nouns`)
  t.equal(new Set(nouns).size, nouns.length, 'each once')
  for (const rows of sections) {
    const names = rows.map(([noun]) => noun)
    t.strictSame(names, names.toSorted(), 'in order')
    for (const [noun, , place = ''] of rows)
      t.ok(existsSync(join(ROOT, codeOf(place)[0] ?? 'nowhere')), `${noun} lives at ${place}`)
  }
})

t.test('what the guides name exists', async (t) => {
  t.test('error codes', async (t) => {
    const known = read('docs/reference/errors.md')
    const prefixes = 'CERT|FWA|AUTH|PKI|ACME|PROFILE|CONFIG|NET|STORE'
    for (const [file, code] of mentions(new RegExp(`(?<=\`)(${prefixes})_[A-Z_]+(?=\`)`, 'g')))
      t.ok(known.includes(`\`${code}\``), `${file}: ${code}`)
  })

  t.test('metrics and lines of the log', async (t) => {
    const known = globSync('{services,packages}/*/src/**/*.ts', { cwd: ROOT }).map(read).join('')
    for (const [file, name] of mentions(/\b(gatehouse_(certs|auth|build)|http_request)_[a-z_]+/g))
      t.ok(known.includes(`'${name.replace(/_(count|bucket)$/, '')}'`), `${file}: ${name}`)
    // A line of the log is some words in lower case.
    const prose = ['operations', 'audit-trail', 'monitoring', 'alerts', 'replicas', 'database'].map(
      (name) => readDocument(`docs/${name}.md`).prose,
    )
    const lines = codeOf(prose.flat().join('\n')).filter((code) =>
      /^[a-z]+( [A-Za-z,]+)+$/.test(code),
    )
    t.ok(lines.length > 10)
    for (const line of lines) t.ok(known.includes(line), line)
  })

  t.test('commands', async (t) => {
    const pattern = /gatehouse-(certs|auth) (ca )?[a-z][a-z-]+/g
    const known = ['gatehouse-certs help', 'gatehouse-auth help'].concat(
      Array.from(
        read('docs/reference/command-line.md').matchAll(/^### (\S+ (?:(?:ca|acme) )?\S+)/gm),
        ([, command = '']) => command.replace(' acme rollover', ' acme'),
      ),
    )
    for (const [file, command] of mentions(pattern))
      t.ok(known.includes(command), `${file}: ${command}`)

    const { scripts } = JSON.parse(read('package.json'))
    for (const [file, script] of mentions(/(?<=npm run )[\w:-]+|(?<=npm )(start|test)\b/g))
      t.ok(Object.hasOwn(scripts, script), `${file}: npm ${script}`)

    const { services } = parse(read('docker-compose.yml'), { merge: true })
    for (const [file, command] of mentions(/(?<=docker compose exec )\S+ cat \S+/g)) {
      const [name = '', , path = ''] = command.split(' ')
      const folders = services[name].volumes.map((volume: string) => volume.split(':')[1])
      t.ok(folders.includes(dirname(path)), `${file}: ${command}`)
    }
  })

  t.test('paths', async (t) => {
    // With the pages for people.
    const documents = await Promise.all([describeCertApi(), describeAuthApi({ hasPages: true })])
    const known = documents.flatMap((document) => Object.keys(Object(document).paths))
    const segments = (path: string) => path.split('/').filter((segment) => segment !== '')
    const isKnown = (path: string) =>
      known.some((template) => {
        const parts = segments(template)
        const given = segments(path)
        if (parts.at(-1) === '{rest}') parts.length = given.length = parts.length - 1
        return (
          parts.length === given.length &&
          parts.every((part, i) => part.startsWith('{') || part === given[i] || given[i] === '*')
        )
      })
    const pattern =
      /(?<!\/\/id\.example\.com)\/(portals?|api|ca)\/[\w/:.*<>…-]+|\/(healthz|readyz)\b/g
    // The recipes are about paths of apps.
    const found = mentions(pattern).filter(
      ([file, path]) => file !== 'docs/recipes.md' || path.startsWith('/portal'),
    )
    t.ok(found.length > 60)
    for (const [file, path] of found)
      t.ok(
        isKnown(path.replace(/^\/portal\//, '/portals/').replace(/[.:]+$/, '')),
        `${file}: ${path}`,
      )
  })

  t.test('keys of the configuration', async (t) => {
    const settings = ['cert-service', 'forward-auth'].flatMap(settingsOf)
    const known = new Set(
      settings.flatMap(({ key, type }) => {
        const [, twin] = /or `(\w+File)`/.exec(type) ?? []
        return twin === undefined ? [key] : [key, key.replace(/\w+$/, twin)]
      }),
    )
    // A mapping that occurs again is shown where it occurs first.
    for (const { key, type } of settings) {
      const [, first] = /, as `([^`]+)`/.exec(type) ?? []
      if (first)
        for (const other of [...known])
          if (other.startsWith(first)) known.add(key + other.slice(first.length))
    }
    const sections = [...known].filter((key) => /^\w+$/.test(key)).join('|')
    const pattern = new RegExp(`^(${sections})(\\[\\])?\\.[\\w.[\\]]+`)
    // In tables of other programs their keys come first, and ours second.
    const isMoving = (file: string) => file.startsWith('docs/moving-')
    const told = GUIDES.flatMap(({ file, prose }) =>
      isMoving(file) ? tableRows(prose).map(([, ours = '']) => ours) : prose,
    )
    // Hosts and a line of the log look alike.
    const keys = codeOf(told.join('\n'))
      .flatMap((code) => pattern.exec(code)?.[0] ?? [])
      .filter((key) => !/\.(com|localhost|arpa|lost|key|crt|pem|mjs|ts)$/.test(key))
    t.ok(keys.length > 50)
    for (const key of keys) t.ok(known.has(key) || known.has(key.replace(/\[\]$/, '')), key)
  })
})
