import {
  buildChainPem,
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  parseName,
  toPem,
} from '@gatehouse/pki'

const MINUTE = 60_000
const DAY = 86_400_000

/** A private CA for the servers of a test. */
export interface TestCa {
  /** PEM. */
  readonly root: string
  /** A certificate with its chain, and its key, as PEM. */
  certificateFor(...names: readonly string[]): { readonly cert: string; readonly key: string }
}

/** @param from - when its certificates begin to be valid, in ms; they are so for ten days */
export async function createTestCa(from = Date.now() - MINUTE): Promise<TestCa> {
  const root = await createRoot({ commonName: 'Test root', now: from })
  const authority = await createIntermediate({ root, commonName: 'Test R1', now: from })
  const signer = createLeafSigner(authority)
  return {
    root: toPem('CERTIFICATE', root.certificate),
    certificateFor(...names) {
      const key = generateP256()
      const leaf = signer.sign({
        spki: key.spki,
        keyType: key.type,
        names: names.map(parseName),
        serial: createSerial(from),
        notBefore: from,
        notAfter: from + 10 * DAY,
      })
      return {
        cert: buildChainPem(leaf, authority.chain),
        key: toPem('PRIVATE KEY', key.pkcs8),
      }
    },
  }
}
