import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { CERT_ERRORS } from '../../../services/cert-service/src/errors.ts'
import { CLIENT_ERRORS } from '../src/errors.ts'

const SRC = join(import.meta.dirname, '../src')

t.test('every code is thrown somewhere, and none is thrown that is not listed', async (t) => {
  const files = (await readdir(SRC, { recursive: true })).filter(
    (file) => file.endsWith('.ts') && file !== 'errors.ts',
  )
  const text = (await Promise.all(files.map((file) => readFile(join(SRC, file), 'utf8')))).join('')
  const used = new Set([...text.matchAll(/(?<=['"])CERT_[A-Z_]+(?=['"])/g)].map(([code]) => code))
  // The others are codes of the service, which the client knows from its answers.
  const own = [...used].filter((code) => !Object.hasOwn(CERT_ERRORS, code))
  t.strictSame(own.sort(), Object.keys(CLIENT_ERRORS).sort())
})
