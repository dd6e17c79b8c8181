import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ROOT, readDocument } from './markdown.ts'

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

interface Element {
  readonly type: string
  readonly id?: string
  readonly attributes: {
    readonly label?: string
    readonly value?: string
    readonly description?: string
    readonly options?: readonly unknown[]
  }
}

const TYPES = ['markdown', 'textarea', 'input', 'dropdown', 'checkboxes']
const COMMANDS = [
  'gatehouse-auth check-config',
  'gatehouse-certs check-config',
  'gatehouse-auth doctor',
]

t.test('issue forms are what GitHub takes, and warn of secrets', async (t) => {
  const files = globSync('.github/ISSUE_TEMPLATE/*.yml', { cwd: ROOT }).sort()
  t.strictSame(
    files.map((file) => file.split('/').at(-1)),
    ['bug.yml', 'config.yml', 'feature.yml', 'question.yml'],
  )
  for (const file of files.filter((file) => !file.endsWith('config.yml'))) {
    const { name, description, labels, body } = parse(read(file))
    t.match({ name, description, labels }, { name: /\w/, description: /\w/, labels: [/\w/] }, file)
    const elements: readonly Element[] = body
    for (const { type, id, attributes } of elements) {
      t.ok(TYPES.includes(type), `${file}: ${type}`)
      if (type === 'markdown') t.match(attributes.value, /\w/, file)
      else t.match({ id, ...attributes }, { id: /^[\w-]+$/, label: /\w/ }, file)
      if (type === 'dropdown' || type === 'checkboxes')
        t.ok(attributes.options?.length, `${file}: ${id}`)
    }
    const ids = elements.flatMap(({ id }) => id ?? [])
    t.equal(new Set(ids).size, ids.length, `${file} has each id once`)
    t.match(read(file), /secret/i, `${file} warns of secrets`)
  }
  t.strictSame(parse(read('.github/ISSUE_TEMPLATE/config.yml')), { blank_issues_enabled: false })
  for (const command of COMMANDS) t.match(read('.github/ISSUE_TEMPLATE/bug.yml'), command)
})

t.test('files and commands that these pages name are there', async (t) => {
  const pages = [
    'CODE_OF_CONDUCT.md',
    ...globSync('.github/{*,ISSUE_TEMPLATE/*}.{md,yml}', { cwd: ROOT }),
  ]
  for (const page of pages)
    for (const [file] of read(page).matchAll(/\b(?:docs\/)?[\w-]+\.md\b|\bdocs\/reference\b/g)) {
      const ofFastify = page.endsWith('ecosystem.md')
      if (!ofFastify) t.ok(globSync(file, { cwd: ROOT }).length, `${page}: ${file}`)
    }
  t.match(read('SECURITY.md'), /three working days/, 'the time that the code of conduct repeats')
})

t.test('the entry for the list of Fastify is a plugin that is published', async (t) => {
  const [block] = readDocument('.github/fastify-ecosystem.md').blocks
  const [, name, folder] =
    /^- \[`([^`]+)`\]\(https:\/\/github\.com\/OWNER\/gatehouse\/tree\/main\/([^)]+)\)\n {2}[A-Z]/.exec(
      block?.text ?? '',
    ) ?? []
  t.equal(JSON.parse(read(`${folder}/package.json`)).name, name)
  t.match(block?.text, /\.\n?$/)
  for (const line of block?.text.split('\n') ?? [])
    t.ok(line.startsWith('- [') || line.length <= 80, line)
})

t.test('Renovate updates all that is pinned, and nothing that is new', async (t) => {
  const renovate = JSON.parse(read('renovate.json'))
  t.match(renovate, { minimumReleaseAge: /^\d+ days$/, internalChecksFilter: 'strict' })
  t.ok(renovate.extends.includes('helpers:pinGitHubActionDigests'))
  const kinds: [manager: string, files: string][] = [
    ['npm', 'pnpm-workspace.yaml'],
    ['github-actions', '.github/workflows/*.yml'],
    ['dockerfile', 'Dockerfile'],
    ['docker-compose', '*compose*.yml'],
    ['helm-values', 'deploy/helm/*/values.yaml'],
  ]
  for (const [manager, files] of kinds) {
    t.ok(globSync(files, { cwd: ROOT }).length, files)
    t.ok(renovate.enabledManagers.includes(manager), manager)
  }
})

t.test(
  'the next Fastify is tried by a job that may fail, and nothing else waits for it',
  async (t) => {
    const { on, jobs } = parse(read('.github/workflows/fastify-next.yml'))
    t.strictSame(Object.keys(on), ['schedule', 'workflow_dispatch'])
    t.match(jobs.try, { 'continue-on-error': true, steps: [{}, { run: 'bash .ci/fastify-next' }] })
    t.match(read('.ci/fastify-next'), 'GATEHOUSE_FASTIFY=')
  },
)
