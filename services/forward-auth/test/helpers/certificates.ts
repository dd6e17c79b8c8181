import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  buildChainPem,
  clampValidity,
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  parseName,
  toPem,
} from '@gatehouse/pki'

const DAY = 86_400_000

/** A certificate of a private CA, in files: `crt`, `key`, and `pem` with both. */
export async function issueCertificate(folder: string, names: readonly string[]) {
  const now = Date.now()
  const root = await createRoot({ commonName: 'Test Root', now })
  const intermediate = await createIntermediate({ root, commonName: 'Test', now, permitted: [] })
  const key = generateP256()
  const der = createLeafSigner(intermediate, {}).sign({
    spki: key.spki,
    keyType: key.type,
    names: names.map(parseName),
    serial: createSerial(now),
    ...clampValidity(intermediate, { notBefore: now - 60_000, notAfter: now + DAY }),
  })
  const crt = buildChainPem(der, intermediate.chain)
  const keyPem = toPem('PRIVATE KEY', key.pkcs8)
  const write = (name: string, content: string) => {
    const file = join(folder, name)
    writeFileSync(file, content, { mode: 0o600 })
    return file
  }
  return {
    rootPem: toPem('CERTIFICATE', root.certificate),
    crt: write('tls.crt', crt),
    key: write('tls.key', keyPem),
    pem: write('tls.pem', crt + keyPem),
  }
}

export type Certificate = Awaited<ReturnType<typeof issueCertificate>>
