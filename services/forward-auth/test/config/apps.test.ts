import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { portalOf, yamlOf } from '../app.ts'

const FOLDER = testFolder(t)
const POLICIES = `policies: { admins: 'Group("admin")' }`

async function faultsOf(apps: string): Promise<string[]> {
  const file = join(FOLDER, 'config.yaml')
  await writeFile(file, yamlOf(portalOf('main', `${POLICIES}, apps: ${apps}`)))
  try {
    await loadForwardAuthConfig(file, {})
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(({ path, message }) => `${path} ${message}`)
  }
}

t.test('a contact is an address that people can open, or a text', async (t) => {
  const contacts: [contact: string, fault?: string][] = [
    ['mailto:help@example.com'],
    ['https://help.example.com/'],
    ['Phone: 4711'],
    ['help@example.com'],
    ['javascript:alert(1)', 'is neither `mailto:` with an address, an https URL nor a text'],
    ['mailto:help', 'is neither'],
    ['http://help.example.com/', 'is neither'],
    ['https://user@example.com/', 'the URL must not hold a user name'],
    ['<b>me</b>', 'must match'],
  ]
  for (const [contact, fault] of contacts) {
    const faults = await faultsOf(`[], contact: "${contact}"`)
    if (fault === undefined) t.strictSame(faults, [], contact)
    else t.match(faults, [`/portals/0/contact ${fault}`], contact)
  }
  const [unknown] = await faultsOf('[], texts: { intro: { xx: Hello } }')
  t.match(unknown, '/portals/0/texts/intro')
})

t.test('`appsFrom` is a URL', async (t) => {
  const table: [url: string, fault?: string][] = [
    ['http://docker-reader:2375'],
    ['https://reader.example.com/apps'],
    ['docker-reader:2375', 'the URL must'],
    ['http://user@docker-reader', 'the URL must not hold a user name'],
    ['unix:///var/run/docker.sock', 'the URL must'],
  ]
  for (const [url, fault] of table) {
    const faults = await faultsOf(`[], appsFrom: "${url}"`)
    if (fault === undefined) t.strictSame(faults, [], url)
    else t.match(faults, [`/portals/0/appsFrom ${fault}`], url)
  }
})

t.test('apps are where a check can let people pass', async (t) => {
  const NO_URL = 'is not an https URL without user name and fragment'
  const table: [why: string, app: string, fault: string | undefined][] = [
    ['on the domain', '{ name: A, url: "https://app.example.com/" }', undefined],
    ['a page, at a port', '{ name: A, url: "https://app.example.com:8443/a?b=c" }', undefined],
    ['the domain itself', '{ name: A, url: "https://example.com" }', undefined],
    ['with a policy', '{ name: A, url: "https://a.example.com", policy: admins }', undefined],
    ['with the built-in one', '{ name: A, url: "https://a.example.com", policy: any }', undefined],
    [
      'elsewhere',
      '{ name: A, url: "https://a.test/" }',
      '/url is on none of the domains: example.com',
    ],
    ['a name that ends so', '{ name: A, url: "https://xexample.com/" }', '/url is on none of'],
    ['plain http', '{ name: A, url: "http://a.example.com/" }', `/url ${NO_URL}`],
    ['a script', '{ name: A, url: "javascript:alert(1)" }', `/url ${NO_URL}`],
    ['a user', '{ name: A, url: "https://a.example.com@b.test/" }', `/url ${NO_URL}`],
    ['no host', '{ name: A, url: "/app" }', `/url ${NO_URL}`],
    [
      'sign-in pages',
      '{ name: A, url: "https://auth.example.com/" }',
      '/url is at the host of the sign-in pages',
    ],
    [
      'unknown policy',
      '{ name: A, url: "https://a.example.com", policy: x }',
      '/policy is no policy: x',
    ],
    ['no name', '{ url: "https://a.example.com" }', '/name is missing'],
  ]
  for (const [why, app, fault] of table) {
    const faults = await faultsOf(`[${app}]`)
    if (fault === undefined) t.strictSame(faults, [], why)
    else t.match(faults, [`/portals/0/apps/0${fault}`], why)
    t.ok(faults.length <= 1, `${why}: alone`)
  }
  const twice = '{ name: A, url: "https://a.example.com" }'
  t.strictSame(await faultsOf(`[${twice}, ${twice}]`), [
    '/portals/0/apps/1/name is already in use: A',
  ])
})
