import { join } from 'node:path'
import t from 'tap'
import { boundaryViolations, importsOf } from '../boundaries.ts'

const root = join(import.meta.dirname, '../..')

t.test('no unit imports against the direction of the layout', async (t) => {
  t.strictSame(boundaryViolations(root), [])
})

t.test('a violation is found, whatever the form of the import', async (t) => {
  const dir = t.testdir({
    packages: {
      net: { src: { 'a.ts': "import type { X } from '@gatehouse/pki'\n" } },
      pki: { src: { 'b.ts': "const x = await import('fastify')\n" } },
    },
    services: {
      'cert-service': {
        src: {
          'policy.ts': "export type { FastifyRequest } from 'fastify'\n",
          routes: { 'ok.ts': "import type { FastifyInstance } from 'fastify'\n" },
        },
      },
    },
  })
  t.strictSame(boundaryViolations(dir).sort(), [
    'packages/net/src/a.ts may not import @gatehouse/pki',
    'packages/pki/src/b.ts may not import fastify',
    'services/cert-service/src/policy.ts may not import fastify',
  ])
})

t.test('importsOf sees static, dynamic, type and side-effect imports', async (t) => {
  const source = `import 'a'\nimport { b } from "b"\nexport * from './c.ts'\nawait import('d')\n`
  t.strictSame(importsOf(source), ['a', 'b', './c.ts', 'd'])
})
