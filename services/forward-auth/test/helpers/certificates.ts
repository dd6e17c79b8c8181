import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createTestCa } from '../../../../scripts/test/certificates.ts'

/** A certificate of a private CA, in files: `crt`, `key`, and `pem` with both. */
export async function issueCertificate(folder: string, names: readonly string[]) {
  const ca = await createTestCa()
  const { cert, key } = ca.certificateFor(...names)
  const write = (name: string, content: string) => {
    const file = join(folder, name)
    writeFileSync(file, content, { mode: 0o600 })
    return file
  }
  return {
    rootPem: ca.root,
    crt: write('tls.crt', cert),
    key: write('tls.key', key),
    pem: write('tls.pem', cert + key),
  }
}

export type Certificate = Awaited<ReturnType<typeof issueCertificate>>
