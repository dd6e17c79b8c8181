import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { samples } from '../../services/forward-auth/test/pages/samples.ts'
import { ROOT, readDocument, readDocuments } from './markdown.ts'

interface ForwardAuth {
  readonly address: string
  readonly trustForwardHeader?: boolean
  readonly authResponseHeaders?: readonly string[]
  readonly authRequestHeaders?: readonly string[]
  readonly maxResponseBodySize?: number
}

const FILES = [
  'examples/proxies/traefik.yaml',
  'docker/routes.yaml',
  'docker/production/routes.yaml',
]
const TEXTS = [
  ...FILES.map((file) => ({ file, text: readFileSync(join(ROOT, file), 'utf8') })),
  ...readDocuments('{*,docs/*}.md').flatMap(({ blocks }) =>
    blocks.filter(({ info }) => info.startsWith('yaml')),
  ),
]

/** Every middleware `forwardAuth` below a value; the chart has values of this name without an address. */
function middlewaresIn(value: unknown): ForwardAuth[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, member]) =>
    key === 'forwardAuth' && Object.hasOwn(Object(member), 'address')
      ? [member as ForwardAuth]
      : middlewaresIn(member),
  )
}

const middlewares = TEXTS.flatMap(({ file, text }) =>
  parseAllDocuments(text, { version: '1.1', merge: true })
    .flatMap((document) => middlewaresIn(document.toJS()))
    .map((middleware) => ({ file, middleware })),
)

t.test('each Traefik middleware of files and guides is whole', async (t) => {
  t.ok(middlewares.length >= 8)
  for (const { file, middleware } of middlewares) {
    t.equal(middleware.trustForwardHeader, true, file)
    t.ok(middleware.authResponseHeaders?.includes('Authorization'), `${file}: no key for the app`)
    t.equal(middleware.authRequestHeaders, undefined, `${file}: Cookie must reach the check`)
    t.equal(middleware.maxResponseBodySize, 65_536, file)
  }
})

t.test('no page is longer than what Traefik takes of an answer', async (t) => {
  const longest = `/portals/main/signin?rd=${'%20'.repeat(8_192)}`
  // Checks never answer with the others.
  const pages = Object.entries(samples({ href: longest })).filter(
    ([name]) => !/^account|agents|sessions/.test(name),
  )
  for (const [name, { html }] of pages) t.ok(Buffer.byteLength(html) < 65_536, name)
})

t.test('the labels for Docker set what the files set', async (t) => {
  const labels = readDocument('docs/traefik.md').blocks.filter(({ text }) =>
    text.includes('forwardauth.address'),
  )
  t.equal(labels.length, 1)
  for (const option of ['trustForwardHeader=true', 'maxResponseBodySize=65536'])
    t.match(labels[0]?.text, `forwardauth.${option}`)
  t.match(labels[0]?.text, /forwardauth\.authResponseHeaders=\S+,Authorization$/m)
})
