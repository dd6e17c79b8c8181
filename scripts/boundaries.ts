import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Which of our packages each unit may import, and which of its files may import fastify. */
const UNITS: Record<string, { siblings: readonly string[]; fastify: RegExp | undefined }> = {
  'packages/net': { siblings: [], fastify: undefined },
  'packages/profile': { siblings: [], fastify: undefined },
  'packages/pki': { siblings: ['net'], fastify: undefined },
  'packages/acme': { siblings: ['net', 'pki'], fastify: undefined },
  'packages/auth-core': { siblings: ['net'], fastify: /^(plugin|index)\.ts$/ },
  'packages/service-kit': { siblings: ['net'], fastify: /^(?!config\/)/ },
  'services/cert-service': {
    siblings: ['net', 'pki', 'acme', 'auth-core', 'service-kit'],
    fastify: /^(app\.ts|plugins\/|routes\/)/,
  },
  'services/forward-auth': {
    siblings: ['net', 'profile', 'auth-core', 'service-kit'],
    fastify: /^(app\.ts|plugins\/|routes\/)/,
  },
}

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*['"]([^'"]+)['"]/g

/** Every import below `root` that goes against the direction the layout fixes, one line each. */
export function boundaryViolations(root: string): string[] {
  return Object.entries(UNITS).flatMap(([unit, rule]) =>
    globSync('**/*.ts', { cwd: join(root, unit, 'src') }).flatMap((file) =>
      importsOf(readFileSync(join(root, unit, 'src', file), 'utf8'))
        .filter((specifier) => !allowed(specifier, file, rule))
        .map((specifier) => `${unit}/src/${file} may not import ${specifier}`),
    ),
  )
}

/** The module specifiers that a source text imports, statically or not, as types or values. */
export function importsOf(source: string): string[] {
  return [...source.matchAll(IMPORT)].map((match) => match[1] as string)
}

function allowed(specifier: string, file: string, rule: (typeof UNITS)[string]): boolean {
  const sibling = /^@gatehouse\/([^/]+)/.exec(specifier)?.[1]
  if (sibling) return rule.siblings.includes(sibling)
  if (/^@?fastify(\/|-plugin$|$)/.test(specifier) && specifier !== '@fastify/error')
    return rule.fastify?.test(file) ?? false
  if (specifier.startsWith('.')) return !/\.\.\/(packages|services)\//.test(specifier)
  return true
}
