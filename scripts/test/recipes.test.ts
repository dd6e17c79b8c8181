// Follows the recipes of CONTRIBUTING.md: their files are those that name the example of the recipe, and no others.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { codeOf, ROOT } from './markdown.ts'

/** The example of a recipe: how it is written there, what names it in a file, and where it counts. */
interface Example {
  readonly name: string
  readonly words: readonly RegExp[]
  readonly within?: string
  /** How many files it may touch. */
  readonly most?: number
  /** Files that use the example, rather than make it work. */
  readonly users?: readonly string[]
}

const EXAMPLES: Readonly<Record<string, Example>> = {
  'A header preset': {
    name: '`tailscale-*`',
    words: [/tailscale-\*/],
    users: ['docs/providers/tailscale.md', 'services/forward-auth/test/config/rules.test.ts'],
  },
  'A DNS provider': { name: '`route53`', words: [/route53/i] },
  'An identity provider': {
    name: '`pocketID`',
    words: [/pocket[- ]?id/i],
    most: 6,
    users: [
      ...['docs/homelab.md', 'scripts/screenshots.ts', 'scripts/test/integration/homelab.ts'],
      // Where they say what the homelab consists of.
      ...['README.md', 'docs/README.md'],
      // Threads of its tracker.
      'services/forward-auth/test/clients/agents.test.ts',
    ],
  },
  'A column': {
    name: '`revocationReason`',
    words: [/\brevocation(Reason|_reason)\b/],
    within: '**/{store,cert-store}/**',
  },
  'A language of the pages': {
    name: '`fr`',
    words: [/\bfr\b|French/],
    users: [
      'services/forward-auth/test/pages/look.test.ts',
      'services/forward-auth/test/check/by-hand.test.ts',
      // Times as browsers write them.
      'packages/service-kit/test/http/time.test.ts',
    ],
  },
  'A proxy': {
    name: 'HAProxy',
    // The others tell what names all of them, and is no part of one.
    words: [/traefik/i, /nginx/i, /caddy/i, /haproxy/i, /envoy/i],
    most: 10,
    // They have tests of what one proxy alone does.
    users: [
      'scripts/test/proxies.test.ts',
      'services/forward-auth/test/integration/proxies.test.ts',
    ],
  },
}

/** What names an example for reasons of its own: history, other products, and what is generated. */
const OTHERS = [
  '{CHANGELOG,CONTRIBUTING}.md',
  'docs/{reference/**,moving-from-*,comparison.md,proxies.md}',
  '**/migrate/**',
  'scripts/test/{recipes,moving-guides}.test.ts',
  '**/{node_modules,dist}/**',
]

const text = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8')
const RECIPES = new Map(
  text
    .slice(text.indexOf('\n## Recipes\n'), text.indexOf('\n## Releasing\n'))
    .split('\n### ')
    .slice(1)
    .map((section) => [section.split('\n', 1)[0] ?? '', section] as const),
)

/** The files at the beginning of each step, up to its colon. */
const filesOf = (recipe: string) =>
  [...recipe.matchAll(/^\d+\. (.+?):(?=\s)/gms)].flatMap(([, files = '']) => codeOf(files))

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

function filesThatName({ words, within = '{.ci/run,**/*.{ts,md}}', users = [] }: Example) {
  return globSync(within, { cwd: ROOT, exclude: [...OTHERS, ...users] })
    .filter((file) => /\.\w+$|run$/.test(file))
    .filter((file) => words.every((word) => word.test(read(file))))
}

t.test('each recipe has an example, and each example a recipe', async (t) => {
  t.strictSame([...RECIPES.keys()], Object.keys(EXAMPLES))
})

for (const [title, example] of Object.entries(EXAMPLES)) {
  const recipe = RECIPES.get(title) ?? ''

  t.test(`${title}: the recipe lists the files that name its example, and no others`, async (t) => {
    t.ok(recipe.includes(example.name), `names ${example.name}`)
    const files = filesOf(recipe)
    t.ok(files.length <= (example.most ?? files.length), `${files.length} files`)
    for (const file of files) {
      t.ok(existsSync(join(ROOT, file)), `${file} is there`)
      t.ok(
        example.words.some((word) => word.test(read(file) + file)),
        `${file} names the example`,
      )
    }
    const missing = filesThatName(example).filter((file) => !files.includes(file))
    t.strictSame(missing, [], 'no other file names the example')
  })

  t.test(`${title}: the recipe ends with a command that runs tests of its files`, async (t) => {
    const [, command = ''] = /^```sh\n(.+?)\n```/ms.exec(recipe) ?? []
    const tests = command.split(/\s+/).filter((word) => word.endsWith('.test.ts'))
    t.ok(tests.length > 0, 'runs tests')
    for (const file of tests) t.ok(existsSync(join(ROOT, file)), `${file} is there`)
    const listed = filesOf(recipe).filter((file) => /(?<!integration\/)\w+\.test\.ts$/.test(file))
    for (const file of listed.filter((file) => !file.includes('/integration/')))
      t.ok(tests.includes(file), `runs ${file}`)
  })
}
