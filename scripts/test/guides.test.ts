// The guides for people with one thing to do: what they have at the end, numbered steps, what to do when it fails.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROXY_NAMES } from '@gatehouse/service-kit/proxies'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { explain } from '../../services/forward-auth/src/cli/explain.ts'
import { loadForwardAuthConfig } from '../../services/forward-auth/src/config/load.ts'
import { ROOT, readDocuments } from './markdown.ts'
import { statusOfCodes } from './reference-pages.ts'

const LAST = 'When it does not work'
/** In italics, and not from the doctor. */
const PROXY_SAYS = new Set(['Request Header Or Cookie Too Large', 'Request Entity Too Large'])
const FIRST_STEP = '1. Configure forward-auth'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const sectionsOf = (text: string): string[] => text.split(/^## /m).slice(1)
const titleOf = (section: string): string => section.split('\n', 1)[0] ?? ''

const CODES = statusOfCodes()
/** Sentences of the doctor, in the parts between what differs from case to case. */
const SENTENCES = [
  ...read('services/forward-auth/src/doctor/diagnose.ts').matchAll(/`([^`]+)\.`|'([^']+)\.'/g),
].map(([, template, text = '']) => (template ?? text).split(/\$\{(?:[^{}]|\{[^}]*\})*\}/))

const isFrom = (sentence: string, [start = '', ...parts]: readonly string[]): boolean =>
  sentence.startsWith(start) && parts.every((part) => sentence.includes(part))

const guides = [
  ...PROXY_NAMES.map((name) => `docs/${name}.md`),
  'docs/systemd.md',
  'docs/homelab.md',
  'docs/homelab-certificates.md',
  'docs/providers/*.md',
  'docs/moving-*.md',
  'docs/auth-core.md',
  'docs/kubernetes.md',
].flatMap((pattern) => [...readDocuments(pattern)])

for (const { file } of guides)
  t.test(file, async (t) => {
    const text = read(file)
    const sections = sectionsOf(text)
    t.match(text, /^# .+\n\nAt the end of this guide, /, 'says first what one has at the end')
    const numbers = sections.flatMap((section) => /^(\d+)\. /.exec(section)?.[1] ?? [])
    t.ok(numbers.length >= 3, 'has steps')
    t.strictSame(
      numbers.map(Number),
      numbers.map((_, n) => n + 1),
      'numbers them in order',
    )
    const last = sections.at(-1) ?? ''
    t.equal(titleOf(last), LAST)
    const rows = last.split('\n').filter((line) => /^\| (?!---|You see)/.test(line))
    t.ok(rows.length >= 3, 'knows what goes wrong')
    const unknown = (last.match(/\b(?:FWA|CERT)_[A-Z_]+/g) ?? []).filter((code) => !CODES.has(code))
    t.strictSame(unknown, [], 'names codes that exist')
  })

for (const name of PROXY_NAMES)
  t.test(`the guide of ${name}`, async (t) => {
    const text = read(`docs/${name}.md`)
    const [first = '', ...others] = sectionsOf(text)
    t.equal(titleOf(first), FIRST_STEP)
    t.ok(
      others.some((section) =>
        section.includes(`gatehouse-auth doctor https://app.example.com --proxy ${name} `),
      ),
      'ends its steps with the doctor',
    )
    // An ellipsis stands for what differs from case to case.
    const quoted = [
      ...(others.at(-1) ?? '').matchAll(/(?<=^\|.*?)\*([^*|]+)\*(?=.*\|.*\|$)/gm),
    ].map(([, sentence = '']) => sentence)
    const ofDoctor = quoted.filter((sentence) => !PROXY_SAYS.has(sentence))
    t.ok(ofDoctor.length >= 3, 'says what the findings of the doctor mean')
    for (const sentence of ofDoctor)
      t.ok(
        SENTENCES.some((parts) => isFrom(sentence, parts)),
        sentence,
      )
  })

t.test('the homelab: rules for groups and the key of an e-reader fit together', async (t) => {
  const blocks = [...read('docs/homelab.md').matchAll(/^```yaml forward-auth\n(.*?)^```/gms)]
  const [rules, keys] = blocks.map(([, yaml = '']) => parse(yaml))
  const [portal] = rules.portals
  const [{ policies, callers }] = keys.portals
  const provider = {
    type: 'openIDConnect',
    name: 'corp',
    issuerUrl: 'https://id.lab.home.arpa',
    clientId: 'a',
    clientSecret: 'b',
  }
  const merged = (added: object) =>
    stringify({ ...rules, portals: [{ providers: [provider], ...portal, ...added }] }).replace(
      '/etc/gatehouse/ereader.key',
      'ereader.key',
    )
  const folder = testFolder(t, {
    data: {},
    'ereader.key': 'correct-horse-battery-staple',
    'bob.json': JSON.stringify({ sub: 'bob', groups: ['guests'] }),
    'ada.json': JSON.stringify({ sub: 'ada', groups: ['family'] }),
    'whole.yaml': merged({ callers, policies: { ...portal.policies, ...policies } }),
    'keys-alone.yaml': merged({ callers }),
  })
  const load = (file: string) =>
    loadForwardAuthConfig(`${folder}/${file}`, {}, { beforeStart: true })
  const { value, warnings } = await load('whole.yaml')
  t.strictSame(warnings, [])
  const table = [
    ['psk:ereader', 'books', /^decision: 200, passes, with an identity$/m],
    ['psk:ereader', 'photos', /^decision: 403 FWA_FORBIDDEN, refused by hosts$/m],
    [`${folder}/ada.json`, 'books', /^decision: 200, passes, with an identity$/m],
    [`${folder}/bob.json`, 'books', /^decision: 403 FWA_FORBIDDEN, refused by policy family/m],
  ] as const
  for (const [as, host, decision] of table)
    t.match(await explain(value, { as, host: `${host}.lab.home.arpa`, path: '/opds' }, 0), decision)
  const locked = await load('keys-alone.yaml')
  t.match(locked.warnings, [
    /keys\/0\/hosts\/0 is where this key can pass nowhere: it does not meet `family`\. Let a policy ask for a scope of the key too, .*\(line \d+/,
  ])
})
