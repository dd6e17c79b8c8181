import {
  buildChainPem,
  clampValidity,
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  parseCsr,
  toPem,
} from '@gatehouse/pki'

/** A root that signs for the scripted CA, by way of an intermediate. */
export interface ChainIssuer {
  readonly rootPem: string
  /** The chain in PEM, without the root. */
  issue(csr: Uint8Array, now: number, lifetimeMs: number): Promise<string>
}

export async function createChainIssuer(commonName: string, now: number): Promise<ChainIssuer> {
  const root = await createRoot({ commonName, now })
  const authority = await createIntermediate({ root, commonName: `${commonName} R1`, now })
  const signer = createLeafSigner(authority)
  return {
    rootPem: toPem('CERTIFICATE', root.certificate),
    async issue(csr, now, lifetimeMs) {
      const { spki, keyType, names } = await parseCsr(csr)
      const asked = { notBefore: now - 60_000, notAfter: now + lifetimeMs }
      const validity = clampValidity(authority, asked)
      const leaf = signer.sign({ spki, keyType, names, serial: createSerial(now), ...validity })
      return buildChainPem(leaf, authority.chain)
    },
  }
}
