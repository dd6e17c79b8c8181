import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { lookAt } from '../../../../packages/certs-client/test/helpers/client.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { createHome, KEY, startService } from '../helpers/service.ts'

const SIGN_IN = { method: 'POST', body: `${new URLSearchParams({ key: KEY })}` }

interface Sent {
  readonly method?: string
  readonly cookie?: string
  readonly body?: string
}

/** A request of a browser that trusts whoever answers. */
async function browse(url: URL, { method = 'GET', cookie = '', body }: Sent = {}) {
  const headers = {
    ...{ cookie, origin: url.origin, accept: 'text/html' },
    'content-type': 'application/x-www-form-urlencoded',
  }
  const sent = request(url, { method, headers, rejectUnauthorized: false })
  sent.end(body)
  const [answer] = await once(sent, 'response')
  const [set = ''] = answer.headers['set-cookie'] ?? []
  return { cookie: set.split(';')[0] as string, page: await text(answer) }
}

/** The commands of a page as a person copies them. */
function commandsOf(page: string): string[] {
  const areas = page.matchAll(/<textarea[^>]*>\n([^<]*)<\/textarea>/g)
  const characters: Record<string, string> = {
    '&quot;': '"',
    '&#39;': "'",
    '&lt;': '<',
    '&amp;': '&',
  }
  return Array.from(areas, ([, command = '']) =>
    command.replace(/&[#\w]+;/g, (entity) => characters[entity] ?? entity),
  )
}

/** A service over HTTPS, and a machine whose root folder is one of the test. */
async function stage(t: Test) {
  const base = testFolder(t, { bin: {} })
  const home = createHome(join(base, 'service'))
  writeFileSync(
    join(home.base, 'config.yaml'),
    `server: { port: 0, names: [localhost] }
metrics: { enabled: false }
log: { format: json }
storage: { path: data, masterKeyFile: keys/master.key }
auth: { psk: { key: ${KEY} } }
`,
  )
  const { url } = await startService(t, home)
  const address = new URL(url)
  address.hostname = 'localhost'
  const program = [process.execPath, ...programOf('cert-service')].map((part) => `'${part}'`)
  const shim = `#!/bin/sh\nexec ${program.join(' ')} "$@"\n`
  writeFileSync(join(base, 'bin/gatehouse-certs'), shim, { mode: 0o755 })
  const shell = async (command: string, input = '') => {
    const script = command.replaceAll('/etc/', `${base}/etc/`).replace(' --watch', '')
    const env = { PATH: `${join(base, 'bin')}:${process.env.PATH}` }
    // No program opens the socket that a process gets as its input.
    const child = spawn('sh', ['-c', `cat | {\n${script}\n}`], { env })
    child.stdin.end(input)
    const [out, err, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit'),
    ])
    return { code, out, err }
  }
  return { url: address, shell, tls: join(base, 'etc/tls') }
}

t.test('the commands of a page work as they are copied', async (t) => {
  const { url, shell, tls } = await stage(t)
  const { cookie } = await browse(new URL('/', url), SIGN_IN)
  const empty = await browse(new URL('/', url), { cookie })
  const [request = ''] = commandsOf(empty.page)
  t.match(await shell(request), { code: 77 }, 'there is no root yet')

  const made = await shell(request.replace(/--cacert \S+/, '-k').replace(/\$\(cat [^)]+\)/, KEY))
  t.match(made, { code: 0, out: /BEGIN CERTIFICATE/ })

  const { page } = await browse(new URL('/certificates/app.example.com', url), { cookie })
  const [setup = '', get = '', read = ''] = commandsOf(page)
  t.match(await shell(setup, KEY), { code: 0, out: /[0-9a-f]{64}\n$/ })
  t.match(await shell(get), { code: 0 })
  t.same(lookAt(tls, 'app.example.com').names, ['app.example.com'])
  t.match(await shell(read), { code: 0, out: /"domain":"app\.example\.com"/ })
  t.match(await shell(request), { code: 0, out: /"cached":true/ })

  const [fetchRoot = '', check = ''] = setup.split('\n')
  const other = check.replace(/(?<=grep )\S+/, 'aabb')
  const wrong = await shell(`${fetchRoot}\n${other}\ntest ! -e /etc/gatehouse/root.pem`)
  t.match(wrong, { code: 0 }, 'a root that is not the one of the page is removed')
})
